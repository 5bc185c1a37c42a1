"""The report of `compare`: whether B is slower, then where its time differs, then the rest.

Every difference is B minus A. Tables show what clearly exceeds the noise and sum up the rest; the
JSON holds everything.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from counterpoint.core import Basis, Unknown
from counterpoint.core.printable import counted_noun
from counterpoint.diagnose.compare.comparison import Comparison, StepDifference
from counterpoint.diagnose.compare.experiment import DifferenceKind, SideDifference
from counterpoint.diagnose.compare.losses import LossDifference
from counterpoint.diagnose.compare.side import Side
from counterpoint.diagnose.compare.step_time import StepChange, StepVerdict
from counterpoint.diagnose.selection import WindowKind
from counterpoint.hardware.chip import chip_label
from counterpoint.report import units
from counterpoint.report.document import (
    Block,
    Document,
    Fact,
    FactList,
    Prose,
    Section,
    Tone,
)
from counterpoint.report.explain.compare_json import PartJson, PhaseJson
from counterpoint.report.explain.compare_tables import (
    changes_table,
    collectives_section,
    differs_section,
    ops_section,
    schedule_section,
)
from counterpoint.report.run_commands import (
    again_command,
    next_commands,
    profiled_run_command,
)
from counterpoint.timeline.model import Timeline

_MS: Final = 1e3
_NOTES: Final = 6
_RUNS: Final = 3
_OPEN: Final = (StepVerdict.OPEN, StepVerdict.WITHIN)
"""Verdicts that runs of both sides would change."""
_SMALL_LOSS: Final = 1e-4
_MANY: Final = 2.0  # from here on a multiple is clearer than a percentage
_OF: Final = {
    WindowKind.STEP: "a median step",
    WindowKind.RUN: "one run of the step's program",
    WindowKind.PROFILE: "the profile",
}
SOURCES: Final = {
    "annotation": "the program's step annotations",
    "api": "StepProfiler",
    "log": "log lines that name a step",
    "profile": "the profile",
    "prediction": "the simulator",
}
OVERHEAD: Final = Prose("profiled steps, which include profiler overhead", Tone.QUIET)
_LEGEND: Final = (
    "times: ms of a median step, mean over devices; B-A is positive if B takes longer. The time of"
    " an op is the time in which the step waits for it: 0 if it is hidden behind compute"
)


def compare_document(comparison: Comparison, top: int = 10) -> Document:
    """Return the report, with `top` rows in each table."""
    sections = [_head(comparison), _step(comparison)]
    if isinstance(comparison.work, Unknown):
        reason = Prose(comparison.work.reason, Tone.QUIET)
        sections.append(Section("Where the time goes", "not compared", (reason,)))
    else:
        sections += [
            _parts(comparison, comparison.work),
            ops_section(comparison.work, top, alone=comparison.runs == (1, 1)),
            collectives_section(comparison.work, top),
            schedule_section(comparison.work.schedule, top),
        ]
    sections.append(differs_section(comparison, top))
    return Document(sections=tuple(sections), legend=_LEGEND, next=next_after_compare(comparison))


def _head(comparison: Comparison) -> Section:
    rows = [*_faults(comparison), *_losses(comparison)]
    rows += [
        Fact("A", _side(comparison.a, comparison.runs[0])),
        Fact("B", _side(comparison.b, comparison.runs[1])),
    ]
    others = [
        differs for differs in comparison.differs if differs.about is DifferenceKind.EXPERIMENT
    ]
    rows += [Fact("DIFFERENT", _differs(differs), Tone.WARNING) for differs in others]
    rows += [Fact("note", note, Tone.WARNING) for note in comparison.notes[:_NOTES]]
    more = len(comparison.notes) - _NOTES
    if more > 0:
        rows.append(Fact("", f"and {more} more notes: --json", Tone.QUIET))
    summary = (
        "" if comparison.same_experiment else "different experiments: a difference proves little"
    )
    return Section("Compared", _failed(comparison) or summary, (FactList(tuple(rows)),))


def _failed(comparison: Comparison) -> str:
    """Return which runs do not count, in one sentence."""
    parts = [
        f"{len(faults)} of {counted_noun(runs, 'run')} of {name}"
        for name, faults, runs in zip("AB", comparison.faults, comparison.runs, strict=True)
        if faults
    ]
    only_one = sum(map(len, comparison.faults)) == 1
    return f"{' and '.join(parts)} {'does' if only_one else 'do'} not count" if parts else ""


def _faults(comparison: Comparison) -> Iterator[Fact]:
    for name, faults in zip("BA", reversed(comparison.faults), strict=True):
        for side in faults[:_NOTES]:
            yield Fact(f"{name} FAILED", f"{side.name}: {side.fault}", Tone.WARNING)
        if len(faults) > _NOTES:
            yield Fact("", f"and {len(faults) - _NOTES} more runs of {name}: --json", Tone.QUIET)


def _losses(comparison: Comparison) -> Iterator[Fact]:
    losses = comparison.losses
    if not isinstance(losses, Unknown):
        tone = Tone.WARNING if losses.differ else Tone.QUIET
        yield Fact("LOSSES" if losses.differ else "losses", losses_answer(losses), tone)


def losses_answer(losses: LossDifference) -> str:
    """Return in words whether both sides printed the same losses."""
    among = f"{losses.steps} common steps" if losses.steps > 1 else "the only common step"
    if not losses.share:
        return f"equal in {among}"
    if math.isinf(losses.share):
        return f"those of one side are not finite at step {losses.step}"
    by = f"B's differ from A's by up to {_loss_share(losses.share)}, at step {losses.step}"
    if losses.own is None:
        return f"{by}; one run of A does not tell by how much equal runs differ"
    if not losses.own:
        return f"{by}, where those of A's runs are equal: B does not compute the same numbers"
    own = f"those of A's runs by up to {_loss_share(losses.own)}"
    return f"{by}, {own}" + (": B does not compute the same numbers" if losses.differ else "")


def _loss_share(share: float) -> str:
    return f"{share:.2%}" if share >= _SMALL_LOSS else f"{share:.1e}"


def _side(side: Side, runs: int) -> str:
    what = "Run" if side.run is not None else "profile"
    if side.timeline is not None:
        what = _devices(side.timeline)
    several = ""
    if runs > 1:
        which = "the first" if side.times is None else "the nearest to their median"
        several = f"; of {runs} runs, {which}"
    return f"{side.name} ({what}{several})"


def _devices(timeline: Timeline) -> str:
    kinds = " and ".join(sorted({chip_label(it.chip, it.kind) for it in timeline.devices}))
    if timeline.basis is Basis.PREDICTED and timeline.hosts:
        return f"predicted: {timeline.hosts[0].name}, {kinds}"
    return f"measured, {len(timeline.devices)} x {kinds}"


def _differs(difference: SideDifference) -> str:
    return f"{difference.what}: {difference.a or 'none'} in A, {difference.b or 'none'} in B"


def _step(comparison: Comparison) -> Section:
    step = comparison.step
    if isinstance(step, Unknown):
        return Section("Step time", f"unknown: {step.reason}")
    rows = [
        Fact("A", _time(step.a_s, comparison.a, comparison.timed[0], comparison.runs[0])),
        Fact("B", _time(step.b_s, comparison.b, comparison.timed[1], comparison.runs[1])),
        Fact("B against A", _change(step)),
    ]
    if not isinstance(step.of_steps, Unknown):
        low, high = step.of_steps.low, step.of_steps.high
        rows.append(Fact("from steps alone", f"{low:+.2%} to {high:+.2%}", Tone.QUIET))
    if (why := comparison.contradicted) is not None:
        rows.append(Fact("CONTRADICTION", why, Tone.WARNING))
    rows.append(Fact("how", step.how, Tone.QUIET))
    return Section("Step time", step_answer(step), (FactList(tuple(rows)),))


def _time(seconds: float, side: Side, timed: int, runs: int) -> str:
    source = side.times.source if side.times else ""
    count = len(side.times.each_s) if side.times else 0
    by = f"by {SOURCES.get(source, source)}"
    return f"{units.milliseconds(seconds * _MS)}   ({counted_runs(timed, runs, count)}, {by})"


def counted_runs(timed: int, runs: int, steps: int) -> str:
    """Return the steps of the one run, or the number of those of which the step time is."""
    counted = counted_noun(steps, "step")
    if timed > 1:
        counted = f"mean of the medians of {timed} runs"
    if timed == runs:
        return counted
    rest = f"{runs - timed} other{'s' * (runs - timed > 1)} not counted"
    return f"{counted}{' of one run' if timed == 1 else ''}, {rest}"


def _change(step: StepChange) -> str:
    if isinstance(step.range, Unknown):
        return f"{step.change:+.2%}, range unknown: {step.range.reason}"
    low, high = step.range.low, step.range.high
    return f"{step.change:+.2%}, {range_name(step)} {low:+.2%} to {high:+.2%}"


def range_name(step: StepChange) -> str:
    """Return what the range is: only repeated runs show by how much runs differ."""
    return "assumed range" if step.assumed else "range"


def step_answer(step: StepChange) -> str:
    """Return in words by how much B's step is longer or shorter, and what that proves."""
    if step.verdict in (StepVerdict.FASTER, StepVerdict.SLOWER):
        return f"B is {step.verdict}: {_way(step.change)}"
    if step.change == 0:
        return str(step.verdict)
    return f"{_way(step.change)}: {step.verdict}"


