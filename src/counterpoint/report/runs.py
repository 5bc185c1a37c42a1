"""The reports of `run` and `runs`: a table, the closing lines of one run, and JSON."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from statistics import quantiles
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from counterpoint.core import Unknown
from counterpoint.core.field import Field
from counterpoint.core.printable import counted_noun
from counterpoint.flags.versions import PROFILE
from counterpoint.pgle.compiler_log import ProfileUse
from counterpoint.report import units
from counterpoint.report.document import (
    Column,
    ColumnKind,
    Document,
    Prose,
    Section,
    TextTable,
    Tone,
    printable,
)
from counterpoint.report.json import At, Pairs, Result, fill, json_text
from counterpoint.report.run_commands import next_commands, requested_window, shown_path
from counterpoint.runs.compiles import all_compiles
from counterpoint.runs.outcomes import Outcome, OutcomeKind
from counterpoint.runs.reports import effective_flags, flags_by_module, variables_of
from counterpoint.runs.run import BURSTS, Rank, Run
from counterpoint.runs.scores import seen_steps
from counterpoint.trainers import TokensInStep, find_trainer, tokens_on

if TYPE_CHECKING:
    from counterpoint.workflow.feedback import LogProof

__all__ = [
    "TokensInStep",
    "run_lines",
    "runs_document",
    "runs_json",
    "steps_line",
    "tokens_in_step",
]

Broken = tuple[Path, str]
"""The directory of a Run that can't be read, and why."""
_FEW: Final = 10  # with fewer steps percentiles mean nothing
_NOTICEABLE_S: Final = 1.0
"""Seconds of compiling that are worth a line."""
_COLUMNS: Final = (
    Column("name", ColumnKind.LABEL),
    Column("started", ColumnKind.WORD, 2),
    Column("outcome", ColumnKind.WORD),
    Column("ranks", ColumnKind.NUMBER, 4),
    Column("steps", ColumnKind.NUMBER, 3),
    Column("median ms", ColumnKind.NUMBER),
    Column("profile", ColumnKind.WORD),
    Column("path", ColumnKind.PLACE, 1),
)
_UNDISTURBED: Final = "without compilation or profiling"
_HOW: Final = {
    "annotation": "between step annotations",
    "api": "from the StepProfiler of the program",
    "log": "from printed lines",
}


def runs_document(runs: Sequence[Run], broken: Sequence[Broken], place: str) -> Document:
    """Return all runs of a directory, unreadable ones last."""
    rows = [
        *(_row(run) for run in runs),
        *((path.name, "?", "broken", "?", "?", "?", "?", str(path)) for path, _ in broken),
    ]
    blocks = [
        TextTable(
            columns=_COLUMNS,
            rows=tuple(tuple(printable(cell) for cell in row) for row in rows),
        ),
        *(Prose(printable(f"{path.name}: {why}"), Tone.WARNING) for path, why in broken),
        *(
            Prose(printable(f"{run.name}: {run.outcome.detail}"), Tone.WARNING)
            for run in runs
            if run.outcome.kind is OutcomeKind.LOST and run.outcome.detail
        ),
    ]
    known = [run for run in runs if run.profiles]
    count = f"{len(rows)} in {place}"
    return Document(
        sections=(Section("Runs", count, tuple(blocks) if rows else ()),),
        legend=f"median: of the steps {_UNDISTURBED} if there are three, otherwise of all but the"
        " first; ?: unknown, or no step marked or printed (explain finds those of a profile)",
        next=f"counterpoint explain {shlex.quote(str(known[-1].path))}"
        if known
        else "counterpoint run -- python train.py",
    )


def _row(run: Run) -> tuple[str, ...]:
    timing = seen_steps(run)
    return (
        run.name,
        f"{run.started.astimezone():%Y-%m-%d %H:%M:%S}",
        run.outcome.kind.replace("_", " "),
        str(run.world_size),
        f"{run.timed.steps_seen:,}" if run.timed else units.UNKNOWN,
        units.UNKNOWN if isinstance(timing, Unknown) else units.column([timing.seconds * 1e3])[0],
        "yes" if run.profiles else "no",
        str(run.path),
    )


