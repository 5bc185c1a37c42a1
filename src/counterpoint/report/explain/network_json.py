"""`network` as JSON: `counterpoint.network/1`, docs/reference/network-json.md.

Every key is always present. Nothing is cut.
"""

from __future__ import annotations

from typing import Annotated, Final

from counterpoint.core.field import Field
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
    """A transfer, and how long it has from its start until the device can only wait for it.

    One row per collective, and per transfer between a device and its host.
    """

    program: Annotated[int | None, Field("index among the programs of `explain --json`")]
    op: Annotated[str, Field("the instruction that starts it")]
    kind: Annotated[
        str | None,
        Field(
            "the kind of collective; `host copy`, `host send`, `host recv` for traffic with the "
            "host"
        ),
    ]
    executions: Annotated[int, Field("in all typical steps, on all devices")]
    slack_ms: Annotated[float | None, Field("median over executions; null: see `unknown`")]
    slack_p5_ms: Annotated[float | None, Field("5% of them have less")]
    slack_p95_ms: Annotated[float | None, Field("5% of them have more")]
    no_slack_share: Annotated[
        float | None, Field("share of executions with less than a microsecond of slack")
    ]
    worst_device: Annotated[
        int | None, Field("the device with the smallest median; null: all devices are equal")
    ]
    unknown: Annotated[str | None, Field("the reason if the slack is unknown")]


class ExposureCauseJson(Result):
    """A part of a collective's exposed time, and why it is exposed."""

    bound: Annotated[str, Field("as `bound` of the collective")]
    ms: Annotated[float, Field("per step")]
    code: Annotated[str | None, Field("the rule of `explain` that reports it; null: none")]
    why: Annotated[str, Field("the figures that show it")]


class NetworkCollectiveJson(Result):
    """The load of a collective on its link."""

    program: Annotated[int | None, Field("as above")]
    op: Annotated[str, Field("the instruction that starts it")]
    kind: Annotated[str | None, Field("`all-gather`, `all-reduce`, ...")]
    link: Annotated[
        str | None,
        Field("`domain` (NVLink, Infinity Fabric, PCIe), `network` (NICs), `ici`, `dcn`"),
    ]
    wire_bytes: Annotated[
        float | None, Field("bytes that a device that sends puts on that link, per execution")
    ]
    senders: Annotated[
        float,
        Field(
            "share of the devices that send: of the pairs `{0,1},{1,2},{2,3}` on 4 devices 0.75; "
            "`demand` and `bursts` are means over all devices"
        ),
    ]
    slack_ms: Annotated[float | None, Field("as above")]
    slack_p5_ms: Annotated[float | None, Field("as above")]
    slack_p95_ms: Annotated[float | None, Field("as above")]
    no_slack_share: Annotated[float | None, Field("as above")]
    movable_ms: Annotated[
        float | None, Field("independent work outside of start and done, an upper bound")
    ]
    required_gbps: Annotated[
        float | None, Field("`wire_bytes` / slack; null: unknown, or no rate suffices")
    ]
    achieved_gbps: Annotated[
        float | None,
        Field(
            "`wire_bytes` / `mean_transfer_ms`; over `dcn`, / the time in which the runtime's "
            "records show its messages under way; in a prediction, the rate of its price"
        ),
    ]
    capacity_gbps: Annotated[
        float | None, Field("the capacity of the link, from its data sheet or the target")
    ]
    priced_link: Annotated[
        str | None,
        Field(
            "in a prediction, the links that determine its price: `NVLink 4`, `PCIe`, `NIC`; "
            "null: measured, or priced from measurements"
        ),
    ]
    priced_bound: Annotated[
        str | None, Field("their `latency` or `bandwidth`, whichever determines it")
    ]
    priced_how: Annotated[str | None, Field("the simulator's price in a few words")]
    bound: Annotated[
        str,
        Field(
            "`hidden`, `gaps beside it`, `waiting for a late rank`, `many operands`, `exposed by "
            "schedule`, `too little beside it`, `synchronous`, `could be merged`, `at an end of "
            "the step`, `latency`, `bandwidth`, `unknown`"
        ),
    ]
    why: Annotated[str, Field("the figures that show `bound`; in a prediction with its price")]
    code: Annotated[str | None, Field("the rule of `explain` that reports that part; null: none")]
    causes: Annotated[
        tuple[ExposureCauseJson, ...],
        Field(
            "the parts of its exposed time as in `explain`, largest first; those of the row "
            "itself are the first part's"
        ),
    ]
    group_size: Annotated[int | None, Field("devices in a group (slices, over `dcn`)")]
    count: Annotated[float, Field("executions per step and device")]
    transfer_ms: Annotated[
        float | None,
        Field("time on the last device, median of single executions, as in `explain --json`"),
    ]
    mean_transfer_ms: Annotated[float | None, Field("the mean of the same, used for the rates")]
    wait_ms: Annotated[float | None, Field("for the last device, per step")]
    exposed_ms: Annotated[float, Field("per step")]


class DemandJson(Result):
    """A stretch of constant demand."""

    link: Annotated[str | None, Field("as above")]
    start_ms: Annotated[float, Field("from the step's start")]
    end_ms: Annotated[float, Field("where the next interval starts")]
    gbps: Annotated[float, Field("rate of one device")]
    bytes: Annotated[float, Field("bytes of one device")]


