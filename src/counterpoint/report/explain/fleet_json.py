"""`explain --executor` as JSON: `counterpoint.fleet/1`, docs/reference/fleet-json.md."""

from __future__ import annotations

from typing import Annotated, ClassVar

from counterpoint.core.field import Field, Form
from counterpoint.fleet.collectives import SlowGroup
from counterpoint.fleet.summary import FleetSummary
from counterpoint.report.json import At, Pair, Result, fill, json_text


class FleetHostJson(Result):
    """A host in a median step, means over its devices."""

    name: Annotated[str, At("host.name"), Field("the host, or one process of it")]
    machine: Annotated[str, At("host.machine"), Field("the host")]
    source: Annotated[str, At("host.source"), Field("its profile")]
    rack: Annotated[
        str | None, At("host.place.rack"), Field("its rack, from `--topology`; null: not given")
    ]
    pod: Annotated[
        str | None, At("host.place.pod"), Field("its pod, from `--topology`; null: not given")
    ]
    chip: Annotated[str | None, At("host.chip"), Field("the chip")]
    program: Annotated[str | None, At("host.program"), Field("the module of the step")]
    build: Annotated[str | None, At("host.build"), Field("a hash of its HLO")]
    devices: Annotated[int, Field("devices of the host")]
    steps: Annotated[int, At("host.steps"), Field("steps that count")]
    truncated: Annotated[bool, At("host.truncated"), Field("the profile is cut off")]
    clock_ahead_ms: Annotated[
        float | None,
        At("host.clock_ahead_ms"),
        Field(
            "by how much its clock is ahead of the median host's; null if no collective of all "
            "devices ends in each step, or a profile does not say when it began"
        ),
    ]
    clock_spread_ms: Annotated[
        float | None,
        At("host.clock_spread_ms"),
        Field("the median deviation of single steps from that"),
    ]
    step_ms: Annotated[float | None, Field("the median of `each_ms`", "step", Form.MS)]
    compute_ms: Annotated[
        float | None,
        Field(
            "mean over its devices of the steps around the median, scaled to it",
            "compute",
            Form.MS,
            rank=1,
        ),
    ]
    exposed_ms: Annotated[float | None, Field("likewise", "exposed", Form.MS)]
    idle_ms: Annotated[float | None, Field("likewise", "idle", Form.MS, rank=1)]
    each_ms: Annotated[
        tuple[float | None, ...],
        Field(
            "the length of each of `step_numbers`, as the heat map shows them; null: it has no "
            "such step"
        ),
    ]


class LateJson(Result):
    """A device, host, rack or pod that makes the others wait."""

    kind: Annotated[str, Field("`device`, `process`, `host`, `rack` or `pod`", "unit")]
    name: Annotated[str, Field("its name", "name", Form.LABEL)]
    hosts: Annotated[tuple[str, ...], Field("the hosts that it consists of or belongs to")]
    late_steps: Annotated[
        int,
        Field("steps in which it waits less than the median device by more than 0.5% of the step"),
    ]
    steps: Annotated[
        int,
        Field("of so many"),
    ]
    chance: Annotated[
        float, Field("probability that any unit of the kind is late so often by chance")
    ]
    waits_less_ms: Annotated[
        float, Field("by how much the others wait longer, in a median step", "others wait", Form.MS)
    ]
    interval_ms: Annotated[
        Pair | None, Field("95% interval of that median; null: fewer than six steps")
    ]
    more_compute_ms: Annotated[
        float, Field("compute beyond the median of the others", "more compute", Form.MS, rank=2)
    ]
    more_idle_ms: Annotated[
        float, Field("idle time beyond the median of the others", "more idle", Form.MS, rank=2)
    ]
    is_slow: Annotated[bool, Field("longer compute explains at least half; else it starts late")]
    gain_ms: Annotated[
        float, Field("what a step gains at most without it and all rows before it", "gain", Form.MS)
    ]
    gain_interval_ms: Annotated[
        Pair | None,
        Field("95% interval of the median of that over steps; null: fewer than six steps"),
    ]


class BuildJson(Result):
    """Hosts whose step is the same module."""

    program: Annotated[str | None, Field("the module's name", "program")]
    build: Annotated[str | None, Field("a hash of its HLO", "build", Form.LABEL)]
    hosts: Annotated[tuple[str, ...], Field("hosts that run it")]


