"""The inputs of `counterpoint view`: a Timeline, two that are compared, extracts, or a study."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import chain
from os.path import isdir
from pathlib import Path
from typing import TYPE_CHECKING

from counterpoint.cli.options import Last, Machine, Memory, Steps, flat
from counterpoint.cli.pages import compared_page, explained_page, page_of, study_page
from counterpoint.cli.profiles import (
    as_typed,
    check_paths,
    find_run,
    memory_in_bytes,
    recorded_on,
    refuse_directory_of_runs,
)
from counterpoint.cli.progress import Progress
from counterpoint.core import InputError, UsageError
from counterpoint.core.arguments import option_of
from counterpoint.runs.layout import is_run
from counterpoint.timeline.marked import is_large, marked_steps
from counterpoint.timeline.step_range import step_range
from counterpoint.timeline.storage.parquet import is_timeline
from counterpoint.view.page import LivePage, PageContent, title_of
from counterpoint.view.prepared import PreparedPage, find_page, key_of

if TYPE_CHECKING:
    from counterpoint.hardware.target import Target
    from counterpoint.runs.run import Run
    from counterpoint.timeline.model import Timeline

_ROWS = 20


@flat
@dataclass(frozen=True, kw_only=True)
class ViewOptions:
    """Options for the input."""

    target: Machine = None
    steps: Steps = None
    last: Last = None
    memory: Memory = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Read:
    """An input that was read: what is shown, and the rest of the work, which adds its results."""

    content: PageContent
    explain: Callable[[LivePage], None] | None = None

    @property
    def spans(self) -> int:
        return sum(len(timeline.spans) for timeline in self.content.timelines)


Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Opened:
    """A page that can be shown, and how to get what it still lacks.

    `read` takes what is to be told meanwhile; None: that was done, and `found` has it, or the page
    was kept. `preview` returns what can be shown at once. `key` is that of the page in the cache;
    None: it is there, or is not kept.
    """

    title: str
    page: LivePage | PreparedPage
    key: str | None = None
    found: Read | None = None
    preview: Callable[[], Sequence[Timeline]] | None = None
    read: Callable[[Tell], Read] | None = None


def open_input(paths: tuple[str, ...], other: str | None, options: ViewOptions) -> Opened:
    """Take the page that was made of the input before; read it now if it is small, else later."""
    every = (*paths, *([] if other is None else [other]))
    key = key_of(every, asdict(options) | {"with": other})
    if (kept := find_page(key)) is not None:
        return Opened(title=kept.title, page=kept)
    if other is None and len(set(paths)) == 2 and (all(map(is_run, paths)) or _any_whole(paths)):
        paths, other = paths[:1], paths[1]
    if other is None and (extracts := _extracts(paths, options)):
        return _at_once(Read(content=_extracts_page(extracts)), key)
    if other is None and len(paths) == 1 and (study := _study(Path(paths[0]))):
        return _at_once(study, key)
    _refuse_studies(every)
    if other is None:
        reader = _explained(paths, options)
        preview = None if options.steps or options.last else partial(_marked, paths)
    else:
        reader, preview = _compared(paths, other, options), partial(_marked, paths, (other,))
    if not is_large(every):
        return _at_once(reader(lambda _: None), key)
    title = title_of(as_typed(paths))
    page = LivePage(page_of(title, {}, {}))
    return Opened(title=title, page=page, key=key, preview=preview, read=reader)


def _any_whole(paths: Sequence[str]) -> bool:
    """Return whether one is a stored or predicted Timeline, which is never a host among others."""
    return any(is_timeline(Path(path)) for path in paths)


def _marked(*sides: Sequence[str]) -> list[Timeline]:
    """Return what is known of each side before it is read; nothing if one is not known."""
    found = [timeline for paths in sides if (timeline := marked_steps(paths))]
    return found if len(found) == len(sides) else []


def _at_once(found: Read, key: str | None) -> Opened:
    title = found.content.title
    return Opened(title=title, page=LivePage(found.content), key=key, found=found)


def _explained(paths: tuple[str, ...], options: ViewOptions) -> Callable[[Tell], Read]:
    """Check the options; return what reads the input."""
    step_range(options.steps, options.last)
    check_paths(paths, _ROWS, "view")
    run = find_run(paths)
    target = recorded_on(options.target)

    def read_it(tell: Tell) -> Read:
        timeline = _with_devices(_read(paths, options, tell))
        content = page_of(title_of(as_typed(paths)), {}, {}, [timeline])
        return Read(content=content, explain=partial(_explain, timeline, paths, run, target))

    return read_it


def _read(paths: tuple[str, ...], options: ViewOptions, tell: Tell) -> Timeline:
    from counterpoint.timeline.reading import read

    memory = memory_in_bytes(options.memory)
    with Progress("reading", listener=tell) as progress:
        try:
            return read(
                *paths,
                progress=progress.read,
                jobs=None,
                memory_bytes=memory,
                steps=options.steps,
                last=options.last,
            )
        except InputError:
            refuse_directory_of_runs(paths)
            raise


def _explain(
    timeline: Timeline,
    paths: tuple[str, ...],
    run: Run | None,
    target: Target | None,
    page: LivePage,
) -> None:
    from counterpoint.diagnose.explanation import explain
    from counterpoint.report.explain.explain_document import explain_document
    from counterpoint.report.explain.explain_json import explain_json

    explanation = explain(timeline, run=run, target=target)
    document = explain_document(explanation, _ROWS, run, as_typed(paths))
    text = explain_json(explanation, run)
    whole = explained_page(timeline, explanation, document, text, as_typed(paths), run, target)
    page.add(whole.reports, whole.results)


def _with_devices(timeline: Timeline) -> Timeline:
    """Return the Timeline; raise the error of `explain` before a page without devices is shown."""
    from counterpoint.diagnose.explanation import explain

    if not timeline.devices:
        explain(timeline)
    return timeline


def _compared(paths: tuple[str, ...], other: str, options: ViewOptions) -> Callable[[Tell], Read]:
    """Check the options; return what reads both inputs and compares them."""
    if len(paths) != 1:
        raise UsageError(
            f"--with compares one input with another, and {len(paths)} are named",
            next="counterpoint view A --with B",
        )
    if options != ViewOptions(target=None, steps=None, last=None, memory=None):
        raise UsageError("--target, --steps, --last and --memory are for one input, without --with")

    def read_them(tell: Tell) -> Read:
        from counterpoint.diagnose.compare.comparison import compare
        from counterpoint.report.explain.compare_document import compare_document
        from counterpoint.report.explain.compare_json import compare_json

        with Progress("reading", listener=tell) as progress:
            try:
                found = compare(paths, (other,), progress=progress.read)
            except InputError:
                refuse_directory_of_runs((*paths, other))
                raise
        document = compare_document(found, _ROWS)
        return Read(content=compared_page(found, document, compare_json(found)))

    return read_them


def _extracts(paths: tuple[str, ...], options: ViewOptions) -> tuple[str, ...]:
    """Return the files of extracts that the paths are, or directories of them; none if others."""
    each = [sorted(map(str, Path(p).iterdir())) if _is_directory(p) else [p] for p in paths]
    files = (*chain.from_iterable(each),)
    if not all(each) or not all(file.endswith(".extract.parquet") for file in files):
        return ()
    if asked := [name for name, value in asdict(options).items() if value is not None]:
        raise UsageError(
            f"{option_of(asked[0])} is not for extracts", next=f"omit {option_of(asked[0])}"
        )
    return files


def _extracts_page(paths: tuple[str, ...]) -> PageContent:
    """Return the page of kept extracts, as `explain --executor local --html` writes it."""
    from counterpoint.cli.explain_fleet import FLEET, ROWS_OF_PAGE
    from counterpoint.fleet.fleet import arrange
    from counterpoint.fleet.local import LocalExecutor
    from counterpoint.fleet.summary import summarize
    from counterpoint.fleet.tasks import gather_extracts
    from counterpoint.report.explain.fleet_document import fleet_document
    from counterpoint.report.explain.fleet_json import fleet_json

    gathering = gather_extracts(paths, LocalExecutor(1), memory_bytes=1 << 30)
    summary, named = summarize(arrange(gathering.extracts), gathering), as_typed(paths)
    document = fleet_document(summary, named, ROWS_OF_PAGE)
    return page_of(title_of(named), {"explain": document}, {FLEET: fleet_json(summary, named)})


def _refuse_studies(paths: tuple[str, ...]) -> None:
    """Refuse a study among other inputs: it is not one timeline that could stand beside another."""
    directories = [path for path in paths if _is_directory(path)]
    if not directories:
        return
    from counterpoint.tune.study import is_study

    for path in directories:
        if is_study(Path(path)):
            raise UsageError(
                f"{path} is a study, which is shown alone",
                why="only its predicted steps have timelines: the directories in its steps/",
                next=f"counterpoint view {shlex.quote(path)}",
            )


def _is_directory(path: str | Path) -> bool:
    return isdir(path)  # noqa: PTH112 - Path.is_dir fails for a name that is too long


def _study(directory: Path) -> Read | None:
    """Read a study; None if this is something else."""
    if not _is_directory(directory):
        return None
    from counterpoint.tune.study import is_study, plan_of, read_study

    if not is_study(directory):
        return None
    from counterpoint.cli.tune_show import next_command
    from counterpoint.tune.conclusion import conclude

    study = read_study(directory)
    conclusion = conclude(study, plan_of(study))
    next_line = next_command(conclusion, study, directory)
    return Read(content=study_page(conclusion, directory, _ROWS, next_line))
