"""`explain --executor` as JSON: `counterpoint.fleet/1`, docs/reference/fleet-json.md."""

from __future__ import annotations

from typing import Annotated

from counterpoint.fleet.collectives import SlowGroup
from counterpoint.fleet.summary import FleetSummary
from counterpoint.report.json import At, Pair, Result, fill, json_text


class FleetHostJson(Result):
    """A host in a median step, means over its devices."""

    name: Annotated[str, At("host.name")]
    machine: Annotated[str, At("host.machine")]
    source: Annotated[str, At("host.source")]
    rack: Annotated[str | None, At("host.place.rack")]
    pod: Annotated[str | None, At("host.place.pod")]
    chip: Annotated[str | None, At("host.chip")]
    program: Annotated[str | None, At("host.program")]
    build: Annotated[str | None, At("host.build")]
    devices: int
    steps: Annotated[int, At("host.steps")]
    truncated: Annotated[bool, At("host.truncated")]
    clock_ahead_ms: Annotated[float | None, At("host.clock_ahead_ms")]
    clock_spread_ms: Annotated[float | None, At("host.clock_spread_ms")]
    step_ms: float | None
    compute_ms: float | None
    exposed_ms: float | None
    idle_ms: float | None
    each_ms: tuple[float | None, ...]


class LateJson(Result):
    """A device, host, rack or pod that makes the others wait."""

    kind: str
    name: str
    hosts: tuple[str, ...]
    late_steps: int
    steps: int
    chance: float
    waits_less_ms: float
    interval_ms: Pair | None
    more_compute_ms: float
    more_idle_ms: float
    is_slow: bool
    gain_ms: float
    gain_interval_ms: Pair | None


class BuildJson(Result):
    """Hosts whose step is the same module."""

    program: str | None
    build: str | None
    hosts: tuple[str, ...]


class FleetCollectiveJson(Result):
    """A collective in a median step: all its executions, mean over devices."""

    op: str
    kind: str | None
    group_size: int | None
    bytes: int | None
    count: int
    ms: float
    least_ms: float | None
    waits_ms: float | None
    busbw_gbps: float | None
    last: str | None
    last_steps: int
    steps: int
    slow: tuple[SlowGroup, ...]


class UnreadProfileJson(Result):
    """A profile that is left out, and why."""

    name: str
    what: str
    why: str | None


class FleetJson(Result, tag_field="schema", tag="counterpoint.fleet/1"):
    """What many hosts show together: `counterpoint explain --executor ... --json`."""

    inputs: tuple[str, ...]
    notes: Annotated[tuple[str, ...], At("gathering.notes")]
    basis: str
    profiles: Annotated[int, At("gathering.profiles")]
    read_bytes: Annotated[int, At("gathering.read_bytes")]
    retried: Annotated[int, At("gathering.retried")]
    left_out: tuple[UnreadProfileJson, ...]
    devices: int
    steps: int
    step_numbers: tuple[int, ...]
    steps_matched_by: Annotated[str, At("fleet.matched_by")]
    window: Annotated[str, At("fleet.window")]
    window_ms: float
    step_ms: float | None
    min_ms: float
    max_ms: float
    compute_ms: float
    hidden_ms: float
    exposed_ms: float
    copy_ms: float
    idle_ms: float
    late: tuple[LateJson, ...]
    collectives: tuple[FleetCollectiveJson, ...]
    builds: tuple[BuildJson, ...]
    builds_differ: bool
    hosts: tuple[FleetHostJson, ...]


def fleet_json(summary: FleetSummary, inputs: tuple[str, ...]) -> str:
    """Return everything as text, with each row on a line of its own."""
    left_out = tuple(
        UnreadProfileJson(name=each.name, what=each.failure[0], why=each.failure[1])
        for each in (*summary.gathering.failures, *summary.gathering.strangers)
        if each.failure is not None
    )
    return json_text(
        fill(
            FleetJson,
            summary,
            inputs=inputs,
            basis="measured",
            left_out=left_out,
            devices=len(summary.fleet.host_of),
            step_numbers=tuple(summary.fleet.steps.tolist()),
        )
    )