class FleetCollectiveJson(Result):
    """A collective in a median step: all its executions, mean over devices."""

    COLUMNS: ClassVar = ("op", "group_size", "ms", "least_ms", "waits_ms", "busbw_gbps")

    op: Annotated[str, Field("the instruction", "collective", Form.LABEL)]
    kind: Annotated[str | None, Field("its kind")]
    group_size: Annotated[int | None, Field("devices of a group", "members", Form.COUNT, rank=1)]
    bytes: Annotated[int | None, Field("of one execution")]
    count: Annotated[int, Field("executions in a step")]
    ms: Annotated[float, Field("how long a device stays in it, mean over devices", "ms", Form.MS)]
    least_ms: Annotated[
        float | None,
        Field(
            "how long the member stays that arrives last, median over groups; null: groups are "
            "unknown, since hosts are missing or run different programs",
            "without waiting",
            Form.MS,
        ),
    ]
    waits_ms: Annotated[
        float | None,
        Field("the rest of `ms`; null as `least_ms`", "waiting", Form.MS),
    ]
    busbw_gbps: Annotated[
        float | None,
        Field(
            "what a device sends per second of `least_ms` (`bytes` x `count` x 2(n-1)/n for "
            "all-reduce, (n-1)/n for gather, scatter and all-to-all), in 1e9 bytes, as in "
            "`explain` and `network`",
            "bus GB/s",
            Form.GBPS,
            rank=2,
        ),
    ]
    last: Annotated[
        str | None,
        Field("the device that is last in most steps; only where all devices are one group"),
    ]
    last_steps: Annotated[
        int,
        Field("in so many steps"),
    ]
    steps: Annotated[
        int,
        Field("of so many"),
    ]
    slow: Annotated[
        tuple[SlowGroup, ...],
        Field("groups that take longer than the others"),
    ]


class UnreadProfileJson(Result):
    """A profile that is left out, and why."""

    name: Annotated[str, Field("the profile")]
    what: Annotated[str, Field("what is wrong")]
    why: Annotated[str | None, Field("the reason; null: none is known")]


class FleetJson(Result, tag_field="schema", tag="counterpoint.fleet/1"):
    """What many hosts show together: `counterpoint explain --executor ... --json`."""

    inputs: Annotated[tuple[str, ...], Field("paths as given")]
    notes: Annotated[tuple[str, ...], At("gathering.notes"), Field("which profiles were chosen")]
    basis: Annotated[str, Field("`measured`")]
    profiles: Annotated[int, At("gathering.profiles"), Field("profiles that were found")]
    read_bytes: Annotated[
        int, At("gathering.read_bytes"), Field("their bytes, as far as they were read")
    ]
    retried: Annotated[int, At("gathering.retried"), Field("tasks that were lost and run again")]
    left_out: Annotated[
        tuple[UnreadProfileJson, ...],
        Field("profiles that could not be read, or are of another run"),
    ]
    devices: Annotated[int, Field("devices of the hosts that could be read")]
    steps: Annotated[int, Field("steps that count: recorded whole, without warm-up")]
    step_numbers: Annotated[
        tuple[int, ...], Field("the number of each, as the first host counts them")
    ]
    steps_matched_by: Annotated[
        str, At("fleet.matched_by"), Field("how steps of different hosts were matched")
    ]
    window: Annotated[
        str,
        At("fleet.window"),
        Field(
            "what the figures describe: `step`; where no host saw a whole step, one `run` of its "
            "program, or the `profile`"
        ),
    ]
    window_ms: Annotated[
        float,
        Field(
            "its length: the median of the steps (of an even number, the mean of the two in the "
            "middle), mean over devices"
        ),
    ]
    step_ms: Annotated[float | None, Field("the median step; null if none was seen whole")]
    min_ms: Annotated[
        float,
        Field("the shortest step, mean over devices"),
    ]
    max_ms: Annotated[
        float,
        Field("the longest step, mean over devices"),
    ]
    compute_ms: Annotated[
        float,
        Field(
            "a part of the median step: the mean over devices and the steps around the median "
            "([which](../decisions/0006-steps.md)), scaled to it; all parts but `hidden_ms` add "
            "up to `window_ms`"
        ),
    ]
    hidden_ms: Annotated[
        float,
        Field("the part of compute that a collective overlaps"),
    ]
    exposed_ms: Annotated[
        float,
        Field("no kernel computes, and a collective runs"),
    ]
    copy_ms: Annotated[
        float,
        Field("neither runs, and data is copied"),
    ]
    idle_ms: Annotated[
        float,
        Field("nothing runs"),
    ]
    late: Annotated[
        tuple[LateJson, ...], Field("units that make the others wait, most costly first")
    ]
    collectives: Annotated[
        tuple[FleetCollectiveJson, ...],
        Field("those that move most, in a median step: [below](#collectives)"),
    ]
    builds: Annotated[
        tuple[BuildJson, ...],
        Field("hosts with the same module of the step"),
    ]
    builds_differ: Annotated[bool, Field("one program was compiled to different modules")]
    hosts: Annotated[tuple[FleetHostJson, ...], Field("each host in a median step")]


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
