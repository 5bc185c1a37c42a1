"""What `counterpoint view` shows: a Timeline, two that are compared, or a study."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from counterpoint.cli.pages import compared_page, explained_page, page_of, study_page, title_of
from counterpoint.cli.profiles import (
    as_typed,
    check_options,
    find_run,
    read_and_analyze,
    refuse_directory_of_runs,
)
from counterpoint.cli.progress import Progress
from counterpoint.core import InputError, UsageError
from counterpoint.core.frozen import frozen
from counterpoint.runs import is_run
from counterpoint.timeline.step_range import step_range
from counterpoint.tune.study import is_study, plan_of, read_study
from counterpoint.view import LivePage, PageContent, PreparedPage, find_page, key_of

if TYPE_CHECKING:
    from counterpoint.timeline import Timeline

_ROWS = 20


@frozen(kw_only=True)
class ViewOptions:
    """Options for the input."""

    target: str | None
    steps: str | None
    last: int | None
    memory: float | None


@frozen(kw_only=True, eq=False)
class Opened:
    """A page that can be shown, and the rest of the work, if any, which adds its results.

    `key` is that of the page in the cache; None: it is there, or is not kept.
    """

    title: str
    page: LivePage | PreparedPage
    key: str | None = None
    spans: int = 0
    explain: Callable[[], None] | None = None


def open_input(paths: tuple[str, ...], other: str | None, options: ViewOptions) -> Opened:
    """Read the input, or take the page that was made of it before."""
    key = key_of((*paths, *([] if other is None else [other])), asdict(options) | {"with": other})
    if (kept := find_page(key)) is not None:
        return Opened(title=kept.title, page=kept)
    return replace(_read_input(paths, other, options), key=key)


def _read_input(paths: tuple[str, ...], other: str | None, options: ViewOptions) -> Opened:
    if other is None and len(set(paths)) == 2 and all(map(is_run, paths)):
        paths, other = paths[:1], paths[1]
    if other is not None:
        return _compared(paths, other, options)
    if len(paths) == 1 and is_study(Path(paths[0])):
        return _study(Path(paths[0]))
    return _explained(paths, options)


def _opened(content: PageContent, explain: Callable[[LivePage], None] | None = None) -> Opened:
    page = LivePage(content)
    return Opened(
        title=content.title,
        page=page,
        spans=sum(len(timeline.spans) for timeline in content.timelines),
        explain=None if explain is None else partial(explain, page),
    )


def _explained(paths: tuple[str, ...], options: ViewOptions) -> Opened:
    from counterpoint.diagnose import explain
    from counterpoint.hardware.targets import parse_target
    from counterpoint.report.explain import explain_document, explain_json

    step_range(options.steps, options.last)
    check_options(paths, _ROWS, None, "view", json=False, force=False)
    run = find_run(paths)
    target = None if options.target is None else parse_target(options.target)
    timeline = read_and_analyze(
        paths,
        _with_devices,
        "opening",
        jobs=None,
        memory_gb=options.memory,
        steps=options.steps,
        last=options.last,
    )

    def add(page: LivePage) -> None:
        explanation = explain(timeline, run=run, target=target)
        document = explain_document(explanation, _ROWS, run, as_typed(paths))
        text = explain_json(explanation, run)
        whole = explained_page(
            timeline, explanation, document, text, (as_typed(paths), run, target)
        )
        page.add(whole.reports, whole.results)

    return _opened(page_of(title_of(as_typed(paths)), {}, {}, [timeline]), add)


def _with_devices(timeline: Timeline) -> Timeline:
    """Return the Timeline; raise the error of `explain` before a page without devices is shown."""
    from counterpoint.diagnose import explain

    if not timeline.devices:
        explain(timeline)
    return timeline


def _compared(paths: tuple[str, ...], other: str, options: ViewOptions) -> Opened:
    from counterpoint.diagnose.compare import compare
    from counterpoint.report.explain import compare_document, compare_json

    if len(paths) != 1:
        raise UsageError(
            f"--with compares one input with another, and {len(paths)} are named",
            next="counterpoint view A --with B",
        )
    if options != ViewOptions(target=None, steps=None, last=None, memory=None):
        raise UsageError("--target, --steps, --last and --memory are for one input, without --with")
    with Progress("reading") as progress:
        try:
            found = compare(paths, (other,), progress=progress.read)
        except InputError:
            refuse_directory_of_runs((*paths, other))
            raise
    return _opened(compared_page(found, compare_document(found, _ROWS), compare_json(found)))


def _study(directory: Path) -> Opened:
    from counterpoint.cli.tune_show import next_command
    from counterpoint.tune.conclusion import conclude

    study = read_study(directory)
    conclusion = conclude(study, plan_of(study))
    next_line = next_command(conclusion, study, directory)
    return _opened(study_page(conclusion, directory, _ROWS, next_line))
