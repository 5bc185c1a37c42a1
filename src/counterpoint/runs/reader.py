"""Reads a Run directory; damaged or missing parts are left out, with a note."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, cast, overload

from counterpoint.core import InputError, parse_json
from counterpoint.core.records import from_plain
from counterpoint.runs import layout
from counterpoint.runs.layout import find_runs
from counterpoint.runs.missing_settings import unreached_settings
from counterpoint.runs.outcomes import Outcome, OutcomeKind, outcome_of_ranks
from counterpoint.runs.processes import is_alive
from counterpoint.runs.records import (
    RankManifest,
    RunManifest,
    read_compiles,
    read_processes,
    read_record,
    read_steps,
)
from counterpoint.runs.run import Rank, Run, RunSettings
from counterpoint.runs.setting_history import history_notes

_LATE: Final = float("inf")
_COMES_WITHIN_S: Final = 600.0


def list_runs(directory: str | os.PathLike[str]) -> list[Run]:
    """Return the Runs in a directory by start time; damaged ones are left out."""
    runs: list[Run] = []
    for path in find_runs(directory):
        try:
            runs.append(read_run(path))
        except InputError:
            continue
    return sorted(runs, key=lambda run: run.started)


def read_run(path: str | os.PathLike[str]) -> Run:
    """Read a Run, even one in progress."""
    place = Path(path)
    try:
        return _run(place, _manifest(place))
    except ValueError as damage:
        raise InputError(
            f"{place / layout.MANIFEST}: incomplete manifest: {damage}",
            why="it is damaged, or was written by another version",
        ) from None


def _manifest(place: Path) -> RunManifest:
    file = place / layout.MANIFEST
    try:
        content: object = parse_json(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(
            f"{place}: not a Run directory: {layout.MANIFEST} is missing",
            next=f"counterpoint runs {place.parent}",
        ) from None
    except OSError as failure:
        raise InputError(f"{file}: cannot be read: {failure.strerror or failure}") from None
    except ValueError as damage:
        raise InputError(f"{file}: damaged: {damage}") from None
    schema = (
        cast("Mapping[str, object]", content).get("schema") if isinstance(content, dict) else None
    )
    if schema != layout.SCHEMA:
        raise InputError(f"{file}: unsupported schema {schema!r}")
    return from_plain(RunManifest, cast("object", content))


def _run(place: Path, manifest: RunManifest) -> Run:
    ranks, notes = _ranks(place, manifest)
    ended = when(manifest.ended)
    outcome = _outcome(manifest, ranks)
    if ended is None and outcome.kind is not OutcomeKind.RUNNING:
        ended = max((rank.ended for rank in ranks if rank.ended), default=None)
    given = RunSettings(manifest.settings.xla_flags, tuple(manifest.settings.env.items()))
    return Run(
        path=place,
        name=manifest.name,
        command=manifest.command,
        cwd=manifest.cwd,
        started=when(manifest.started),
        ended=ended,
        settings=given,
        launcher=manifest.launcher,
        outcome=outcome,
        ranks=tuple(ranks),
        world_size=manifest.ranks,
        version=manifest.version,
        job=manifest.job,
        notes=(*notes, *unreached_settings(given, ranks), *history_notes(given, ranks)),
    )


def _outcome(manifest: RunManifest, ranks: Sequence[Rank]) -> Outcome:
    """Return the outcome according to the ranks; from the manifest only if no rank has one."""
    if ranks:
        ends = [(r.number, r.outcome, r.ended.timestamp() if r.ended else _LATE) for r in ranks]
        outcome = outcome_of_ranks(ends)
        if len(ranks) < manifest.ranks and outcome.ok:
            return _missing(manifest.ranks - len(ranks), max(end for _, _, end in ends))
        return outcome
    if manifest.state == "ended":
        return manifest.outcome
    return Outcome(OutcomeKind.NOT_STARTED, detail="no rank has recorded anything")


def _missing(count: int, last_end_s: float) -> Outcome:
    """Return the outcome for ranks that may still start.

    Long after all others ended they are lost.
    """
    kind = OutcomeKind.LOST if time.time() - last_end_s > _COMES_WITHIN_S else OutcomeKind.RUNNING
    return Outcome(kind, detail=f"{count} ranks are missing")


def _ranks(place: Path, manifest: RunManifest) -> tuple[list[Rank], list[str]]:
    ranks: list[Rank] = []
    notes: list[str] = []
    for number in layout.rank_numbers(place):
        directory = layout.rank_directory(place, number)
        try:
            ranks.append(_rank(directory, number))
        except FileNotFoundError:
            notes.append(f"rank {number} has not started")
        except (OSError, ValueError) as damage:
            damaged = f"{layout.RANK_MANIFEST} is damaged: {damage}"
            rank = _rest(directory, number, manifest)
            if rank.profiles:
                ranks.append(rank)
                notes.append(f"rank {number}: {damaged}; its profile is still used")
            else:
                notes.append(f"rank {number} is omitted: {damaged}")
    return ranks, notes


def _rank(directory: Path, number: int) -> Rank:
    manifest = read_record(directory / layout.RANK_MANIFEST, RankManifest)
    steps = read_steps(directory / layout.AGENT)
    compiles = read_compiles(directory / layout.AGENT)
    processes = read_processes(directory / layout.AGENT)
    return Rank(
        number=number,
        host=manifest.host,
        path=directory,
        outcome=_still(manifest),
        local_rank=manifest.local_rank,
        pid=manifest.pid,
        started=when(manifest.started),
        ended=when(manifest.ended),
        environment=manifest.environment,
        dump=Path(manifest.xla_dump_to) if manifest.xla_dump_to else None,
        ir=Path(manifest.jax_dump_ir_to) if manifest.jax_dump_ir_to else None,
        profile_asked=manifest.profile_asked,
        entered=(directory / layout.AGENT / layout.ENTERED).exists(),
        processes=processes.found,
        steps=steps.found,
        compiles=compiles.found,
        notes=(*processes.notes, *steps.notes, *compiles.notes),
    )


def _rest(directory: Path, number: int, manifest: RunManifest) -> Rank:
    """Return the remaining data of a rank without its manifest; the run's may have the outcome."""
    lost = Outcome(OutcomeKind.LOST, detail=f"{layout.RANK_MANIFEST} is damaged")
    return Rank(
        number=number,
        host="?",
        path=directory,
        outcome=manifest.outcome if manifest.state == "ended" else lost,
        processes=read_processes(directory / layout.AGENT).found,
        steps=read_steps(directory / layout.AGENT).found,
        compiles=read_compiles(directory / layout.AGENT).found,
    )


