"""`network` as JSON: `counterpoint.network/1`, docs/reference/network-json.md.

Every key is always present. Nothing is cut.
"""

from __future__ import annotations

from typing import Annotated, Final

from counterpoint.diagnose.network.analysis import NetworkAnalysis
from counterpoint.diagnose.selection import WindowKind
from counterpoint.report.explain.explain_json import ChosenStepsJson
from counterpoint.report.json import At, Result, fill, json_text

_FROM_COLLECTIVES: Final = (
    "group_size",
    "count",
    "transfer_ms",
    "mean_transfer_ms",
    "wait_ms",
    "exposed_ms",
)
"""Columns of the collectives' table that the network's table lacks."""


class SlackJson(Result):
    """A transfer, and how long it has from its start until the device can only wait for it."""

    program: int | None
    op: str
    kind: str | None
    executions: int
    slack_ms: float | None
    slack_p5_ms: float | None
    slack_p95_ms: float | None
    no_slack_share: float | None
    worst_device: int | None
    unknown: str | None


class ExposureCauseJson(Result):
    """A part of a collective's exposed time, and why it is exposed."""

    bound: str
    ms: float
    code: str | None
    why: str


class NetworkCollectiveJson(Result):
    """The load of a collective on its link."""

    program: int | None
    op: str
    kind: str | None
    link: str | None
    wire_bytes: float | None
    senders: float
    slack_ms: float | None
    slack_p5_ms: float | None
    slack_p95_ms: float | None
    no_slack_share: float | None
    movable_ms: float | None
    required_gbps: float | None
    achieved_gbps: float | None
    capacity_gbps: float | None
    priced_link: str | None
    priced_bound: str | None
    priced_how: str | None
    bound: str
    why: str
    code: str | None
    causes: tuple[ExposureCauseJson, ...]
    group_size: int | None
    count: float
    transfer_ms: float | None
    mean_transfer_ms: float | None
    wait_ms: float | None
    exposed_ms: float


class DemandJson(Result):
    """A stretch of constant demand."""

    link: str | None
    start_ms: float
    end_ms: float
    gbps: float
    bytes: float


class BurstJson(Result):
    """A stretch in which anything is sent."""

    link: str | None
    start_ms: float
    length_ms: float
    bytes: float
    mean_gbps: float
    peak_gbps: float
    exposed_ms: float
    waiting_ms: float
    bound: str
    collectives: tuple[str, ...]


class SaturatedJson(Result):
    """A stretch in which a link is full."""

    link: str | None
    start_ms: float
    length_ms: float
    mean_gbps: float
    limit_gbps: float
    limit_is: str


class StepCallsJson(Result):
    """The remote calls of a step."""

    step: int
    calls: int
    median_ms: float
    p95_ms: float
    max_ms: float
    host_ms: float
    slow_share: float


class CallsJson(Result):
    """The remote calls between a host and a peer."""

    host: int
    peer: str | None
    calls: int
    median_ms: float
    p95_ms: float
    max_ms: float
    host_ms: float
    slow_share: float
    pattern: str


class NetworkJson(Result, tag_field="schema", tag="counterpoint.network/1"):
    """The load of a step on its links: `counterpoint network --json`."""

    inputs: tuple[str, ...]
    notes: tuple[str, ...]
    basis: str
    step: int | None
    chosen_steps: ChosenStepsJson | None
    selected_devices: tuple[int, ...] | None
    hosts: int | None
    devices: int
    device_kind: str
    step_ms: float | None
    window: str
    window_ms: float | None
    links_source: str
    slack: tuple[SlackJson, ...]
    collectives: tuple[NetworkCollectiveJson, ...]
    demand: Annotated[tuple[DemandJson, ...], At("demand.pieces")]
    bursts: Annotated[tuple[BurstJson, ...], At("demand.bursts")]
    saturated: Annotated[tuple[SaturatedJson, ...], At("demand.saturated")]
    lower_bounds: Annotated[tuple[str, ...], At("demand.lower_bounds")]
    calls_pattern: str | None
    calls_expected_at: str | None
    calls: Annotated[tuple[CallsJson, ...], At("calls.links")]
    calls_by_step: Annotated[tuple[StepCallsJson, ...], At("calls.by_step")]


def network_json(analysis: NetworkAnalysis) -> str:
    """Return the analysis as text, with each row on a line of its own."""
    calls = analysis.calls
    known = len(calls.rows) > 0
    unknown = {} if known else {"calls": (), "calls_by_step": ()}
    return json_text(
        fill(
            NetworkJson,
            analysis,
            step_ms=analysis.window_ms if analysis.window is WindowKind.STEP else None,
            collectives=analysis.network.with_columns(
                analysis.collectives.select(*_FROM_COLLECTIVES).get_columns()
            ),
            calls_pattern=calls.pattern if known else None,
            calls_expected_at=calls.rate_source if known else None,
            **unknown,
        )
    )