def _way(change: float) -> str:
    if change > _MANY:
        return f"{1 + change:,.1f} times as long"
    return f"{abs(change):.1%} {'longer' if change > 0 else 'shorter'}"


def _parts(comparison: Comparison, work: StepDifference) -> Section:
    what = f"Where {_OF[work.window]} goes"
    difference = work.step.difference_ms
    longer = (
        f"{units.milliseconds(abs(difference))} {'longer' if difference > 0 else 'shorter'} in B"
    )
    blocks: list[Block] = [changes_table(PartJson, work.parts, work.step)]
    if max(comparison.runs) > 1:
        blocks.insert(0, Prose(f"of {_own_step(comparison.a)} and {_own_step(comparison.b)} alone"))
    if isinstance(work.phases, Unknown):
        blocks.append(Prose(f"by phase: {work.phases.reason}", Tone.QUIET))
    else:
        blocks.append(changes_table(PhaseJson, work.phases, work.busy))
    if {"annotation", "api", "log"} & {
        side.times.source for side in (comparison.a, comparison.b) if side.times
    }:
        blocks.append(OVERHEAD)
    if work.window is not WindowKind.STEP:
        warning = f"a side has no whole step: {_OF[work.window]} of each is compared"
        blocks.append(Prose(warning, Tone.WARNING))
    return Section(what, longer if difference else "equal", tuple(blocks))


