"""`explain` as JSON: `counterpoint.explain/1`, docs/reference/explain-json.md.

Every key is always present. Nothing is cut: all ops, all collectives.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, ClassVar

from counterpoint.core.field import Field, Form
from counterpoint.diagnose.explanation import Explanation, ProgramUse
from counterpoint.diagnose.finding import Evidence
from counterpoint.report.json import At, CountOf, Large, Pair, Result, fill, json_text

if TYPE_CHECKING:
    from counterpoint.runs.run import Run
    from counterpoint.runs.scores import Score


class ReadRunJson(Result):
    """The Run that was named, and how it ended."""

    path: Annotated[str, Field("the Run's directory")]
    outcome: Annotated[
        str,
        At("outcome.kind"),
        Field(
            "`ok`, `out_of_memory`, `signal`, `running`, ..., as in [the Run "
            "directory](run-directory.md)"
        ),
    ]
    detail: Annotated[
        str | None, Field("more about the outcome: the signal, the exit code; null: nothing")
    ]


class HostClock(Result):
    """A host; its clock runs ahead by the offset, which is subtracted from its times."""

    name: Annotated[str, Field("the host")]
    source: Annotated[str, Field("its file")]
    clock_offset_ms: Annotated[float | None, Field("subtracted from its times; null: not aligned")]


class StepsJson(Result):
    """Step time, of the profile and as the Run itself counted it."""

    count: Annotated[int, Field("number of steps that count")]
    median_ms: Annotated[
        float | None,
        Field(
            "from the start of a step to the start of the next; of an even number of steps, the "
            "mean of the two in the middle; null: no whole step"
        ),
    ]
    mean_ms: Annotated[
        float | None,
        Field(
            "what a stopwatch around all of these steps shows, divided by their number; null as "
            "`median_ms`"
        ),
    ]
    min_ms: Annotated[float | None, Field("the shortest")]
    max_ms: Annotated[float | None, Field("the longest")]
    p10_ms: Annotated[float | None, Field("the tenth percentile; null below ten steps")]
    p90_ms: Annotated[float | None, Field("the ninetieth percentile; null below ten steps")]
    execution_ms: Annotated[
        float | None, Field("from the first op of the step's program to its last")
    ]
    window: Annotated[
        str,
        Field(
            "what all other figures describe: `step`; `run`, one run of the step's program, if "
            "there is no whole step or the requested one is not whole; `profile`, the whole "
            "profile, if the program is also unknown"
        ),
    ]
    window_ms: Annotated[
        float | None,
        Field("its length: for `step`, `median_ms`, or `mean_ms` if half of the steps are slow"),
    ]
    how: Annotated[str, Field("how steps were found")]
    run_median_ms: Annotated[
        float | None,
        Field(
            "the median step by the Run's own count (annotations or printed lines); if the "
            "profile has no step markers and `median_ms` differs by more than 25%, this is the "
            "step time, and `median_ms` is that of one run of a program; null: no Run was named, "
            "or it counted too few steps"
        ),
    ]
    run_steps: Annotated[int | None, Field("number of these steps")]


class BreakdownJson(Result):
    """The parts of a step: all but `collective_hidden_ms` add up to it."""

    compute_ms: Annotated[float | None, Field("a kernel computes")]
    collective_exposed_ms: Annotated[
        float | None, Field("no kernel computes, and a collective runs")
    ]
    collective_hidden_ms: Annotated[
        float | None, Field("the part of compute that overlaps a collective")
    ]
    copy_exposed_ms: Annotated[float | None, Field("neither runs, and data is copied")]
    idle_ms: Annotated[
        float | None, Field("nothing runs, or only Python of the host that the program calls")
    ]


class DeviceBreakdown(BreakdownJson):
    """The breakdown of one device."""

    device: Annotated[int, Field("the device's number")]


class PhasesJson(Result):
    """Busy time by phase: the phases add up to the step without its idle time."""

    forward_ms: Annotated[float | None, Field("the forward pass")]
    backward_ms: Annotated[float | None, Field("the backward pass")]
    remat_ms: Annotated[float | None, Field("recomputed for the backward pass")]
    optimizer_ms: Annotated[float | None, Field("the update of the parameters")]
    other_ms: Annotated[float | None, Field("unknown phases included")]


class OpJson(Result):
    """An op, and its time in a step."""

    COLUMNS: ClassVar = ("op", "category", "self_ms", "share", "phase", "count", "source", "scope")

    op: Annotated[
        str, Field("the HLO instruction; for a kernel without one, its own name", "op", Form.NAME)
    ]
    category: Annotated[str, Field("`matmul`, `attention`, `collective`, `copy`, ...", "category")]
    phase: Annotated[str | None, Field("as in `phases`", "phase", rank=1)]
    scope: Annotated[
        str | None, Field("the path of names in the user's code", "scope", Form.PLACE, rank=3)
    ]
    source: Annotated[str | None, Field("file:line", "source", Form.PLACE)]
    count: Annotated[float, Field("executions per step and device", "count", Form.COUNT, rank=2)]
    self_ms: Annotated[float, Field("without the ops nested in it", "self ms", Form.MS)]
    share: Annotated[
        float | None,
        Field(
            "of the step; overlapping ops may add up to more than 1",
            "share",
            Form.SHARE,
            digits=1,
            unknown="the step's time is not known",
        ),
    ]
    program: Annotated[int | None, Field("`index` of a program")]
    flops: Annotated[Large | None, Field("operations of one execution")]
    bytes_accessed: Annotated[Large | None, Field("bytes of one execution")]


class OpGroupJson(Result):
    """Ops summed up by scope, by source and by category, one after the other.

    The rows of each add up to the time in ops.
    """

    COLUMNS: ClassVar = ("category", "self_ms", "share", "ops", "count", "longest")

    by: Annotated[str, Field("`scope`, `source` or `category`")]
    name: Annotated[
        str | None,
        Field(
            "the scope with `*` for the numbers of repeated layers, the line, the category; null: "
            "unknown"
        ),
    ]
    category: Annotated[str, Field("the category with most of its time", "category", rank=1)]
    self_ms: Annotated[
        float, Field("time of its ops, without the ops nested in them", "self ms", Form.MS)
    ]
    share: Annotated[
        float | None,
        Field(
            "of the step; overlapping ops may add up to more than 1",
            "share",
            Form.SHARE,
            digits=1,
            unknown="the step's time is not known",
        ),
    ]
    ops: Annotated[int, Field("number of ops", "ops", Form.COUNT, rank=2)]
    count: Annotated[float, Field("executions per step and device", "count", Form.COUNT, rank=3)]
    forward_ms: Annotated[float, Field("the part of `self_ms` in this phase")]
    backward_ms: Annotated[float, Field("as `forward_ms`")]
    remat_ms: Annotated[float, Field("as `forward_ms`")]
    optimizer_ms: Annotated[float, Field("as `forward_ms`")]
    other_ms: Annotated[float, Field("including unknown phases")]
    longest: Annotated[str, Field("the op with most of the time", "longest op", Form.NAME, rank=5)]


class CollectiveJson(Result):
    """A collective, the time it takes and the part that the step waits for.

    Sizes and bandwidths are those of nccl-tests.
    """

    COLUMNS: ClassVar = (
        "op",
        "kind",
        "bytes",
        "group_size",
        "count",
        "total_ms",
        "wait_ms",
        "exposed_ms",
        "hidden_share",
        "slack_ms",
        "algbw_gbps",
        "busbw_gbps",
        "source",
        "scope",
    )

    op: Annotated[
        str, Field("the HLO instruction; for an asynchronous one, its start", "op", Form.NAME)
    ]
    kind: Annotated[
        str | None,
        Field(
            "`all-gather`, `all-reduce`, `reduce-scatter`, ...",
            "kind",
            rank=5,
            unknown="its name tells no kind",
        ),
    ]
    bytes: Annotated[
        int | None,
        Field(
            "the result of all ranks (all-gather) or the input (reduce-scatter)",
            "size",
            Form.BYTES,
            unknown="the recording has no sizes",
        ),
    ]
    group_size: Annotated[
        int | None,
        Field(
            "participating ranks",
            "ranks",
            Form.COUNT,
            rank=3,
            unknown="the recording has no groups",
        ),
    ]
    count: Annotated[float, Field("executions per step and device", "count", Form.COUNT, rank=3)]
    total_ms: Annotated[
        float, Field("per step, start to end, including waiting", "time ms", Form.MS)
    ]
    exposed_ms: Annotated[
        float,
        Field(
            "the part of `total_ms` during which the device computes nothing", "exposed", Form.MS
        ),
    ]
    hidden_share: Annotated[
        float | None,
        Field("the hidden share of `total_ms`", "hidden", Form.SHARE, unknown="it takes no time"),
    ]
    wait_ms: Annotated[
        float | None,
        Field(
            "per step, for the last rank; null with one device",
            "wait",
            Form.MS,
            rank=1,
            unknown="needs all devices of the group",
        ),
    ]
    algbw_gbps: Annotated[
        float | None,
        Field(
            "10^9 bytes per second: `bytes` / mean time on the last rank",
            "alg GB/s",
            Form.GBPS,
            rank=6,
            unknown="needs bytes and ranks",
        ),
    ]
    busbw_gbps: Annotated[
        float | None,
        Field(
            "the same times the factor of the kind, comparable with a link",
            "bus GB/s",
            Form.GBPS,
            rank=1,
            unknown="needs bytes and ranks",
        ),
    ]
    median_ms: Annotated[
        float, Field("the median of single executions, start to end, including waiting")
    ]
    transfer_ms: Annotated[float | None, Field("the median of single executions on the last rank")]
    mean_transfer_ms: Annotated[
        float | None, Field("the mean of the same, used for the bandwidths")
    ]
    slack_ms: Annotated[
        float | None,
        Field(
            "the median of single executions, from the start until the device has no other work",
            "slack",
            Form.MS,
            rank=4,
            unknown="needs the op's start and its done",
        ),
    ]
    message_bytes: Annotated[int | None, Field("bytes that one rank sends or receives")]
    phase: Annotated[str | None, Field("as in `phases`")]
    scope: Annotated[str | None, Field("as in `ops`", "scope", Form.PLACE, rank=8)]
    source: Annotated[str | None, Field("as in `ops`", "source", Form.PLACE, rank=7)]
    program: Annotated[int | None, Field("`index` of a program")]


class UtilizationJson(Result):
    """The utilization of a chip.

    Operations are those of the compiled ops, including recomputed ones.
    """

    chip: Annotated[str | None, Field("null: unknown, or the devices differ")]
    busy_share: Annotated[float | None, Field("of the step")]
    flops_per_s: Annotated[Large | None, Field("operations per second")]
    recomputed_flops_per_s: Annotated[
        Large | None,
        Field(
            "the part of `flops_per_s` that is recomputed for the backward pass; null: no op's "
            "phase is known"
        ),
    ]
    flops_known_share: Annotated[
        float | None, Field("share of compute time in ops whose operations are known")
    ]
    mfu: Annotated[
        float | None,
        Field(
            "model FLOPs utilization: `flops_per_s` without `recomputed_flops_per_s`, as a share "
            "of the chip's dense bf16 peak. Where phases are not known, an upper bound: "
            "recomputation is in it"
        ),
    ]
    hfu: Annotated[
        float | None,
        Field("hardware FLOPs utilization: all of `flops_per_s`, as a share of that peak"),
    ]
    bytes_per_s: Annotated[Large | None, Field("read and written by ops")]
    hbm_share: Annotated[
        float | None,
        Field(
            "of the memory's peak; null where it would exceed it, as bytes from caches count too"
        ),
    ]


class RemedySettings(Result):
    """Settings to add."""

    xla: Annotated[dict[str, str], At("flags"), Field("XLA flags, by name")]
    env: Annotated[dict[str, str], At("environment"), Field("environment variables, by name")]


class FindingJson(Result):
    """A loss, what it could save and its remedy."""

    code: Annotated[str, Field("the code of the rule; never changes")]
    title: Annotated[str, Field("the finding in one sentence")]
    detail: Annotated[str, Field("the explanation")]
    saves_ms: Annotated[
        Pair | None,
        Field(
            "the possible saving per step: the certain part, and the maximum; null: the finding "
            "is about the profile, not about time"
        ),
    ]
    mean_step_ms: Annotated[
        float | None,
        Field(
            "the mean step, if `saves_ms` is a saving of that one because only some steps have "
            "the loss (those that compile), and a median step does not; null: `saves_ms` is a "
            "saving of `window_ms`"
        ),
    ]
    basis: Annotated[str, Field("as above")]
    evidence: Annotated[
        tuple[Evidence, ...],
        Field("what shows it"),
    ]
    remedy: Annotated[str, Field("what to change")]
    settings: Annotated[
        RemedySettings,
        At("remedy"),
        Field("settings to add; often none"),
    ]
    doubt: Annotated[str | None, Field("reason to suspect a false alarm")]
    share: Annotated[
        float | None,
        Field("the most it could save, by the step, or by `mean_step_ms`; null: as `saves_ms`"),
    ]
    is_small: Annotated[
        bool,
        Field(
            "whether that is at most 3%, or the standard error of the median step: the report "
            "lists it as a small loss, not worth a user's time"
        ),
    ]


class Explained(Result):
    """The fields that `explain` and `predict` share."""

    run: Annotated[
        ReadRunJson | None, Field("the named Run, and how it ended; null: no Run was named")
    ]
    inputs: Annotated[tuple[str, ...], Field("paths as given")]
    notes: Annotated[
        tuple[str, ...], Field("limits of the figures: data that is missing, left out or assumed")
    ]
    truncated: Annotated[bool, Field("events are missing from the profile")]
    step: Annotated[
        int | None, Field("the requested step, by the number of its marker; null: a median step")
    ]
    selected_devices: Annotated[tuple[int, ...] | None, Field("the requested devices; null: all")]
    hosts: Annotated[
        int, CountOf("hosts"), Field("number of hosts read; each process of a machine counts")
    ]
    devices: Annotated[
        int, At("device_count"), Field("number of devices that the figures describe")
    ]
    device_kind: Annotated[str, Field("`gpu`, `tpu`, `cpu`")]
    host_clocks: Annotated[
        tuple[HostClock, ...], At("hosts"), Field("one per host, or per process of one")
    ]
    programs: Annotated[
        tuple[ProgramUse, ...], Field("compiled modules that ran, longest device time first")
    ]
    steps: Annotated[StepsJson, Field("step time")]
    breakdown: Annotated[BreakdownJson, Field("where the step goes")]
    device_breakdowns: Annotated[tuple[DeviceBreakdown, ...], Field("the same for each device")]
    phases: Annotated[PhasesJson, Field("busy time by phase")]
    ops: Annotated[tuple[OpJson, ...], Field("by self time, longest first")]
    groups: Annotated[tuple[OpGroupJson, ...], Field("sums of ops, below")]
    collectives: Annotated[tuple[CollectiveJson, ...], Field("by exposed time, longest first")]
    utilisation: Annotated[UtilizationJson, At("utilization"), Field("utilization of a chip")]
    findings: Annotated[tuple[FindingJson, ...], Field("losses, largest expected saving first")]
    verdict: Annotated[
        str | None,
        Field(
            "what the report says in place of the largest losses if none is above 3% of the step "
            "and its noise; null: one is, or the step is unknown"
        ),
    ]


class ChosenStepsJson(Result):
    """The chosen steps: the first, the last, how many, and how many whole ones were recorded."""

    first: Annotated[int, Field("number of the first")]
    last: Annotated[int, Field("number of the last")]
    count: Annotated[int, Field("how many were chosen")]
    recorded: Annotated[int, Field("how many whole ones were recorded")]


class Explain(Explained, tag_field="schema", tag="counterpoint.explain/1"):
    """The time of a step: `counterpoint explain --json`."""

    basis: Annotated[
        str,
        Field(
            "`measured`, `predicted` or `rule of thumb`: the basis of all figures except "
            "findings, which have their own"
        ),
    ]
    chosen_steps: Annotated[
        ChosenStepsJson | None,
        Field("with `--steps` or `--last`, the steps that are explained; null: all"),
    ]
    timings: Annotated[
        dict[str, float] | None,
        Field(
            "with `--timings`: seconds that this command took, by part (`reading`, each table, "
            "each rule), without the parts inside it; null: not requested"
        ),
    ]


def explain_json(
    explanation: Explanation, run: Run | None = None, timings: Mapping[str, float] | None = None
) -> str:
    """Return the explanation as text; `run` is the Run that was read.

    `timings` are the seconds that Counterpoint took, by part, if they are wanted.
    """
    spent = None if timings is None else {part: round(s, 6) for part, s in timings.items()}
    return json_text(fill(Explain, explanation, timings=spent, **explained(explanation, run)))


def explained(explanation: Explanation, run: Run | None = None) -> dict[str, object]:
    """Return the fields whose JSON form differs from the attribute of the explanation."""
    counted = None if run is None else _counted_by(run)
    return {
        "run": None if run is None else fill(ReadRunJson, run, detail=run.outcome.detail or None),
        "steps": fill(
            StepsJson,
            explanation.steps,
            run_median_ms=None if counted is None else counted.seconds * 1e3,
            run_steps=None if counted is None else counted.steps,
        ),
        "device_breakdowns": [
            fill(DeviceBreakdown, parts, device=device)
            for device, parts in sorted(explanation.device_breakdowns.items())
        ],
    }


def _counted_by(run: Run) -> Score | None:
    from counterpoint.runs.scores import score_of_steps

    return score_of_steps(run)
