"""`explain`: where the time of a step goes, as records and frames for use in notebooks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import polars as pl

from counterpoint.core import Range, UsageError, as_html, shorten_names
from counterpoint.core.field import Field
from counterpoint.core.printable import counted_noun
from counterpoint.core.rules import found_by
from counterpoint.core.stopwatch import Stopwatch
from counterpoint.diagnose.between_steps import BETWEEN, between_steps
from counterpoint.diagnose.collectives.collectives import collective_profile
from counterpoint.diagnose.environment import chip_of, on_virtual_devices, that_changes
from counterpoint.diagnose.finding import MIN_REPORTED_SHARE, WORTH_SHARE, Finding
from counterpoint.diagnose.host.compiles import compiled_before, hidden_by_the_median
from counterpoint.diagnose.host.startup import startup
from counterpoint.diagnose.network.analysis import check_target
from counterpoint.diagnose.ops import (
    GROUPINGS,
    Grouping,
    Utilization,
    all_groups,
    finest,
    grouped,
    utilization,
)
from counterpoint.diagnose.other_frameworks import in_neutral_words
from counterpoint.diagnose.outliers import outlier_notes, outliers
from counterpoint.diagnose.rules import RULES
from counterpoint.diagnose.selection import Selection, WindowKind, require_devices, select
from counterpoint.diagnose.slow_steps import noise_share, slow_steps, without_slow
from counterpoint.diagnose.step import (
    Breakdown,
    Phases,
    StepTimes,
    device_breakdowns,
    phases,
    step_times,
)
from counterpoint.diagnose.step_data import Context, StepData, context_of
from counterpoint.diagnose.step_lengths import build_lengths, growth
from counterpoint.diagnose.step_programs import (
    ProgramInStep,
    programs_in_step,
    steps_by_build,
)
from counterpoint.runs.layout import is_run
from counterpoint.runs.timeline import read
from counterpoint.timeline.model import Host, Timeline
from counterpoint.timeline.step_range import narrow, step_range

if TYPE_CHECKING:
    from counterpoint.flags.settings import Settings
    from counterpoint.hardware.target import Target
    from counterpoint.runs.run import Run
    from counterpoint.timeline.model import ChosenSteps

VIRTUAL_DEVICES: Final = (
    "virtual CPU devices share the machine's cores: dependencies are real, but times say nothing"
    " about an accelerator"
)
"""The note on a profile of such devices, which casts doubt on every figure and finding."""


def judge(data: StepData) -> tuple[tuple[Finding, ...], tuple[str, ...]]:
    """Run all rules; return what they find, and a note on each rule that failed.

    Priced findings come first, the largest saving first, then unpriced ones by code.
    """
    doubt = _doubt(data)
    checked: list[Finding] = []
    failed: list[str] = []
    for rule in RULES:
        with data.stopwatch.measure(f"rule {rule.CODE}"):
            findings, failure = found_by(rule, rule.check, data)
        worded = [in_neutral_words(data, finding) for finding in findings]
        checked += [_checked(data, _doubted(finding, doubt)) for finding in worded]
        failed += [failure] if failure else []
    priced = [
        finding
        for finding in checked
        if _most(finding) > MIN_REPORTED_SHARE * (finding.mean_step_ms or data.step_ms)
    ]
    unpriced = [finding for finding in checked if not isinstance(finding.saves_ms, Range)]
    return (*sorted(priced, key=_rank), *unpriced), tuple(failed)


def _doubt(data: StepData) -> str | None:
    """Return a general reason to doubt every finding on this Timeline, if there is one."""
    timeline = data.timeline
    separated = data.selection.window is WindowKind.STEP or timeline.steps["step"].n_unique() > 1
    if timeline.step_program is None and not separated:
        return "steps could not be separated: this may have happened only once in the profile"
    return None


def _checked(data: StepData, finding: Finding) -> Finding:
    """Hold a rule to what any finding must satisfy.

    None saves more than its step lasts, or than what it names takes; a remedy changes something.
    """
    saves, share = finding.saves_ms, None
    if isinstance(saves, Range):
        step_ms = finding.mean_step_ms or data.step_ms
        most = min(step_ms, math.inf if finding.takes_ms is None else finding.takes_ms)
        saves = Range(min(saves.low, most), min(saves.high, most))
        share = saves.high / step_ms if step_ms else None
    # What only some steps lose is told by these steps, not by the median of all.
    noise = 0.0 if finding.mean_step_ms is not None else data.cached(noise_share)
    return replace(
        finding,
        saves_ms=saves,
        share=share,
        is_small=share is not None and share <= max(WORTH_SHARE, noise),
        remedy=that_changes(data, finding.remedy),
    )


def _doubted(finding: Finding, doubt: str | None) -> Finding:
    if doubt is None:
        return finding
    both = doubt if finding.doubt is None else f"{finding.doubt}; {doubt}"
    return replace(finding, doubt=both)


def _most(finding: Finding) -> float:
    return finding.saves_ms.high if isinstance(finding.saves_ms, Range) else 0.0


def _rank(finding: Finding) -> tuple[float, str]:
    """Rank by the middle of the range: an upper bound alone does not put a finding first."""
    saves = finding.saves_ms
    middle = (saves.low + saves.high) / 2 if isinstance(saves, Range) else 0.0
    return (-middle, finding.code)


_SEEN: Final = 0.5
"""Share of the time in ops whose work has to be known to say that they lose nothing."""

_MOSTLY: Final = 0.9
"""Share of ops with a known instruction above which a missing HLO is not mentioned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramUse:
    """A compiled module, its executions per device, and its device time over the profile."""

    index: Annotated[
        int, Field("the value of `program` in ops and collectives")
    ]  # its value in the column `program` of ops and collectives
    name: Annotated[str, Field("the module")]
    fingerprint: Annotated[
        str | None, Field("its fingerprint; several, separated by commas, if hosts differ")
    ]
    executions: Annotated[
        int, Field("number of runs on a device, over the whole profile, or in `chosen_steps`")
    ]
    device_ms: Annotated[float, Field("time on a device, over the same")]
    is_step: Annotated[
        bool, Field("true for the step's program; of several, the one with most device time")
    ]
    runs_per_step: Annotated[int, Field("how often a step runs it; 0: it is no part of a step")] = (
        0  # 0: it is no part of a step
    )
    step_ms: Annotated[float, Field("time on a device that it takes of a median step")] = (
        0.0  # time that it takes of one
    )
    place: Annotated[
        int | None,
        Field("its turn among the programs of a step, from 0; null: it is no part of a step"),
    ] = None  # its turn within a step, from 0
    builds: Annotated[
        tuple[int, ...],
        Field(
            "the `index` of every program of its function (compiled for other shapes or static "
            "arguments), one or another of which a step runs; empty: it is no part of a step, or "
            "another build is listed as that part"
        ),
    ] = ()  # indices of all programs of its function, if a step runs either


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Explanation:
    """The time of a step and its causes: milliseconds of a median step, mean over devices.

    `step` and `selected_devices` are the requested ones; None: a median step, all devices.
    `chosen_steps`: the steps that were to be explained; None: all.
    `subject` is what the figures describe: a run of the step's program if no whole step was seen.

    `ops` and `collectives` are polars frames, documented at `op_profile` and `collective_profile`;
    `ops_by("scope")`, "source" or "category" aggregates ops, as documented at `ops.SCHEMA`;
    `devices` holds the parts of the step per device and step, `device_breakdowns` those of a median
    step per device. None: not known, see `notes`.

    `timeline` is what was explained, for views of it; None if that is too large to be kept.
    """

    inputs: tuple[str, ...]
    notes: tuple[str, ...]
    step: int | None
    chosen_steps: ChosenSteps | None
    subject: str
    hidden: str | None  # what the user waited for beside steps like the median one
    selected_devices: tuple[int, ...] | None
    hosts: tuple[Host, ...]
    device_count: int
    device_kind: str
    basis: str
    truncated: bool
    programs: tuple[ProgramUse, ...]
    steps: StepTimes
    breakdown: Breakdown | None
    phases: Phases | None
    devices: pl.DataFrame
    device_breakdowns: Mapping[int, Breakdown]
    ops: pl.DataFrame
    collectives: pl.DataFrame
    utilization: Utilization
    findings: tuple[Finding, ...]
    failures: tuple[str, ...] = ()  # those of rules, which are also among the notes
    timeline: Timeline | None = None

    @property
    def losses(self) -> tuple[Finding, ...]:
        """The findings that have a saving and are worth a user's time, the largest first."""
        priced = (it for it in self.findings if isinstance(it.saves_ms, Range))
        return tuple(it for it in priced if not it.is_small)

    @property
    def verdict(self) -> str | None:
        """The sentence on steps that lose nothing worth a finding; None if they do, or unknown."""
        return self.verdict_on(self.subject)

    def verdict_on(self, whole: str) -> str | None:
        """Return the verdict with other words for what the losses are a share of."""
        if self.breakdown is None or self.losses:
            return None
        small = next((it for it in self.findings if it.is_small), None)
        largest = f"; the largest is {small.code}, {small.share:.1%}" if small else ""
        hidden = small is not None and (small.share or 0.0) > WORTH_SHARE
        loss = f"no loss above {WORTH_SHARE:.0%} of {whole}"
        if hidden:
            loss += " and above its noise"
        outside = self._time_between
        if self.failures:
            rules = counted_noun(len(self.failures), "rule")
            return f"{loss} was found, but {rules} failed, so this is not the whole answer{largest}"
        seen = (self.utilization.flops_known_share or 0.0) >= _SEEN
        if self.steps.window is WindowKind.STEP and seen:
            where = "nothing within a step is" if outside else "nothing"
            return f"{where} worth your time: {loss}{largest}{outside}"
        lacks = "HLO" if self.programs else "programs"
        lacks = lacks if self.steps.window is WindowKind.STEP else "steps"
        return (
            f"{loss} was found, but without {lacks} in the profile many rules cannot tell{largest}"
            f"{outside}"
        )

    @property
    def _time_between(self) -> str:
        """Say how much of the loop's time is part of no step; empty if that is little."""
        note = next((note for note in self.notes if BETWEEN in note), None)
        return (
            "" if note is None else f". But {note.partition(' ')[0]} of the time is between steps"
        )

    def ops_by(self, by: Grouping) -> pl.DataFrame:
        """Return op time by `scope` (layers of one kind together), `source`, `category` or `op`."""
        if by not in GROUPINGS:
            raise UsageError(f"unknown grouping {by!r}; allowed: {', '.join(GROUPINGS)}")
        return grouped(self.ops, by)

    @property
    def groups(self) -> pl.DataFrame:
        """The op time by scope, by source and by category, one after the other."""
        return all_groups(self.ops)

    def finest_grouping(self, rows: int) -> Grouping:
        """Return the finest grouping of which `rows` rows cover most of the time."""
        return finest(self.ops, rows)

    def __repr__(self) -> str:
        median = self.steps.median_ms
        step = "no whole step" if median is None else f"step {median:,.2f} ms"
        first = "".join(
            f", first {finding.code} {finding.title!r}" for finding in self.findings[:1]
        )
        return (
            f"<Explanation of {shorten_names(self.inputs)}: {self.basis}, {step} on"
            f" {self.device_count}"
            f" devices, {len(self.findings)} findings{first}>"
        )

    def _repr_html_(self) -> str | None:
        return as_html(self)