class BurstJson(Result):
    """A stretch in which anything is sent."""

    link: Annotated[str | None, Field("as above")]
    start_ms: Annotated[float, Field("from the step's start")]
    length_ms: Annotated[float, Field("until nothing is sent for a thousandth of the step")]
    bytes: Annotated[float, Field("bytes of one device")]
    mean_gbps: Annotated[float, Field("the mean rate")]
    peak_gbps: Annotated[float, Field("the highest rate")]
    exposed_ms: Annotated[float, Field("how much of its length is exposed, mean over devices")]
    waiting_ms: Annotated[
        float,
        Field(
            "further exposed time of its collectives, in which they send nothing: until the last "
            "device arrives (over `dcn`, outside of the recorded messages)"
        ),
    ]
    bound: Annotated[str, Field("the bound of most of the exposed time")]
    collectives: Annotated[tuple[str, ...], Field("the largest collectives, by bytes")]


class SaturatedJson(Result):
    """A stretch in which a link is full."""

    link: Annotated[str | None, Field("as above")]
    start_ms: Annotated[float, Field("from the step's start")]
    length_ms: Annotated[float, Field("its length")]
    mean_gbps: Annotated[float, Field("mean rate in it")]
    limit_gbps: Annotated[float, Field("the limit it is compared with")]
    limit_is: Annotated[
        str,
        Field("`capacity` (full from 70% on), or `highest seen` if that is unknown (from 90% on)"),
    ]


class StepCallsJson(Result):
    """The remote calls of a step."""

    step: Annotated[int, Field("the step in which they were sent")]
    calls: Annotated[int, Field("as above")]
    median_ms: Annotated[float, Field("as above")]
    p95_ms: Annotated[float, Field("as above")]
    max_ms: Annotated[float, Field("as above")]
    host_ms: Annotated[float, Field("as above")]
    slow_share: Annotated[float, Field("as above")]


class CallsJson(Result):
    """The remote calls between a host and a peer."""

    host: Annotated[int, Field("index among the hosts")]
    peer: Annotated[str | None, Field("the other end")]
    calls: Annotated[int, Field("number of calls")]
    median_ms: Annotated[float, Field("median latency")]
    p95_ms: Annotated[float, Field("5% of them take longer")]
    max_ms: Annotated[float, Field("the slowest")]
    host_ms: Annotated[
        float,
        Field(
            "the part of the latency in which the receiving host registered or copied buffers, "
            "median"
        ),
    ]
    slow_share: Annotated[float, Field("share of calls that take three times the expected time")]
    pattern: Annotated[str, Field("`normal`, `sporadic`, `sustained`")]


class NetworkJson(Result, tag_field="schema", tag="counterpoint.network/1"):
    """The load of a step on its links: `counterpoint network --json`."""

    inputs: Annotated[tuple[str, ...], Field("paths as given")]
    notes: Annotated[tuple[str, ...], Field("limits of the figures")]
    basis: Annotated[
        str, Field("`measured` or `predicted`: the basis of all figures except capacities")
    ]
    step: Annotated[int | None, Field("the requested step; null: a median step")]
    chosen_steps: Annotated[
        ChosenStepsJson | None,
        Field(
            "the steps chosen with `--steps` or `--last`, as in [explain](explain-json.md); null: "
            "all"
        ),
    ]
    selected_devices: Annotated[tuple[int, ...] | None, Field("the requested devices; null: all")]
    hosts: Annotated[int | None, Field("machines whose profiles were read; null if they don't say")]
    devices: Annotated[int, Field("devices that the figures describe")]
    device_kind: Annotated[str, Field("`gpu`, `tpu`, `cpu`")]
    step_ms: Annotated[
        float | None, Field("the median step, or the requested one; null: no whole step")
    ]
    window: Annotated[
        str,
        Field(
            "what the figures describe: `step`, `run` or `profile`, as in "
            "[explain](explain-json.md#steps)"
        ),
    ]
    window_ms: Annotated[float | None, Field("its length")]
    links_source: Annotated[str, Field("the source of the capacities, or why there are none")]
    slack: Annotated[tuple[SlackJson, ...], Field("transfers, least slack first")]
    collectives: Annotated[
        tuple[NetworkCollectiveJson, ...], Field("the load of each on its link, most exposed first")
    ]
    demand: Annotated[
        tuple[DemandJson, ...],
        At("demand.pieces"),
        Field(
            "intervals of constant demand over the step; their bytes add up to those that the "
            "step sends"
        ),
    ]
    bursts: Annotated[
        tuple[BurstJson, ...], At("demand.bursts"), Field("intervals in which anything is sent")
    ]
    saturated: Annotated[
        tuple[SaturatedJson, ...],
        At("demand.saturated"),
        Field("intervals in which a link is full"),
    ]
    lower_bounds: Annotated[
        tuple[str, ...],
        At("demand.lower_bounds"),
        Field(
            "links whose rates are lower bounds: when their transfers were under way is not "
            "recorded, so each is spread from its send to the moment at which a device needs the "
            "data"
        ),
    ]
    calls_pattern: Annotated[
        str | None,
        Field(
            "how often remote calls are slow: `normal`, `sporadic`, `sustained`; null: none were "
            "recorded"
        ),
    ]
    calls_expected_at: Annotated[str | None, Field("the source of the expected rate of calls")]
    calls: Annotated[
        tuple[CallsJson, ...], At("calls.links"), Field("remote calls by host and peer")
    ]
    calls_by_step: Annotated[
        tuple[StepCallsJson, ...], At("calls.by_step"), Field("remote calls by step")
    ]


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