def run_lines(
    run: Run, path: Path, *, needs_profile: bool = False, digest: Iterable[str] = ()
) -> Iterator[str]:
    """Yield the closing lines of a run: outcome, steps, profile and next commands.

    `digest` is the summary of its profile, which may take time to produce.
    """
    notes = (*run.notes, *(note for rank in run.ranks for note in rank.notes))
    yield printable(f"outcome  {run.outcome}")
    yield printable(f"steps    {steps_line(run)}")
    if tokens := _tokens_line(run):
        yield printable(f"tokens   {tokens}")
    if compiles := _compiles_line(run):
        yield printable(f"compiles {compiles}")
    yield printable(_profile(run, needed=needs_profile))
    if costs := _costs_line(run, path):
        yield printable(f"PGLE     {costs}")
    yield from (printable(f"note     {note}") for note in notes)
    yield from map(printable, digest)
    yield from (printable(f"next: {command}") for command in next_commands(run, path))


def _costs_line(run: Run, path: Path) -> str | None:
    """Describe whether XLA used the PGLE profile that its flag names; None without that flag."""
    proof = _profile_proof(run)
    if proof is None:
        return None
    from counterpoint.report.pgle.log_document import USE

    command = shlex.join(["counterpoint", "pgle", "check", "--log", str(path)])
    more = "" if proof.use is ProfileUse.USED else f" ({command})"
    return f"{USE[proof.use]}: {proof.reason}{more}"


def _profile_proof(run: Run) -> LogProof | None:
    """Return the use of the PGLE profile that XLA's flag names; None without that flag."""
    flags = variables_of(run).get("XLA_FLAGS", "")
    if not run.ranks or (PROFILE not in dict(run.settings.xla) and PROFILE not in flags):
        return None
    from counterpoint.workflow.feedback import proof_of  # slow to load, and rarely needed

    proof = proof_of(run)
    return None if proof.given is None else proof


def steps_line(run: Run) -> str:
    """Describe how many steps were seen, and the median step time."""
    rank, timing = run.timed, seen_steps(run)
    if rank is None or isinstance(timing, Unknown):
        most = max(run.ranks, key=lambda rank: len(rank.steps), default=None)
        why = f": {BURSTS}" if any(rank.steps_in_bursts for rank in run.ranks) else ""
        if most is None or not most.steps:
            return "none marked or printed"
        return f"{_seen(most)}, not timed{why}"
    which = f" of the {timing.steps:,} {_UNDISTURBED}" if timing.left_out > 1 else ""
    if timing.compiled:
        each = "each" if timing.steps > 1 else "it"
        which = f" of {timing.steps:,} ({each} includes a compilation)"
    elif timing.disturbed and timing.left_out > 1:
        which = f" of the {timing.steps:,} without compilation"
    elif timing.disturbed and run.profiles:
        which = f" of the {timing.steps:,} after the first, profiled ones included"
    return (
        f"{_seen(rank)}, median {units.milliseconds(timing.seconds * 1e3)}{which}"
        f"{_spread(timing.each_s)}, {how_timed(rank)}"
        + (", of the slowest rank" if run.world_size > 1 else "")
    )


def _seen(rank: Rank) -> str:
    """Return how many steps were seen; a program may print only every tenth."""
    passed, lines = rank.steps_seen, len(rank.steps)
    return f"{passed:,} seen" + (f", {lines:,} of them printed" if passed > lines else "")


def tokens_in_step(run: Run) -> TokensInStep | None:
    """Return the tokens of a step, where the trainer's options tell batch and sequence."""
    trainer = find_trainer(run.command)
    processes = [next((p for p in rank.processes if p.devices), None) for rank in run.ranks]
    devices = sum(len(process.devices) for process in processes if process)
    if trainer is None or None in processes or not devices:
        return None
    return tokens_on(trainer, run.command, Path(run.cwd), devices)


def _tokens_line(run: Run) -> str | None:
    """Describe the tokens per second, if batch, sequence and step time are known."""
    timing, tokens = seen_steps(run), tokens_in_step(run)
    if isinstance(timing, Unknown) or not timing.seconds or tokens is None:
        return None
    rate = tokens.count / timing.seconds
    return (
        f"{rate:,.0f} per second, {rate / tokens.devices:,.0f} on each device: {tokens.count:,} in"
        f" a step, by {tokens.source}"
    )


