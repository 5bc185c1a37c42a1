"""Shared code of commands that read profiles or Runs: reading, printing, and checking options."""

from __future__ import annotations

import glob
import os
import re
import shlex
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from counterpoint.cli.output import check_output, write_output
from counterpoint.cli.printing import document_text, print_report, say_wrote, write_result
from counterpoint.cli.progress import Progress
from counterpoint.core import InputError, UsageError, refuse_url, unused_path
from counterpoint.core.bounds import check_number
from counterpoint.core.printable import printable
from counterpoint.runs.layout import find_runs, is_run
from counterpoint.runs.timeline import read

if TYPE_CHECKING:
    from counterpoint.cli.options import Output, Reading, Selection
    from counterpoint.hardware.target import Target
    from counterpoint.hardware.tpu import Tpu
    from counterpoint.pgle.applying.apply import AppliedProfile
    from counterpoint.pgle.profiles.profile import Profile
    from counterpoint.report.document import Document
    from counterpoint.runs.run import Run
    from counterpoint.timeline.model import Timeline


def find_run(paths: Sequence[str]) -> Run | None:
    """Return the Run among the paths, which must have a profile; None for none or several."""
    named = sorted({path for path in paths if is_run(path)})
    if len(named) != 1:
        return None
    run = _read(named[0])
    if not run.profiles:
        ending = "" if run.outcome.ok else f"{run.outcome}; "
        raise InputError(
            f"{named[0]}: {ending}this run has no profile",
            why=run.why_no_profile,
            next=_how_to_get_one(run, named[0]),
        )
    return run


def recorded_on(text: str | None) -> Target | None:
    """Return the Target that a profile was recorded on."""
    if text is None:
        return None
    from counterpoint.hardware.targets import parse_target

    return parse_target(text, tpus=True)


def refuse_directory_of_runs(paths: Sequence[str]) -> None:
    """Raise an error that names the newest run if a directory of runs was given."""
    for path in paths:
        if not _holds_runs(path):
            continue

        from counterpoint.runs.reader import list_runs

        known = list_runs(path)
        newest = ([run for run in known if run.profiles] or known)[-1:]
        inside = "1 run" if len(known) == 1 else f"{len(known)} runs"
        raise InputError(
            f"{path} is not a profile but a directory of {inside}",
            next=" ".join(f"counterpoint explain {shlex.quote(str(run.path))}" for run in newest)
            or f"counterpoint runs {shlex.quote(path)}",
        )


def _holds_runs(path: str) -> bool:
    try:
        return not is_run(path) and bool(find_runs(path))
    except InputError:
        return False  # no readable directory, which has been reported already


def _read(path: str) -> Run:
    """Read the Run; if it is damaged, raise an error that points to its remaining profiles."""
    from counterpoint.runs.reader import read_run

    try:
        return read_run(path)
    except InputError as damage:
        quoted = shlex.quote(path)
        whole = any(Path(path).glob("rank*/profile/plugins/profile/*/*.xplane.*"))
        next_ = f"counterpoint explain {quoted}/rank*/profile" if whole else None
        raise InputError(
            damage.what, why=damage.why, next=next_ or damage.next or f"ls {quoted}"
        ) from None


def _how_to_get_one(run: Run, shown: str) -> str:
    """Return the next command: wait, read the log, or repeat the run with a profile."""
    from counterpoint.report.run_commands import next_commands, profiled_run_command
    from counterpoint.runs.outcomes import OutcomeKind

    if run.outcome.kind is OutcomeKind.RUNNING:
        return f"counterpoint explain {shlex.quote(shown)}   # when it has ended"
    seen = any(rank.steps for rank in run.ranks)
    failed = next((r for r in run.ranks if r.outcome.kind is run.outcome.kind), None)
    if failed is not None and not run.outcome.ok and not seen:
        return f"less {shlex.quote(str(failed.stderr))}"
    if not any(rank.processes for rank in run.ranks):  # without JAX, nor would the next one have it
        log = next(iter(next_commands(run, Path(shown))), None)
        return log or profiled_run_command(run, Path(shown))
    return profiled_run_command(run, Path(shown))


Answer = TypeVar("Answer")


def read_and_analyze(
    paths: tuple[str, ...],
    answer: Callable[[Timeline], Answer],
    doing: str,
    selection: Selection,
    reading: Reading,
) -> Answer:
    """Read profiles, or some of their steps; return the answer, with progress on a terminal."""
    with Progress("reading") as progress:
        try:
            timeline = read(
                *paths,
                progress=progress.read,
                jobs=reading.jobs,
                memory_bytes=memory_in_bytes(reading.memory),
                steps=selection.steps,
                last=selection.last,
            )
        except InputError:
            refuse_directory_of_runs(paths)
            raise
        progress.say(doing)
        return answer(timeline)


