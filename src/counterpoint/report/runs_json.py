"""Runs as JSON: the schema `counterpoint.runs/1`, docs/reference/run-directory.md."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Final

from counterpoint.core.basis import Unknown
from counterpoint.report.runs_document import Broken, how_timed
from counterpoint.runs import Rank, Run, effective_flags, flags_by_module, layout
from counterpoint.runs.score import seen_steps

SCHEMA: Final = "counterpoint.runs/1"
RUN_SCHEMA: Final = layout.SCHEMA


def run_data(run: Run) -> dict[str, object]:
    """A run as plain data; what is not known is null."""
    timed = run.timed
    timing = seen_steps(run)
    return {
        "schema": RUN_SCHEMA,
        "version": run.version,
        "path": str(run.path),
        "name": run.name,
        "command": [*run.command],
        "cwd": run.cwd,
        "started": run.started.isoformat(),
        "ended": run.ended.isoformat() if run.ended else None,
        "state": run.state,
        "outcome": asdict(run.outcome),
        "launcher": run.launcher,
        "job": run.job,
        "world_size": run.world_size,
        "settings": {"xla_flags": [*map(list, run.settings.xla)], "env": dict(run.settings.env)},
        "steps": len(timed.steps) if timed else None,
        "median_step_ms": None if isinstance(timing, Unknown) else round(timing.seconds * 1e3, 6),
        "timed_by": how_timed(timed) if timed else None,
        "profiles": [*map(str, run.profiles)],
        "no_profile": None if run.profiles else run.why_no_profile,
        "notes": [*run.notes],
        "ranks": [_rank(rank) for rank in run.ranks],
    }


def _rank(rank: Rank) -> dict[str, object]:
    return {
        "rank": rank.number,
        "host": rank.host,
        "pid": rank.pid,
        "outcome": asdict(rank.outcome),
        "environment": dict(rank.environment),
        "processes": [dict(process.facts) for process in rank.processes],
        "steps": len(rank.steps),
        "compiles": dict(Counter(it.kind for it in rank.compiles)),
        "profiles": [*map(str, rank.profiles)],
        "hlo": [*map(str, rank.hlo)],
        "step_module": rank.step_module,
        "flags_of_compiler": effective_flags(rank),
        "flags_by_module": flags_by_module(rank),
        "notes": [*rank.notes],
    }


def run_json(run: Run) -> str:
    """One run as text."""
    return _text({"schema": SCHEMA, "runs": [run_data(run)], "broken": []})


def runs_json(runs: Sequence[Run], broken: Sequence[Broken]) -> str:
    """All runs of a directory as text."""
    return _text(
        {
            "schema": SCHEMA,
            "runs": [run_data(run) for run in runs],
            "broken": [{"path": str(path), "why": why} for path, why in broken],
        }
    )


def _text(value: object) -> str:
    return json.dumps(value, indent=2) + "\n"
