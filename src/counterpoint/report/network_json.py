"""`network` as JSON: the schema `counterpoint.network/1`, docs/reference/network-json.md.

Every key is always there; what is not known is null. Nothing is cut.
"""

from __future__ import annotations

from typing import Any, Final, cast

import polars as pl

from counterpoint.diagnose.network.analysis import NetworkAnalysis
from counterpoint.diagnose.selection import Window
from counterpoint.report.json import Json, json_lines, rounded

SCHEMA: Final = "counterpoint.network/1"

_FROM_COLLECTIVES: Final = (
    *("group_size", "count"),
    *("transfer_ms", "mean_transfer_ms", "wait_ms", "exposed_ms"),
)


def network_data(analysis: NetworkAnalysis) -> dict[str, Json]:
    """The analysis as plain data that JSON can hold."""
    collectives = analysis.network.with_columns(
        analysis.collectives.select(*_FROM_COLLECTIVES).get_columns()
    )
    demand, calls = analysis.demand, analysis.calls
    told = len(calls.rows) > 0
    return {
        "schema": SCHEMA,
        "inputs": [*analysis.inputs],
        "notes": [*analysis.notes],
        "basis": analysis.basis,
        "step": analysis.step,
        "selected_devices": (
            None if analysis.selected_devices is None else [*analysis.selected_devices]
        ),
        "hosts": analysis.hosts,
        "devices": analysis.devices,
        "device_kind": analysis.device_kind,
        "step_ms": rounded(analysis.window_ms) if analysis.window is Window.STEP else None,
        "window": str(analysis.window),
        "window_ms": rounded(analysis.window_ms),
        "links_source": analysis.links_source,
        "slack": _rows(analysis.slack),
        "collectives": _rows(collectives),
        "demand": _rows(demand.pieces),
        "bursts": _rows(demand.bursts),
        "saturated": _rows(demand.saturated),
        "calls_pattern": str(calls.pattern) if told else None,
        "calls_expected_at": calls.rate_source if told else None,
        "calls": _rows(calls.links) if told else [],
        "calls_by_step": _rows(calls.by_step) if told else [],
    }


def network_json(analysis: NetworkAnalysis) -> str:
    """The same as text, with each row on a line of its own."""
    return json_lines(network_data(analysis))


def _rows(frame: pl.DataFrame) -> list[Json]:
    return [
        {key: _plain(value) for key, value in row.items()} for row in frame.iter_rows(named=True)
    ]


def _plain(value: object) -> Json:
    if isinstance(value, list):  # of records or of names
        return [_plain(one) for one in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in cast("dict[str, Any]", value).items()}
    return rounded(value) if isinstance(value, float) else cast("Json", value)