def memory_in_bytes(gigabytes: float | None) -> int | None:
    """Return the value of `--memory` in bytes."""
    check_number("--memory", gigabytes, 0.1)
    return None if gigabytes is None else int(gigabytes * 1e9)


def as_typed(paths: Sequence[str]) -> tuple[str, ...]:
    """Return the paths, with names that the shell expanded from one pattern as that pattern."""
    distinct = list(dict.fromkeys(paths))
    prefix = os.path.commonprefix
    start = prefix(distinct)
    end = prefix([path.removeprefix(start)[::-1] for path in distinct])[::-1]
    pattern = f"{glob.escape(start)}*{glob.escape(end)}"
    if len(distinct) > 1 and sorted(glob.glob(pattern)) == sorted(distinct):  # noqa: PTH207
        return (pattern,)
    return tuple(paths)


def check_paths(paths: tuple[str, ...], top: int, command: str) -> None:
    """Refuse no paths, and tables without rows."""
    if not paths:
        raise UsageError("a profile is required", next=f"counterpoint {command} PATH")
    if top < 1:
        raise UsageError(f"--top must be at least 1, not {top}", next="use --top 10")


def write_answer(
    document: Callable[[], Document], as_text: Callable[[], str], output: Output
) -> None:
    """Print the answer, or write it to a file: as a document, or as JSON."""
    out = output.out
    if out is None:
        if output.json:
            write_result(as_text())
        else:
            print_report(document())
        return
    if output.json or out.suffix == ".json":
        text = as_text()
    else:
        text = document_text(document())
        text = f"```\n{text}```\n" if out.suffix == ".md" else text
    write_output(out, text)
    say_wrote(out)


def write_digest(text: str, out: Path | None) -> None:
    """Print a digest, or write it to a file."""
    if out is None:
        write_result(text)
        return
    write_output(out, text)
    say_wrote(out)


_REPORTED = ("jaxlib", "jax")


def read_recordings(paths: Sequence[str], then: str) -> Timeline:
    """Read recordings and show progress; `then` names what is done with them next."""
    with Progress("reading") as progress:
        timeline = read(*paths, progress=progress.read)
        progress.say(then)
        return timeline


def recorded_versions(paths: Sequence[str]) -> dict[str, str]:
    """Return the versions of JAX recorded in any Run among the paths."""
    versions: dict[str, str] = {}
    for path in paths:
        if is_run(Path(path)):
            from counterpoint.runs.reader import read_run

            versions |= read_run(Path(path)).versions
    return {name: versions[name] for name in _REPORTED if name in versions}


def manual(profile: str, program: Path) -> str:
    """Return the command that runs with a profile: that of the program's Run, or an example."""
    from counterpoint.runs.reader import read_run

    command = read_run(program).command if is_run(program) else ("python", "train.py")
    words = ["counterpoint", "pgle", "manual", "--profile", profile, "--", *command]
    return printable(shlex.join(words))


def of_tpus(costs: Profile) -> Tpu | None:
    """Return the generation of TPUs that costs were measured on; None if on other devices."""
    from counterpoint.hardware.chip import find_tpu

    return find_tpu(costs.origin.get("devices", "").partition(";")[0] or None)


def translation(profile: str, costs: Profile, program: Path) -> str:
    """Return the command that finds libtpu's names; a Run has the program before it is compiled."""
    where, tpu = program if is_run(program) else Path("step.mlir"), of_tpus(costs)
    target = f"{tpu.name if tpu is not None else 'v5e'}-8"
    words = ["pgle", "apply", profile, "--program", str(where), "--target", target]
    lowered = "" if is_run(program) else ", and the lowered program"
    return f"{shlex.join(['counterpoint', *words])}   # with your slice{lowered}"