def explain(  # noqa: PLR0913 - what to explain, and what is known about it
    timeline: Timeline | str | Path,
    *,
    step: int | None = None,
    steps: str | range | None = None,
    last: int | None = None,
    devices: Sequence[int] | None = None,
    run: Run | None = None,
    target: Target | None = None,
    settings: Settings | None = None,
    jaxlib: str | None = None,
    stopwatch: Stopwatch | None = None,
) -> Explanation:
    """Explain a typical step, or step `step`, on all devices or on `devices`.

    A typical step of `steps` (a `range`, or "A:B" without step B), or of the `last` so many, is
    explained as if only these had been recorded.

    `run` supplies the settings of the run and its `jaxlib`, unless these are given; `target`
    describes the links between devices and hosts. A path to a recording or a Run is read first.
    `stopwatch` receives the time of each table and rule.
    """
    wanted = step_range(steps, last, step)
    if not isinstance(timeline, Timeline):
        if run is None and is_run(timeline):
            from counterpoint.runs.reader import read_run

            run = read_run(timeline)
        timeline = read(str(timeline), steps=steps, last=last)
    elif wanted is not None:
        timeline = narrow(timeline, wanted)
    require_devices(timeline)
    stopwatch = stopwatch or Stopwatch()
    with stopwatch.measure("explanation"):
        return _explained(
            timeline, step, devices, context_of(run, target, settings, jaxlib), stopwatch
        )


