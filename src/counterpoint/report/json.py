"""`explain` as JSON: the schema `counterpoint.explain/1`, docs/reference/explain-json.md.

Every key is always there; what is not known is null, never 0 or NaN. Nothing is cut: all ops, all
collectives. Times are milliseconds to the nanosecond.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Final, TypeAlias

import polars as pl

from counterpoint.core.basis import Range, Unknown
from counterpoint.diagnose.explain import Explanation
from counterpoint.diagnose.finding import Finding
from counterpoint.diagnose.metrics.ops import SCHEMA as GROUP_KEYS
from counterpoint.diagnose.metrics.ops import all_groups
from counterpoint.diagnose.step import Breakdown, Phases, StepTimes
from counterpoint.report import units
from counterpoint.runs import Run
from counterpoint.runs.score import score_of_steps

SCHEMA: Final = "counterpoint.explain/1"

Json: TypeAlias = "Mapping[str, Json] | list[Json] | str | float | int | bool | None"

_DECIMALS: Final = 6
_DIGITS: Final = 6

_OP_KEYS: Final = (
    *("op", "category", "phase", "scope", "source", "count", "self_ms", "share"),
    *("program", "flops", "bytes_accessed"),
)
_COLLECTIVE_KEYS: Final = (
    *("op", "kind", "bytes", "group_size", "count", "total_ms", "exposed_ms", "hidden_share"),
    *("wait_ms", "algbw_gbps", "busbw_gbps", "median_ms", "transfer_ms", "mean_transfer_ms"),
    "slack_ms",
    *("message_bytes", "phase", "scope", "source", "program"),
)
_LARGE: Final = frozenset({"flops", "bytes_accessed", "flops_per_s", "bytes_per_s"})
"""Figures of which the first digits count, not those behind the point."""

_BREAKDOWN_KEYS: Final = tuple(Breakdown.__dataclass_fields__)
_PHASE_KEYS: Final = tuple(Phases.__dataclass_fields__)


def explain_data(explanation: Explanation, run: Run | None = None) -> dict[str, Json]:
    """The explanation as plain data that JSON can hold; `run` is the Run that was read."""
    return {
        "schema": SCHEMA,
        "run": None if run is None else _run(run),
        "inputs": [*explanation.inputs],
        "notes": [*explanation.notes],
        "truncated": explanation.truncated,
        "basis": explanation.basis,
        "step": explanation.step,
        "selected_devices": (
            None if explanation.selected_devices is None else [*explanation.selected_devices]
        ),
        "hosts": len(explanation.hosts),
        "devices": explanation.device_count,
        "device_kind": explanation.device_kind,
        "host_clocks": _host_clocks(explanation),
        "programs": [_record(asdict(program)) for program in explanation.programs],
        "steps": _steps(explanation.steps, run),
        "breakdown": _parts(explanation.breakdown, _BREAKDOWN_KEYS),
        "device_breakdowns": [
            {"device": device, **_parts(parts, _BREAKDOWN_KEYS)}
            for device, parts in sorted(explanation.device_breakdowns.items())
        ],
        "phases": _parts(explanation.phases, _PHASE_KEYS),
        "ops": _rows(explanation.ops, _OP_KEYS),
        "groups": _rows(all_groups(explanation.ops), tuple(GROUP_KEYS)),
        "collectives": _rows(explanation.collectives, _COLLECTIVE_KEYS),
        "utilisation": _record(asdict(explanation.utilisation)),
        "findings": [_finding(finding) for finding in explanation.findings],
    }


def explain_json(explanation: Explanation, run: Run | None = None) -> str:
    """The same as text, with each op, collective and finding on a line of its own."""
    return json_lines(explain_data(explanation, run))


def json_lines(data: Mapping[str, Json]) -> str:
    """An object as text, where rows of a table have a line each."""
    entries = (f"{json.dumps(key)}: {_lines(value)}" for key, value in data.items())
    return "{\n" + ",\n".join(entries) + "\n}\n"


def _lines(value: Json) -> str:
    if isinstance(value, list) and value and isinstance(value[0], Mapping):
        return "[\n" + ",\n".join(f" {json.dumps(row, allow_nan=False)}" for row in value) + "\n]"
    return json.dumps(value, allow_nan=False)


def _run(run: Run) -> dict[str, Json]:
    return {
        "path": str(run.path),
        "outcome": str(run.outcome.kind),
        "detail": run.outcome.detail or None,
    }


def _host_clocks(explanation: Explanation) -> list[Json]:
    return [
        {
            "name": host.name,
            "source": host.source,
            "clock_offset_ms": _figure(
                "ms", None if host.clock_offset_ps is None else host.clock_offset_ps / 1e9
            ),
        }
        for host in explanation.hosts
    ]


def _steps(steps: StepTimes, run: Run | None) -> dict[str, Json]:
    counted = None if run is None else score_of_steps(run)
    own = {
        "run_median_ms": None if counted is None else counted.seconds * 1e3,
        "run_steps": None if counted is None else counted.steps,
    }
    return _record({**asdict(steps), **own})


def _parts(parts: Breakdown | Phases | None, keys: tuple[str, ...]) -> dict[str, Json]:
    """The parts of a step; where they are not known, the same keys with null."""
    return _record({key: None if parts is None else getattr(parts, key) for key in keys})


def _rows(frame: pl.DataFrame, keys: tuple[str, ...]) -> list[Json]:
    return [_record(row) for row in frame.select(keys).iter_rows(named=True)]


def _finding(finding: Finding) -> dict[str, Json]:
    return {
        "code": finding.code,
        "title": finding.title,
        "detail": finding.detail,
        "saves_ms": _range(finding.saves_ms),
        "basis": str(finding.basis),
        "evidence": [
            {
                "what": evidence.what,
                "ms": _figure("ms", evidence.ms),
                "spans": [*evidence.spans],
            }
            for evidence in finding.evidence
        ],
        "remedy": finding.remedy.text,
        "settings": {
            "xla": dict(finding.remedy.flags),
            "env": dict(finding.remedy.environment),
        },
        "doubt": finding.doubt,
    }


def _range(saves: Range | Unknown) -> list[Json] | None:
    if isinstance(saves, Unknown):
        return None
    return [_figure("saves_ms", saves.low), _figure("saves_ms", saves.high)]


def _record(row: Mapping[str, str | float | int | bool | None]) -> dict[str, Json]:
    return {
        key: _figure(key, value) if isinstance(value, float) else value
        for key, value in row.items()
    }


def rounded(value: float | None) -> float | None:
    """A figure to the sixth decimal; None for what is no number."""
    figure = units.known(value)
    return None if figure is None else round(figure, _DECIMALS)


def _figure(key: str, value: float | None) -> float | None:
    figure = units.known(value)
    if figure is None:
        return None
    return float(f"{figure:.{_DIGITS}g}") if key in _LARGE else round(figure, _DECIMALS)