def next_on_tpus(
    applied: AppliedProfile, program: Path, out: Path | None, env: Sequence[str]
) -> str:
    """Return how to keep the profile as libtpu reads it; then, what it is predicted to be worth."""
    from counterpoint.pgle.applying.libtpu import INIT_ARGS, profile_argument

    words = ["--program", str(program), "--target", str(applied.target)]
    words += [word for pair in applied.options.items() for word in ("--set", "=".join(pair))]
    words += [word for text in env for word in ("--env", text)]
    if out is None:
        kept = Path("libtpu.pb")
        kept = unused_path(Path("libtpu")).with_suffix(".pb") if kept.exists() else kept
        keep = ["pgle", "apply", str(applied.path), *words, "-o", str(kept)]
        return shlex.join(["counterpoint", *keep])
    told = f"{INIT_ARGS}={profile_argument(out.absolute())}"
    ask = ["predict", *words[1:], "--schedule-only", "--env", told]
    return f"{shlex.join(['counterpoint', *ask])}   # the same variable gives it to a run"


def check_libtpu_output(out: Path | None, profile: Path, *, force: bool) -> None:
    """Refuse a path that can't hold the profile as libtpu reads it, before any work is done."""
    if out is None:
        return
    check_output(out, force=force, endings=(".pb",))
    refuse_over_input(str(out), [str(profile)])
    if " " in str(out.absolute()):
        raise UsageError(
            f"{out.absolute()}: libtpu reads no path with a space",
            why="it splits LIBTPU_INIT_ARGS there",
            next="choose a path without one",
        )


def require_libtpu(target: Target, out: Path | None) -> None:
    """Refuse TPUs without libtpu, and a translation for GPUs, which need none."""
    from counterpoint.compile.interpreter import require_compiler

    if target.tpu is not None:
        require_compiler(tpus=True)
    elif out is not None:
        raise UsageError(
            f"--out {out}: XLA reads the profile for GPUs as it is, so there is none to write",
            next="omit -o",
        )


def refuse_over_input(out: str, read_from: Iterable[str]) -> None:
    """Refuse to overwrite an input."""
    if any(Path(out).resolve() == Path(name).resolve() for name in read_from):
        raise UsageError(f"{out} is also an input", next="choose another name")


_PARQUET: Final = ".parquet"

_ENDING: Final = re.compile(r"\.[A-Za-z]\w*")

"""`.txt` names a format; the `.2` of `run-1.2` is part of a name."""


def check_timeline_output(
    out: Path, inputs: Sequence[str], *, force: bool, command: str | None = None
) -> None:
    """Refuse an invalid output before the work.

    `command` precedes a suggested path; without it, the path is the value of an option.
    """
    from counterpoint.timeline.storage.parquet import may_replace
    from counterpoint.timeline.storage.trace_json import SUFFIXES

    refuse_url(out)
    if out.suffix == _PARQUET:
        raise UsageError(
            f"can't write {out}: a Timeline is several tables, not one Parquet file",
            why="they need a directory: spans.parquet, ops.parquet, steps.parquet, ...",
            next=_other_output(out.with_suffix(""), command),
        )
    if not out.name.endswith(SUFFIXES) and _ENDING.fullmatch(out.suffix):
        raise UsageError(
            f"can't write {out}: unknown format",
            why=f"{', '.join(SUFFIXES)}: a trace; no extension: a directory of Parquet tables",
            next=_other_output(out.with_suffix(""), command),
        )
    if out.exists() and any(Path(name).resolve() == out.resolve() for name in inputs):
        raise UsageError(f"{out} is also an input", next="choose another name")
    if out.exists() and not is_trace(out) and not may_replace(out):
        raise UsageError(
            f"{out} exists, and is no Timeline",
            why="only a Timeline is replaced by another, with --force",
            next=_other_output(unused_path(out), command),
        )
    if out.exists() and not force:
        raise UsageError(
            f"{out} exists",
            why="files are overwritten only with --force",
            next="use --force",
        )
    if not out.parent.is_dir():
        parent = shlex.quote(str(out.parent))
        raise UsageError(
            f"can't write {out}: the directory {out.parent} does not exist",
            next=f"mkdir -p {parent}",
        )


def _other_output(path: Path, command: str | None) -> str:
    if command is None:
        return f"use -o {path}"
    return f"{command} {shlex.quote(str(path))}"


def is_trace(out: Path) -> bool:
    """Return whether a path names a trace; any other path is a directory of tables."""
    from counterpoint.timeline.storage.trace_json import SUFFIXES

    return out.name.endswith(SUFFIXES)


def write_timeline(timeline: Timeline, out: Path, *, force: bool) -> None:
    """Write the whole Timeline, or nothing."""
    from counterpoint.timeline.storage.parquet import write_parquet
    from counterpoint.timeline.storage.trace_json import write_perfetto

    if is_trace(out):
        write_perfetto(timeline, out, overwrite=force)
    else:
        write_parquet(timeline, out, overwrite=force)