def _explained(
    timeline: Timeline,
    step: int | None,
    devices: Sequence[int] | None,
    context: Context,
    stopwatch: Stopwatch,
) -> Explanation:
    every = StepData(
        selection=select(timeline, step=step, devices=devices), context=context, stopwatch=stopwatch
    )
    # Steps that have a finding of their own are in no typical step.
    selection = without_slow(every) if every.selection.occurrences else every.selection
    data = every
    if selection is not every.selection:
        data = StepData(selection=selection, context=context, stopwatch=stopwatch)
        # They depend on all steps, not on the typical ones.
        for table in (growth, build_lengths, slow_steps):
            data.tables[table] = every.cached(table)
    attributed, ops, collectives = data.attributed, data.ops, data.cached(collective_profile)
    parts = data.breakdown if selection.occurrences else None
    use = utilization(selection, ops, parts.idle_ms if parts else None, chip_of(data))
    in_step = programs_in_step(selection)
    how = timeline.step_rule if step is None else f"step {step} alone; {timeline.step_rule}"
    findings, failures = judge(data) if parts else ((), ())
    return Explanation(
        inputs=timeline.inputs,
        notes=(
            *_outlier_notes(every, data),
            *timeline.notes,
            *check_target(data),
            *_more_notes(timeline, selection),
            *steps_by_build(selection, in_step),
            *filter(None, (between_steps(selection),) if step is None else ()),
            *_above_peak(use),
            *startup(data),
            *filter(None, (compiled_before(data),)),
            *failures,
        ),
        step=step,
        chosen_steps=timeline.chosen,
        subject=selection.subject,
        hidden=data.cached(hidden_by_the_median) if parts else None,
        selected_devices=None if devices is None else selection.devices,
        hosts=timeline.hosts,
        device_count=len(selection.devices),
        device_kind=" and ".join(sorted({d.kind for d in timeline.devices})),
        basis=str(timeline.basis),
        truncated=timeline.truncated,
        programs=tuple(_programs(selection, in_step)),
        steps=step_times(selection, how, in_step),
        breakdown=parts,
        phases=phases(selection, attributed) if selection.occurrences else None,
        devices=_per_device(attributed),
        device_breakdowns=device_breakdowns(selection, attributed),
        ops=ops,
        collectives=collectives,
        utilization=use,
        findings=findings,
        failures=failures,
        timeline=timeline if len(timeline.spans) <= _KEPT else None,
    )