def _compiles_line(run: Run) -> str | None:
    """Describe how long XLA compiled, if that is noticeable."""
    compiles = all_compiles(run)
    if compiles is None or compiles.seconds < _NOTICEABLE_S:
        return None
    took = f"{compiles.seconds:,.1f} s in {counted_noun(compiles.count, 'compile')}"
    if compiles.count == 1:
        return f"{took} of {compiles.longest}" if compiles.longest else took
    name = f" ({compiles.longest})" if compiles.longest else ""
    return f"{took}, the longest {compiles.longest_s:,.1f} s{name}"


def _spread(seconds: Sequence[float]) -> str:
    """Return the minimum and maximum; of ten and more steps p10 and p90."""
    if len(seconds) < 2:
        return ""
    least, most = min(seconds), max(seconds)
    if len(seconds) < _FEW:
        return f" ({units.span(least * 1e3, most * 1e3)})"
    tenths = quantiles(seconds, n=10, method="inclusive")
    return f" (p10 to p90: {units.span(tenths[0] * 1e3, tenths[-1] * 1e3)})"


def how_timed(rank: Rank) -> str:
    """Return how a rank's steps were timed."""
    if rank.steps and rank.steps[0].seconds is not None:
        return "from times the program prints"
    return _HOW.get(rank.step_source or "", "?")


def _profile(run: Run, *, needed: bool) -> str:
    if not run.profiles:
        head = "error: no profile" if needed else "profile  none"
        return f"{head}: {run.why_no_profile}"
    size = sum(path.stat().st_size for path in run.profiles)
    count = len(run.profiles)
    files = f"{counted_noun(count, 'file')}, {units.size(size)}"
    if run.own_profile is not None:
        return (
            f"profile  {files}, the program's own, in {shown_path(str(run.own_profile), run.cwd)}"
        )
    return f"profile  {files}{_counted(run)}{_shortened(run)}"


def _counted(run: Run) -> str:
    """Return the first step of a profile if the program did not mark where its steps begin."""
    windows = (rank.window for rank in run.ranks if rank.window and rank.window.state == "done")
    for window in windows:
        if window.counted and window.counted.startswith("executions"):
            return f", from step {window.start_step}, counted by {window.counted}"
    return ""


def _shortened(run: Run) -> str:
    """Return why a profile holds less than was requested, if it does."""
    for rank in run.ranks:
        window = rank.window
        if window is None or window.state != "done":
            continue
        if window.reason:
            return f": {window.reason}"
        wanted = requested_window(rank).get("steps")
        if window.steps is not None and isinstance(wanted, int) and window.steps < wanted:
            return f": {window.steps} of {wanted} steps"
    return ""


class RunSettingsJson(Result):
    """The settings that were asked for, without what was inherited."""

    xla_flags: Annotated[Pairs, At("xla"), Field("pairs of name and value, in order")]
    env: Annotated[dict[str, str], Field("environment variables")]


class RankRead(Result):
    """A rank, with all that it left."""

    rank: Annotated[int, At("number"), Field("its number")]
    host: Annotated[str, Field("its host")]
    pid: Annotated[int | None, Field("its process; null: unknown")]
    outcome: Annotated[Outcome, Field("how it ended")]
    environment: Annotated[
        Any,
        Field("variables relative to the inherited ones: `set` and `changed`, as in `rank.json`"),
    ]
    processes: Annotated[
        tuple[Any, ...],
        At("processes.facts"),
        Field("what the agent recorded of each Python process"),
    ]
    steps: Annotated[int, At("steps_seen"), Field("steps that were seen")]
    compiles: Annotated[
        dict[str, int],
        Field(
            "events by kind: `backend` are compiles by XLA, `cache_hit` programs from the "
            "persistent cache, `trace` and `lower` JAX's work before them if it took at least 10 "
            "ms"
        ),
    ]
    profiles: Annotated[tuple[str, ...], Field("files of its profile")]
    hlo: Annotated[
        tuple[str, ...],
        Field(
            "files of scheduled modules, that of `step_module` first, then by compile time and by "
            "size"
        ),
    ]
    step_module: Annotated[
        str | None,
        Field(
            "the step's module: of what was executed as steps, else what took longest to compile; "
            "null: unknown"
        ),
    ]
    flags_of_compiler: Annotated[
        dict[str, str] | None, Field("the flags by which `step_module` was compiled; null: unknown")
    ]
    flags_by_module: Annotated[dict[str, dict[str, str]], Field("the same of every dumped module")]
    notes: Annotated[tuple[str, ...], Field("what is damaged or missing")]


