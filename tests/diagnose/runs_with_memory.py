"""A Run that tells its devices' memory, and what the compiler logged."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from counterpoint.runs.outcomes import Outcome, OutcomeKind
from counterpoint.runs.run import ObservedProcess, Rank, Run, RunSettings

GIB = 1 << 30


def run_with(
    path: Path,
    *,
    peak: float | None = None,
    limit: float | None = None,
    share: str | None = None,
    log: str = "",
) -> Run:
    """Peak and limit of device 0 in GiB; `share`: what XLA_PYTHON_CLIENT_MEM_FRACTION was."""
    place = path / "rank-0"
    place.mkdir(parents=True, exist_ok=True)
    ended = Outcome(OutcomeKind.OK, 0)
    variables = {"XLA_PYTHON_CLIENT_MEM_FRACTION": share} if share else {}
    process = ObservedProcess(
        pid=7,
        versions={"jaxlib": "0.10.2"},
        platform="gpu",
        devices=("H100",),
        process_index=0,
        process_count=1,
        peak_memory=_of(peak) | {"host": 900 * GIB},
        window=None,
        facts={"memory_limit": _of(limit)},
    )
    environment: Mapping[str, object] = {"set": variables}
    rank = Rank(0, "host0", place, ended, environment=environment, processes=(process,))
    rank.stderr.write_text(log, encoding="utf-8")
    return Run(
        path=path,
        name="train",
        command=("python", "train.py"),
        cwd="/home/me",
        started=datetime(2026, 11, 1),  # noqa: DTZ001
        ended=None,
        settings=RunSettings(),
        launcher="local",
        outcome=ended,
        ranks=(rank,),
    )


def _of(size: float | None) -> dict[str, int]:
    return {} if size is None else {"device 0": int(size * GIB)}