def _own_step(side: Side) -> str:
    """Return the run that the tables are of, and its step as that of all runs was measured."""
    if side.times is None:
        return side.name
    return f"{side.name} (its step: {units.milliseconds(side.times.median_s * _MS)})"


def next_after_compare(comparison: Comparison) -> str:
    """Return the command that helps most: to look at a failed run, to decide, or to explain."""
    for side in (*comparison.faults[1], *comparison.faults[0]):
        if side.run is not None and not side.run.outcome.ok:
            return (next_commands(side.run, Path(side.name)) or [_listed(side)])[0]
    step = comparison.step
    slower = comparison.a if isinstance(step, StepChange) and step.change < 0 else comparison.b
    if slower.timeline is not None:
        return shlex.join(["counterpoint", "explain", slower.name])
    again = repeated_command(comparison)
    if again is not None and isinstance(step, StepChange) and step.verdict in _OPEN:
        return again
    if slower.run is None:
        return _listed(slower)
    return profiled_run_command(slower.run, Path(slower.name))


def repeated_command(comparison: Comparison) -> str | None:
    """Return the command that makes runs of both in the order ABBA; None if it is not known."""
    run = comparison.b.run
    if run is None or comparison.a.run is None or not shlex.join(run.command).isprintable():
        return None
    return again_command(run, ["--repeat", str(_RUNS), "--against", comparison.a.name])


def _listed(side: Side) -> str:
    return shlex.join(["counterpoint", "runs", str(Path(side.name).parent)])