class ProfileUseJson(Result):
    """Whether XLA used the PGLE profile that its flag names, by its own log."""

    profile: Annotated[str, At("given"), Field("the profile that the flag names")]
    use: Annotated[
        ProfileUse,
        Field("`used`, `not used`, `failed` (the compile failed for lack of costs) or `unknown`"),
    ]
    reason: Annotated[str, Field("how that is known")]


class RunJson(Result):
    """A run as a reader finds it."""

    schema: Annotated[Literal["counterpoint.run/1"], Field("of the Run's own manifest, `run.json`")]
    version: Annotated[str, Field("the version of Counterpoint that recorded it")]
    path: Annotated[str, Field("its directory")]
    name: Annotated[str, Field("its name")]
    command: Annotated[tuple[str, ...], Field("its command, by word")]
    cwd: Annotated[str, Field("its working directory")]
    started: Annotated[str, Field("UTC, ISO 8601")]
    ended: Annotated[str | None, Field("UTC, ISO 8601; null: in progress, or unknown")]
    state: Annotated[str, Field("`running` or `ended`")]
    outcome: Annotated[Outcome, Field("how it ended: that of the rank whose end has a known cause")]
    launcher: Annotated[
        str, Field("what started its ranks: `local`, `slurm`, `openmpi`, `pmi` and others")
    ]
    job: Annotated[str | None, Field("the launcher's name for the job; null: it has none")]
    world_size: Annotated[int, Field("the number of ranks")]
    settings: Annotated[RunSettingsJson, Field("the settings as given, without inherited ones")]
    steps: Annotated[int | None, Field("of the first rank that saw steps; null: none did")]
    median_step_ms: Annotated[
        float | None,
        Field(
            "of the slowest rank, over the steps without compilation or profiling (with fewer "
            "than three of them, over all but the first); null: none was timed"
        ),
    ]
    timed_by: Annotated[str | None, Field("how its steps were timed; null: none was")]
    profiles: Annotated[tuple[str, ...], Field("files of the ranks' profiles")]
    no_profile: Annotated[str | None, Field("why there are none; null: there are")]
    pgle: Annotated[
        ProfileUseJson | None,
        Field("whether XLA used the PGLE profile that its flag names; null: it names none"),
    ]
    notes: Annotated[tuple[str, ...], Field("what is damaged or missing")]
    ranks: Annotated[tuple[RankRead, ...], Field("the ranks")]


class BrokenRun(Result):
    """A directory that can't be read as a run."""

    path: Annotated[str, Field("the directory")]
    why: Annotated[str, Field("why it can't be read")]


class Runs(Result, tag_field="schema", tag="counterpoint.runs/1"):
    """The runs of a directory: `counterpoint run --json` and `counterpoint runs --json`."""

    runs: Annotated[tuple[RunJson, ...], Field("the Runs")]
    broken: Annotated[tuple[BrokenRun, ...], Field("directories that can't be read")]


def runs_json(runs: Sequence[Run], broken: Sequence[Broken] = ()) -> str:
    """Return `run` and `runs` as text."""
    return json_text(fill(Runs, None, runs=map(run_json, runs), broken=broken))


def run_json(run: Run) -> RunJson:
    """Return a run as data; unknown values are null."""
    timed, timing = run.timed, seen_steps(run)
    return fill(
        RunJson,
        run,
        started=run.started.isoformat(),
        ended=run.ended.isoformat() if run.ended else None,
        steps=timed.steps_seen if timed else None,
        median_step_ms=None if isinstance(timing, Unknown) else timing.seconds * 1e3,
        timed_by=how_timed(timed) if timed else None,
        no_profile=None if run.profiles else run.why_no_profile,
        pgle=_profile_proof(run),
        ranks=[_rank(rank) for rank in run.ranks],
    )


def _rank(rank: Rank) -> RankRead:
    return fill(
        RankRead,
        rank,
        compiles=Counter(event.kind for event in rank.compiles),
        flags_of_compiler=effective_flags(rank),
        flags_by_module=flags_by_module(rank),
    )
