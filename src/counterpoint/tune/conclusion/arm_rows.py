"""The table of a study: a row per arm, with what became of it."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from counterpoint.core.basis import Unknown
from counterpoint.tune.arm import Acts, Arm, Origin, Predicted
from counterpoint.tune.conclusion.conclusion import ArmRow
from counterpoint.tune.conclusion.findings import Findings
from counterpoint.tune.conclusion.foreign import foreign_devices
from counterpoint.tune.conclusion.noisy import NOISY
from counterpoint.tune.journal.records import CandidateSeen
from counterpoint.tune.online.race import SPENT, to_enter
from counterpoint.tune.plan import Plan
from counterpoint.tune.search.shows import shows
from counterpoint.tune.statistics.estimate import Estimate, Verdict
from counterpoint.tune.study.study import Study
from counterpoint.tune.trial.report import Purpose

WINNER = "winner"
NOT_CONFIRMED = "not confirmed"
NOT_PREDICTABLE = "not predictable"
NOT_LOOKED_AT = "not looked at"
_ORDER = (WINNER, "base", str(Verdict.FASTER), NOT_CONFIRMED, str(Verdict.OPEN))


def arm_rows(study: Study, plan: Plan, found: Findings) -> tuple[ArmRow, ...]:
    """The winner first, then the base, then what is faster, open and not; then what is out."""
    rows = [_row(study, plan, it, found) for it in study.arms]
    known = {it.name for it in study.arms}
    rows += [_untried(study, it) for it in study.candidates if it.arm.name not in known]
    return tuple(sorted(rows, key=_place))


def _place(row: ArmRow) -> tuple[int, int, float]:
    at = _ORDER.index(row.status) if row.status in _ORDER else len(_ORDER)
    told = row.confirmed or row.raced
    if told is not None and told.gain == told.gain:
        return at, 0, -told.gain
    said = row.arm.predicted
    return at, 1, -said.gain if said is not None else 1.0


def _row(study: Study, plan: Plan, arm: Arm, found: Findings) -> ArmRow:
    trials = study.trials_of(arm.name)
    timed = [it for it in trials if it.counts and it.started.purpose is not Purpose.PROFILE]
    steps = [it.report.steady.median_s for it in timed if it.report and it.report.steady]
    seen = [it.report for it in timed if it.report is not None]
    step = median(steps) if steps else None
    peaks = [it.peak_bytes for it in seen if it.peak_bytes is not None]
    status, why = _status(study, plan, arm, found)
    told = found.fresh.get(arm.name) or found.raced.get(arm.name)
    return ArmRow(
        arm=arm,
        status=status,
        why=why,
        trials=len(trials),
        failures=sum(it.failure is not None for it in trials),
        median_s=step,
        raced=found.raced.get(arm.name),
        confirmed=found.fresh.get(arm.name),
        prediction_off=_off(study, arm, (told.step_s if told else None) or step),
        program=next((it.program for it in seen if it.program), None),
        peak_bytes=max(peaks, default=None),
    )


def _off(study: Study, arm: Arm, step: float | None) -> float | None:
    """None also where it ran on other devices than it was predicted for."""
    if step is None or arm.predicted is None or foreign_devices(study) is not None:
        return None
    return step / arm.predicted.step_s - 1


def _status(study: Study, plan: Plan, arm: Arm, found: Findings) -> tuple[str, str]:
    if arm.is_base:
        return "base", ""
    drop = study.dropped.get(arm.name)
    told = found.fresh.get(arm.name) or found.raced.get(arm.name)
    if drop is not None and not (told is not None and told.why.startswith(NOISY)):
        return drop.kind, drop.why
    if found.winner is not None and arm.name == found.winner.name:
        return WINNER, ""
    if arm.origin is Origin.ABLATION or told is None:
        return str(Origin.ABLATION) if arm.origin is Origin.ABLATION else "not tried", ""
    unknown = told.range.reason if isinstance(told.range, Unknown) else ""
    why = told.why or unknown
    if arm.name in found.fresh and told.verdict is not Verdict.FASTER:
        return NOT_CONFIRMED, why
    return str(told.verdict), "; ".join(filter(None, (why, *_no_more_runs(study, plan, told))))


def _no_more_runs(study: Study, plan: Plan, told: Estimate) -> Iterator[str]:
    """Why an arm of which nothing is certain was not run any more."""
    drop = study.dropped.get(told.arm)
    if drop is not None:
        yield f"it was dropped ({drop.kind}, {drop.why}), which proves nothing in such noise"
    elif study.ended is not None and told.verdict is Verdict.OPEN:
        if told.rows >= plan.rule.cap:
            yield f"its {told.rows} rows are all that --cap allows"
        elif study.ended.why == SPENT:
            yield "the budget had no room for more of its runs"


def _untried(study: Study, seen: CandidateSeen) -> ArmRow:
    """Candidates that were predicted only."""
    if seen.failure is not None:
        return ArmRow(arm=seen.arm, status="failed", why=seen.failure)
    if seen.same_as is not None:
        return ArmRow(arm=seen.arm, status="same program", why=_same(seen))
    if seen.arm.is_base:
        return ArmRow(arm=seen.arm, status="base")
    said = seen.arm.predicted
    if said is not None and said.fits is False:
        return ArmRow(arm=seen.arm, status="out of memory", why=_too_large(said))
    return _predicted_only(study, seen)


def _same(seen: CandidateSeen) -> str:
    """Equal programs are equally fast only as far as nothing else differs when they run."""
    at_run = [str(it) for it in seen.arm.changes if it.acts is Acts.RUNTIME]
    also = f"; what {', '.join(at_run)} does when it runs, no compiler tells" if at_run else ""
    return f"the same as {seen.same_as}{also}"


def _predicted_only(study: Study, seen: CandidateSeen) -> ArmRow:
    if seen.arm.name in {it.name for it in to_enter(study)}:
        return ArmRow(arm=seen.arm, status="worth a trial")
    if seen.arm.predicted is not None:
        return ArmRow(arm=seen.arm, status="predicted")
    if shows(seen.arm):
        return ArmRow(arm=seen.arm, status=NOT_LOOKED_AT, why="the search ended before its turn")
    why = "it acts when the program runs, and there was no room for it on the list"
    return ArmRow(arm=seen.arm, status=NOT_PREDICTABLE, why=why)


def _too_large(said: Predicted) -> str:
    if said.peak_bytes is None or said.limit_bytes is None:
        return "it is predicted not to fit"
    peak, limit = (f"{it / 2**30:.1f} GiB" for it in (said.peak_bytes, said.limit_bytes))
    if peak == limit:
        peak, limit = f"{said.peak_bytes:,} bytes", f"{said.limit_bytes:,}"
    return f"its predicted peak of {peak} is over the {limit} that JAX's allocator has"