_KEPT: Final = 1_000_000
"""Spans of a Timeline that an Explanation keeps: about 50 MB."""


def _programs(selection: Selection, parts: Mapping[int, ProgramInStep]) -> list[ProgramUse]:
    timeline = selection.timeline
    counted = pl.lit(value=True) if timeline.chosen is None else pl.col("step").is_not_null()
    runs = (
        timeline.runs.filter(counted)
        .group_by("program")
        .agg(
            (pl.len() / pl.col("device").n_unique()).alias("executions"),
            ((pl.col("end_ps") - pl.col("start_ps")).sum() / pl.col("device").n_unique()).alias(
                "ps"
            ),
        )
    )
    absent = ProgramInStep(runs=0, ms=0.0, place=None, builds=())
    return [
        ProgramUse(
            index=program,
            name=timeline.programs[int(program)].name,
            fingerprint=", ".join(timeline.programs[int(program)].fingerprints) or None,
            executions=round(executions),
            device_ms=ps / 1e9,
            is_step=program == timeline.step_program,
            runs_per_step=parts.get(program, absent).runs,
            step_ms=parts.get(program, absent).ms,
            place=parts.get(program, absent).place,
            builds=parts.get(program, absent).builds,
        )
        for program, executions, ps in runs.sort("ps", "program", descending=[True, False]).rows()
    ]


def _per_device(attributed: pl.DataFrame) -> pl.DataFrame:
    """Sum milliseconds per device, step and state."""
    return (
        attributed.group_by("device", "step", "state")
        .agg((pl.col("ps").sum() / 1e9).alias("ms"))
        .sort("device", "step", "state")
    )


def _above_peak(use: Utilization) -> Iterator[str]:
    """Yield a note on a rate above the peak of bfloat16, by which MFU is told."""
    if use.above_peak is not None:
        yield (
            f"the ops' FLOP/s are {use.above_peak:.0%} of the bfloat16 peak of {use.chip}, by which"
            " MFU is told, so none is given: products in FP8 or int8 have a higher peak. If the"
            " program has none of those, FLOPs are counted wrong here: please report it"
        )


def _outlier_notes(every: StepData, data: StepData) -> tuple[str, ...]:
    """Return notes on long steps that no finding tells of."""
    if every.cached(build_lengths) is not None:
        return ()
    told = {step for slow in every.cached(slow_steps) for step in slow.longer_ms}
    return outlier_notes(tuple(one for one in outliers(data) if one.step not in told))


def _more_notes(timeline: Timeline, selection: Selection) -> list[str]:
    notes: list[str] = []
    if on_virtual_devices(timeline):
        notes.append(VIRTUAL_DEVICES)
    if timeline.truncated:
        notes.append("the profile is cut off: the last steps may lack events")
    without = [entry.name for entry in timeline.programs if not entry.variants]
    known = timeline.ops["opcode"].count()
    enough = _MOSTLY * len(timeline.ops)
    if timeline.programs and len(without) == len(timeline.programs) and known < enough:
        notes.append("no HLO in the profile: phases, sources and bytes are known only for some ops")
    if selection.not_looked_into:
        looked = selection.windows["step"].n_unique()
        notes.append(
            f"what a step consists of is the mean of {looked} of"
            f" {looked + selection.not_looked_into} typical steps; step times are those of all"
        )
    if not selection.occurrences:
        notes.append("no complete step was found, so there are no figures per step")
    return notes
