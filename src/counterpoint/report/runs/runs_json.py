"""Runs as JSON: the schema `counterpoint.runs/1`, docs/reference/run-directory.md."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from counterpoint.core import Unknown
from counterpoint.report.json import At, Pairs, Result, fill, json_text
from counterpoint.report.runs.runs_document import Broken, how_timed
from counterpoint.runs import Rank, Run
from counterpoint.runs.reports import effective_flags, flags_by_module
from counterpoint.runs.scores import seen_steps


class OutcomeJson(Result):
    """How a process, or a run of several, ended."""

    kind: str
    exit_code: int | None
    signal: str | None
    detail: str


class RunSettingsJson(Result):
    """The settings that were asked for, without what was inherited."""

    xla_flags: Annotated[Pairs, At("xla")]
    env: dict[str, str]


class RankRead(Result):
    """A rank, with all that it left; `processes` are as the agent wrote them."""

    rank: Annotated[int, At("number")]
    host: str
    pid: int | None
    outcome: OutcomeJson
    environment: Any
    processes: tuple[Any, ...]
    steps: int
    compiles: dict[str, int]
    profiles: tuple[str, ...]
    hlo: tuple[str, ...]
    step_module: str | None
    flags_of_compiler: dict[str, str] | None
    flags_by_module: dict[str, dict[str, str]]
    notes: tuple[str, ...]


class RunFound(Result):
    """A run as a reader finds it."""

    schema: Literal["counterpoint.run/1"]
    version: str
    path: str
    name: str
    command: tuple[str, ...]
    cwd: str
    started: str
    ended: str | None
    state: str
    outcome: OutcomeJson
    launcher: str
    job: str | None
    world_size: int
    settings: RunSettingsJson
    steps: int | None
    median_step_ms: float | None
    timed_by: str | None
    profiles: tuple[str, ...]
    no_profile: str | None
    notes: tuple[str, ...]
    ranks: tuple[RankRead, ...]


class BrokenRun(Result):
    """A directory that is no whole run."""

    path: str
    why: str


class Runs(Result, tag_field="schema", tag="counterpoint.runs/1"):
    """The runs of a directory: `counterpoint run --json` and `counterpoint runs --json`."""

    runs: tuple[RunFound, ...]
    broken: tuple[BrokenRun, ...]


def runs_json(runs: Sequence[Run], broken: Sequence[Broken] = ()) -> str:
    """Return runs as text."""
    damaged = [BrokenRun(path=str(path), why=why) for path, why in broken]
    return json_text(Runs(runs=tuple(map(run_found, runs)), broken=tuple(damaged)))


def run_found(run: Run) -> RunFound:
    """Return a run as data; unknown values are null."""
    timed, timing = run.timed, seen_steps(run)
    return fill(
        RunFound,
        run,
        started=run.started.isoformat(),
        ended=run.ended.isoformat() if run.ended else None,
        steps=len(timed.steps) if timed else None,
        median_step_ms=None if isinstance(timing, Unknown) else timing.seconds * 1e3,
        timed_by=how_timed(timed) if timed else None,
        no_profile=None if run.profiles else run.why_no_profile,
        ranks=[_rank(rank) for rank in run.ranks],
    )


def _rank(rank: Rank) -> RankRead:
    return fill(
        RankRead,
        rank,
        processes=[process.facts for process in rank.processes],
        steps=len(rank.steps),
        compiles=Counter(event.kind for event in rank.compiles),
        flags_of_compiler=effective_flags(rank),
        flags_by_module=flags_by_module(rank),
    )