def _still(manifest: RankManifest) -> Outcome:
    """Return the outcome: lost if still running without a supervisor to record its end."""
    outcome, keeper = manifest.outcome, manifest.keeper
    if outcome.kind is not OutcomeKind.RUNNING or manifest.host != socket.gethostname():
        return outcome
    if keeper is not None and not is_alive(keeper.pid, keeper.started):
        return Outcome(OutcomeKind.LOST, detail=_after_its_supervisor(manifest))
    return outcome


def _after_its_supervisor(manifest: RankManifest) -> str:
    """Return what became of a rank whose supervisor was killed; it leads a group of its own."""
    ended = "its supervisor ended before recording the outcome"
    if not manifest.pid or not is_alive(manifest.pid, manifest.pid_started):
        return ended
    to_end = f"to end it: kill -- -{manifest.pid}"
    return f"{ended}; the program goes on as process {manifest.pid} ({to_end})"


@overload
def when(text: str) -> datetime: ...
@overload
def when(text: None) -> None: ...
@overload
def when(text: str | None) -> datetime | None: ...
def when(text: str | None) -> datetime | None:
    """Parse an ISO 8601 time; one without a zone is in UTC."""
    if text is None:
        return None
    time = datetime.fromisoformat(text)
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


def profiles_of(run: Run) -> Iterator[Path]:
    """Yield the profiles of all ranks; raise an error with the reason if there are none."""
    if not run.profiles:
        raise InputError(
            f"{run.path}: this run has no profile",
            why=run.why_no_profile,
            next=f"less {run.ranks[0].stderr}" if run.ranks and not run.outcome.ok else None,
        )
    yield from run.profiles
