"""`network` as JSON: `counterpoint.network/1`, docs/reference/network-json.md.

Every key is always present. Nothing is cut.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Final

import polars as pl

from counterpoint.core.field import Field, Form
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

    COLUMNS: ClassVar = (
        "op",
        "kind",
        "slack_ms",
        "slack_p5_ms",
        "slack_p95_ms",
        "no_slack_share",
        "worst_device",
    )

    program: Annotated[int | None, Field("index among the programs of `explain --json`")]
    op: Annotated[str, Field("the instruction that starts it", "op", Form.NAME)]
    kind: Annotated[
        str | None,
        Field(
            "the kind of collective; `host copy`, `host send`, `host recv` for traffic with the "
            "host",
            "kind",
            rank=2,
        ),
    ]
    executions: Annotated[int, Field("in all typical steps, on all devices")]
    slack_ms: Annotated[
        float | None, Field("median over executions; null: see `unknown`", "median ms", Form.MS)
    ]
    slack_p5_ms: Annotated[float | None, Field("5% of them have less", "p5", Form.MS, rank=1)]
    slack_p95_ms: Annotated[float | None, Field("5% of them have more", "p95", Form.MS, rank=1)]
    no_slack_share: Annotated[
        float | None,
        Field("share of executions with less than a microsecond of slack", "no slack", Form.SHARE),
    ]
    worst_device: Annotated[
        int | None,
        Field(
            "the device with the smallest median; null: all devices are equal",
            "worst device",
            Form.COUNT,
            rank=3,
        ),
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

    COLUMNS: ClassVar = (
        "op",
        "link",
        "wire_bytes",
        "slack_ms",
        "mean_transfer_ms",
        "required_gbps",
        "achieved_gbps",
        "capacity_gbps",
        "exposed_ms",
        "bound",
    )

    program: Annotated[int | None, Field("as above")]
    op: Annotated[str, Field("the instruction that starts it", "op", Form.NAME)]
    kind: Annotated[str | None, Field("`all-gather`, `all-reduce`, ...")]
    link: Annotated[
        str | None,
        Field(
            "`domain` (NVLink, Infinity Fabric, PCIe), `network` (NICs), `ici`, `dcn`",
            "link",
            rank=3,
        ),
    ]
    wire_bytes: Annotated[
        float | None,
        Field(
            "bytes that a device that sends puts on that link, per execution",
            "sends",
            Form.BYTES,
            rank=2,
        ),
    ]
    senders: Annotated[
        float,
        Field(
            "share of the devices that send: of the pairs `{0,1},{1,2},{2,3}` on 4 devices 0.75; "
            "`demand` and `bursts` are means over all devices"
        ),
    ]
    slack_ms: Annotated[
        float | None,
        Field("as above", "slack ms", Form.MS, unknown="needs the op's start and its done"),
    ]
    slack_p5_ms: Annotated[float | None, Field("as above")]
    slack_p95_ms: Annotated[float | None, Field("as above")]
    no_slack_share: Annotated[float | None, Field("as above")]
    movable_ms: Annotated[
        float | None, Field("independent work outside of start and done, an upper bound")
    ]
    required_gbps: Annotated[
        float | None,
        Field(
            "`wire_bytes` / slack; null: unknown, or no rate suffices",
            "required",
            Form.GBPS,
            unknown="needs its bytes, and some slack",
        ),
    ]
    achieved_gbps: Annotated[
        float | None,
        Field(
            "`wire_bytes` / `mean_transfer_ms`; over `dcn`, / the time in which the runtime's "
            "records show its messages under way; in a prediction, the rate of its price",
            "achieved",
            Form.GBPS,
            unknown="its bytes or ranks are not recorded",
        ),
    ]
    capacity_gbps: Annotated[
        float | None,
        Field(
            "the capacity of the link, from its data sheet or the target",
            "capacity",
            Form.GBPS,
            rank=2,
            unknown="the link's rate is not known: name the machine with --target",
        ),
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
            "the step`, `latency`, `bandwidth`, `unknown`",
            "bound",
        ),
    ]
    why: Annotated[
        str, Field("the figures that show `bound`; in a prediction with its price", "why", rank=4)
    ]
    code: Annotated[
        str | None,
        Field("the rule of `explain` that reports that part; null: none", "code", rank=4),
    ]
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
    mean_transfer_ms: Annotated[
        float | None,
        Field(
            "the mean of the same, used for the rates",
            "transfer ms",
            Form.MS,
            rank=3,
            unknown="the time of the transfer without waits is not known",
        ),
    ]
    wait_ms: Annotated[float | None, Field("for the last device, per step")]
    exposed_ms: Annotated[float, Field("per step", "exposed ms", Form.MS)]


class DemandJson(Result):
    """A stretch of constant demand."""

    link: Annotated[str | None, Field("as above")]
    start_ms: Annotated[float, Field("from the step's start")]
    end_ms: Annotated[float, Field("where the next interval starts")]
    gbps: Annotated[float, Field("rate of one device")]
    bytes: Annotated[float, Field("bytes of one device")]


class BurstJson(Result):
    """A stretch in which anything is sent."""

    COLUMNS: ClassVar = (
        "start_ms",
        "length_ms",
        "link",
        "bytes",
        "mean_gbps",
        "peak_gbps",
        "exposed_ms",
        "waiting_ms",
        "bound",
        "collectives",
    )

    link: Annotated[str | None, Field("as above", "link")]
    start_ms: Annotated[float, Field("from the step's start", "start ms", Form.MS)]
    length_ms: Annotated[
        float, Field("until nothing is sent for a thousandth of the step", "length", Form.MS)
    ]
    bytes: Annotated[float, Field("bytes of one device", "bytes", Form.BYTES)]
    mean_gbps: Annotated[float, Field("the mean rate", "mean GB/s", Form.GBPS)]
    peak_gbps: Annotated[float, Field("the highest rate", "peak", Form.GBPS, rank=1)]
    exposed_ms: Annotated[
        float, Field("how much of its length is exposed, mean over devices", "exposed", Form.MS)
    ]
    waiting_ms: Annotated[
        float,
        Field(
            "further exposed time of its collectives, in which they send nothing: until the last "
            "device arrives (over `dcn`, outside of the recorded messages)",
            "waiting",
            Form.MS,
            rank=1,
        ),
    ]
    bound: Annotated[str, Field("the bound of most of the exposed time", "bound")]
    collectives: Annotated[
        tuple[str, ...],
        Field("the largest collectives, by bytes", "collectives", Form.NAME, rank=2),
    ]


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

    COLUMNS: ClassVar = (
        "host",
        "peer",
        "calls",
        "median_ms",
        "p95_ms",
        "max_ms",
        "host_ms",
        "slow_share",
        "pattern",
    )

    host: Annotated[int, Field("index among the hosts", "host", Form.NAME)]
    peer: Annotated[str | None, Field("the other end", "peer", Form.NAME)]
    calls: Annotated[int, Field("number of calls", "calls", Form.COUNT)]
    median_ms: Annotated[float, Field("median latency", "median ms", Form.MS)]
    p95_ms: Annotated[float, Field("5% of them take longer", "p95", Form.MS)]
    max_ms: Annotated[float, Field("the slowest", "most", Form.MS)]
    host_ms: Annotated[
        float,
        Field(
            "the part of the latency in which the receiving host registered or copied buffers, "
            "median",
            "host work",
            Form.MS,
        ),
    ]
    slow_share: Annotated[
        float, Field("share of calls that take three times the expected time", "slow", Form.SHARE)
    ]
    pattern: Annotated[str, Field("`normal`, `sporadic`, `sustained`", "pattern")]


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


def network_rows(analysis: NetworkAnalysis) -> pl.DataFrame:
    """Return the rows of `collectives`."""
    return analysis.network.with_columns(
        analysis.collectives.select(*_FROM_COLLECTIVES).get_columns()
    )


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
            collectives=network_rows(analysis),
            calls_pattern=calls.pattern if known else None,
            calls_expected_at=calls.rate_source if known else None,
            **unknown,
        )
    )
