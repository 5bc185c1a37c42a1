"""`compare` as JSON: `counterpoint.compare/1`, docs/reference/compare-json.md. Nothing is cut."""

from __future__ import annotations

from typing import Any, Final

from counterpoint.core.basis import Range, Unknown
from counterpoint.diagnose.compare.comparison import Change, Comparison, Network, Schedule, Work
from counterpoint.diagnose.compare.row import Row
from counterpoint.diagnose.compare.side import Side
from counterpoint.diagnose.compare.step_time import StepChange, Verdict
from counterpoint.pgle.movement import Move
from counterpoint.report.json import Json, json_lines

SCHEMA: Final = "counterpoint.compare/1"
_DECIMALS: Final = 6
_MS: Final = 1e3


def compare_data(found: Comparison) -> dict[str, Json]:
    """The comparison as plain data that JSON can hold."""
    return {
        "schema": SCHEMA,
        "a": _side(found.a, found.runs[0]),
        "b": _side(found.b, found.runs[1]),
        "same_experiment": found.same_experiment,
        "notes": [*found.notes, *filter(None, (found.contradicted,))],
        "step": _step(found.step),
        "differs": [
            {"about": str(it.about), "what": it.what, "a": it.a, "b": it.b} for it in found.differs
        ],
        **_work(found.work),
    }


def compare_json(found: Comparison) -> str:
    """The same as text, with each row of a table on a line of its own."""
    return json_lines(compare_data(found))


def _side(side: Side, runs: int) -> dict[str, Any]:
    timeline, times = side.timeline, side.times
    return {
        "name": side.name,
        "runs": runs,
        "run": None if side.run is None else str(side.run.path),
        "basis": None if timeline is None else str(timeline.basis),
        "devices": None if timeline is None else len(timeline.devices),
        "steps": None if times is None else len(times.each_s),
        "median_step_ms": None if times is None else _ms(times.median_s * _MS),
        "steps_by": None if times is None else times.source,
    }


def _step(step: StepChange | Unknown) -> dict[str, Any]:
    if isinstance(step, Unknown):
        return {
            **dict.fromkeys(("a_ms", "b_ms", "change", "range", "range_of_steps")),
            "verdict": str(Verdict.UNKNOWN),
            "how": step.reason,
        }
    return {
        "a_ms": _ms(step.a_s * _MS),
        "b_ms": _ms(step.b_s * _MS),
        "change": round(step.change, _DECIMALS),
        "range": _range(step.range),
        "range_of_steps": _range(step.of_steps),
        "verdict": str(step.verdict),
        "how": step.how,
    }


def _range(reach: Range | Unknown) -> list[float] | None:
    if isinstance(reach, Unknown):
        return None
    return [round(reach.low, _DECIMALS), round(reach.high, _DECIMALS)]


def _work(work: Work | Unknown) -> dict[str, Any]:
    if isinstance(work, Unknown):
        return {
            "work": {"known": False, "why_not": work.reason},
            **{name: [] for name in ("parts", "phases", "ops", "collectives", "moves")},
            "regrouped": [],
        }
    phases = work.phases
    return {
        "work": {
            "known": True,
            "why_not": None,
            "of": str(work.window),
            **{it.what: _change(it) for it in (work.step, work.busy, work.idle)},
            "phases_unknown": phases.reason if isinstance(phases, Unknown) else None,
            "moves_unknown": _why_not(work.schedule),
        },
        "parts": [{"part": it.what, **_change(it)} for it in work.parts],
        "phases": []
        if isinstance(phases, Unknown)
        else [{"phase": it.what, **_change(it)} for it in phases],
        "ops": [_row(row) for row in work.ops],
        "collectives": [_network(it) for it in work.collectives],
        "regrouped": [
            {"a": [*it.a], "b": [*it.b], "kind": it.kind, "bytes": it.bytes}
            for it in work.schedule.regrouped
        ],
        "moves": _moves(work.schedule),
    }


def _change(change: Change) -> dict[str, Any]:
    return {
        "a_ms": _ms(change.a_ms),
        "b_ms": _ms(change.b_ms),
        "difference_ms": _ms(change.difference_ms),
    }


def _row(row: Row) -> dict[str, Any]:
    it = row.shown
    return {
        "a": [one.op for one in row.match.a],
        "b": [one.op for one in row.match.b],
        "matched_by": str(row.how),
        "category": it.category,
        "phase": it.phase,
        "scope": it.scope,
        "source": it.source,
        "a_ms": _ms(row.a_ms),
        "b_ms": _ms(row.b_ms),
        "difference_ms": _ms(row.difference_ms),
        "noise_ms": _ms(row.noise_ms),
        "clear": row.clear,
        "a_self_ms": _ms(row.a_self_ms),
        "b_self_ms": _ms(row.b_self_ms),
    }


def _network(of: Network) -> dict[str, Any]:
    it = of.row.shown
    pairs = {"exposed_ms": of.exposed_ms, "wait_ms": of.wait_ms, "busbw_gbps": of.busbw_gbps}
    return {
        "a": [one.op for one in of.row.match.a],
        "b": [one.op for one in of.row.match.b],
        "matched_by": str(of.row.how),
        "kind": it.kind,
        "bytes": of.row.volume,
        "group_size": it.group_size,
        **{name: [_ms(figure) for figure in pair] for name, pair in pairs.items()},
        "clear": of.row.clear,
    }


def _why_not(schedule: Schedule) -> str | None:
    return schedule.moves.reason if isinstance(schedule.moves, Unknown) else None


def _moves(schedule: Schedule) -> list[dict[str, Any]]:
    return [] if isinstance(schedule.moves, Unknown) else [_move(it) for it in schedule.moves]


def _move(move: Move) -> dict[str, Any]:
    return {
        "a": move.name_before,
        "b": move.name,
        "kind": move.kind,
        "bytes": move.bytes,
        "source": move.source,
        "start_shift_us": _ms(move.start_shift_us),
        "within_us": [_ms(move.before.within_us), _ms(move.after.within_us)],
        "sync": [move.before.sync, move.after.sync],
    }


def _ms(figure: float | None) -> float | None:
    return None if figure is None else round(figure, _DECIMALS)
