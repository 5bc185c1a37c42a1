"""`explain` as JSON: `counterpoint.explain/1`, docs/reference/explain-json.md.

Every key is always present. Nothing is cut: all ops, all collectives.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

from counterpoint.diagnose.explanation import Explanation, ProgramUse
from counterpoint.report.json import At, CountOf, Large, Pair, Result, fill, json_text

if TYPE_CHECKING:
    from counterpoint.runs.run import Run
    from counterpoint.runs.scores import Score


class ReadRunJson(Result):
    """The Run that was named, and how it ended."""

    path: str
    outcome: Annotated[str, At("outcome.kind")]
    detail: str | None


class HostClock(Result):
    """A host; its clock runs ahead by the offset, which is subtracted from its times."""

    name: str
    source: str
    clock_offset_ms: float | None


class StepsJson(Result):
    """Step time, of the profile and as the Run itself counted it."""

    count: int
    median_ms: float | None
    mean_ms: float | None
    min_ms: float | None
    max_ms: float | None
    p10_ms: float | None
    p90_ms: float | None
    execution_ms: float | None
    window: str
    window_ms: float | None
    how: str
    run_median_ms: float | None
    run_steps: int | None


class BreakdownJson(Result):
    """The parts of a step."""

    compute_ms: float | None
    collective_exposed_ms: float | None
    collective_hidden_ms: float | None
    copy_exposed_ms: float | None
    idle_ms: float | None


class DeviceBreakdown(BreakdownJson):
    """The breakdown of one device."""

    device: int


class PhasesJson(Result):
    """Busy time by phase."""

    forward_ms: float | None
    backward_ms: float | None
    remat_ms: float | None
    optimizer_ms: float | None
    other_ms: float | None


class OpJson(Result):
    """An op, and its time in a step."""

    op: str
    category: str
    phase: str | None
    scope: str | None
    source: str | None
    count: float
    self_ms: float
    share: float | None
    program: int | None
    flops: Large | None
    bytes_accessed: Large | None


class OpGroupJson(Result):
    """Ops summed up by scope, source or category."""

    by: str
    name: str | None
    category: str
    self_ms: float
    share: float | None
    ops: int
    count: float
    forward_ms: float
    backward_ms: float
    remat_ms: float
    optimizer_ms: float
    other_ms: float
    longest: str


class CollectiveJson(Result):
    """A collective, the time it takes and the part that the step waits for."""

    op: str
    kind: str | None
    bytes: int | None
    group_size: int | None
    count: float
    total_ms: float
    exposed_ms: float
    hidden_share: float | None
    wait_ms: float | None
    algbw_gbps: float | None
    busbw_gbps: float | None
    median_ms: float
    transfer_ms: float | None
    mean_transfer_ms: float | None
    slack_ms: float | None
    message_bytes: int | None
    phase: str | None
    scope: str | None
    source: str | None
    program: int | None


class UtilizationJson(Result):
    """The utilization of a chip."""

    chip: str | None
    busy_share: float | None
    flops_per_s: Large | None
    recomputed_flops_per_s: Large | None
    flops_known_share: float | None
    mfu: float | None
    hfu: float | None
    bytes_per_s: Large | None
    hbm_share: float | None


class GapJson(Result):
    """A time in which a device, given by its row of `Timeline.devices`, is idle."""

    device: int
    start_ps: int
    dur_ps: int


class EvidenceJson(Result):
    """The evidence of a finding: rows of tables of the Timeline, or gaps between its spans."""

    what: str
    ms: float | None
    spans: tuple[int, ...]
    gaps: tuple[GapJson, ...]
    events: tuple[int, ...]
    transfers: tuple[int, ...]


class RemedySettings(Result):
    """Settings to add."""

    xla: Annotated[dict[str, str], At("flags")]
    env: Annotated[dict[str, str], At("environment")]


class FindingJson(Result):
    """A loss, what it could save and its remedy."""

    code: str
    title: str
    detail: str
    saves_ms: Pair | None
    mean_step_ms: float | None
    basis: str
    evidence: tuple[EvidenceJson, ...]
    remedy: str
    settings: Annotated[RemedySettings, At("remedy")]
    doubt: str | None
    share: float | None
    is_small: bool


class Explained(Result):
    """The fields that `explain` and `predict` share."""

    run: ReadRunJson | None
    inputs: tuple[str, ...]
    notes: tuple[str, ...]
    truncated: bool
    step: int | None
    selected_devices: tuple[int, ...] | None
    hosts: Annotated[int, CountOf("hosts")]
    devices: Annotated[int, At("device_count")]
    device_kind: str
    host_clocks: Annotated[tuple[HostClock, ...], At("hosts")]
    programs: tuple[ProgramUse, ...]
    steps: StepsJson
    breakdown: BreakdownJson
    device_breakdowns: tuple[DeviceBreakdown, ...]
    phases: PhasesJson
    ops: tuple[OpJson, ...]
    groups: tuple[OpGroupJson, ...]
    collectives: tuple[CollectiveJson, ...]
    utilisation: Annotated[UtilizationJson, At("utilization")]
    findings: tuple[FindingJson, ...]
    verdict: str | None


class ChosenStepsJson(Result):
    """The chosen steps: the first, the last, how many, and how many whole ones were recorded."""

    first: int
    last: int
    count: int
    recorded: int


class Explain(Explained, tag_field="schema", tag="counterpoint.explain/1"):
    """The time of a step: `counterpoint explain --json`."""

    basis: str
    chosen_steps: ChosenStepsJson | None
    timings: dict[str, float] | None


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
