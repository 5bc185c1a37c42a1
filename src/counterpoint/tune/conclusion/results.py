"""The results of a study's measurements, and their caveats: noise, drift, other machines."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from counterpoint.core import CounterpointError, Range, Unknown
from counterpoint.core.frozen import frozen
from counterpoint.core.printable import counted_noun as several
from counterpoint.core.printable import some
from counterpoint.flags.versions import PROFILE
from counterpoint.hardware import find_chip
from counterpoint.hardware.targets import parse_target
from counterpoint.tune.arm import (
    BASE,
    Arm,
    ArmOrigin,
    hidden_text,
    share_text,
    what_text,
)
from counterpoint.tune.race.combinations import left_out, without_each
from counterpoint.tune.race.rows import ABLATE, CONFIRM, RACE
from counterpoint.tune.race.state import SAME_PROGRAM, RaceState, simplest_best
from counterpoint.tune.statistics.estimate import (
    ArmVerdict,
    GainEstimate,
    RunNoise,
    estimate_text,
)
from counterpoint.tune.study.records import Ablated
from counterpoint.tune.study.study import NO_BUDGET, Study
from counterpoint.tune.trial.report import TrialReport


@frozen(kw_only=True)
class StudyResults:
    """Estimates by arm; `fresh` are those of the confirmation, once it is complete.

    `refuted` is an arm that was or seemed faster in the race but not in its fresh runs.
    """

    raced: Mapping[str, GainEstimate]
    fresh: Mapping[str, GainEstimate]
    winner: Arm | None = None
    refuted: Arm | None = None

    @property
    def confirmed(self) -> bool:
        return self.winner is not None and self.winner.name in self.fresh

    @property
    def claimed(self) -> GainEstimate | None:
        """The claim about the winner: from fresh runs alone, if there are any."""
        if self.winner is None:
            return None
        return self.fresh.get(self.winner.name) or self.raced.get(self.winner.name)


def study_results(state: RaceState) -> StudyResults:
    """Return the results so far; nothing is claimed between two looks.

    A dropped arm keeps the estimate that it was dropped for.
    """
    study, indifferent = state.study, state.plan.rule.indifferent
    then = {name: state.raced_until_dropped(name) for name in study.dropped}
    raced = {**state.raced, **{name: found for name, found in then.items() if found is not None}}
    fresh = {
        name: estimate
        for name, estimate in state.confirmed.items()
        if (study.ended is not None or name in state.had_fresh_runs)
        and not math.isnan(estimate.gain)
    }
    best = simplest_best(state.faster(fresh), fresh, indifferent)
    if best is not None:
        return StudyResults(raced=raced, fresh=fresh, winner=best)
    refuted = [arm for arm in state.racers if arm.name in fresh]
    if refuted:
        gains = {name: estimate.gain for name, estimate in raced.items()}
        best_raced = max(refuted, key=lambda arm: gains.get(arm.name, -math.inf))
        return StudyResults(raced=raced, fresh=fresh, refuted=best_raced)
    decided = {name: estimate for name, estimate in raced.items() if estimate.decided}
    best = simplest_best(state.faster(decided), decided, indifferent)
    return StudyResults(raced=raced, fresh=fresh, winner=best)


def measured_ablation(state: RaceState, found: StudyResults) -> tuple[Ablated, ...]:
    """Return the measured loss of the winner without each of its changes."""
    study, claim = state.study, found.claimed
    if found.winner is None or claim is None:
        return ()
    base = study.arm(BASE).settings
    parts = {arm.name for arm in without_each(base, found.winner)}
    estimates = state.ablated(found.winner.name)
    times = [trial.started.at for trial in study.trials if trial.started.purpose in ABLATE]
    measured: list[Ablated] = []
    for arm in study.arms:
        change = left_out(found.winner, arm, base)
        if arm.origin is not ArmOrigin.ABLATION or arm.name not in parts or change is None:
            continue
        loses = _loses(study, arm, estimates.get(arm.name), 1 - claim.gain)
        if loses is not None:
            measured.append(
                Ablated(
                    arm=found.winner.name,
                    dimension=change.dimension,
                    choice=change.choice,
                    loses=loses[0],
                    low=loses[1],
                    high=loses[2],
                    basis="measured",
                    at=times[-1],
                )
            )
    return tuple(measured)


def _loses(
    study: Study, arm: Arm, estimate: GainEstimate | None, share: float
) -> tuple[float, float | None, float | None] | None:
    """Return losses as shares of the base's step; `share` is the winner's step in the same unit."""
    drop = study.dropped.get(arm.name)
    if drop is not None:
        return (0.0, 0.0, 0.0) if drop.kind == SAME_PROGRAM else None
    if estimate is None or math.isnan(estimate.gain):
        return None
    reach = estimate.range
    if not isinstance(reach, Range):
        return -estimate.gain * share, None, None
    return -estimate.gain * share, -reach.high * share, -reach.low * share


WITHOUT_PGLE = (
    "without PGLE: the gain was predicted with a profile of predicted costs;"
    " a profile must be measured"
)


def lacks_profile(arm: Arm) -> bool:
    """Return whether the arm was predicted with a PGLE profile that was not measured yet."""
    return arm.profile and PROFILE not in arm.settings.flags


def settings_caveats(arm: Arm) -> tuple[str, ...]:
    """Return caveats about an arm's settings, one line each."""
    caveats: list[str] = []
    if lacks_profile(arm):
        caveats.append(WITHOUT_PGLE)
    if arm.per is not None:
        caveats.append(f"it needs one process per {arm.per}; no setting does this")
    return tuple(caveats)


_CPU: Final = "cpu"  # as JAX calls it


def foreign_devices(study: Study) -> str | None:
    """Return the device of the runs if it is certainly not the target's chip."""
    if study.began.target is None:
        return None
    seen = {device for trial in study.trials if trial.report for device in trial.report.devices}
    if not seen:
        return None
    try:
        wanted = parse_target(study.began.target).chip.name
    except CounterpointError:  # a target file that no longer exists
        return None
    return min((device for device in seen if _is_another(device, wanted)), default=None)


def _is_another(device: str, wanted: str) -> bool:
    """Return whether the device is not the wanted chip; False for unknown GPUs."""
    if device.lower() == _CPU:
        return True
    chip = find_chip(device)
    return chip is not None and chip.name != wanted


_NEAR_THE_LIMIT = 0.95
_AS_FAR = 0.9
"""Share of the base's steps: an arm may fall a bit short if the program trains for a fixed time."""


def doubts(state: RaceState, found: StudyResults, noise: RunNoise | None) -> tuple[str, ...]:
    """Return all caveats once, the most important first."""
    study = state.study
    notes = [
        *_remat(study, found),
        *_memory(study, found),
        *_numbers(study),
        *_shorter(study),
        *_noise(state.plan.rule.indifferent, noise),
        *_alarms(state),
        *_others(study, found),
        *_not_tried(study),
        *_of_trials(study),
        *(study.space.notes if study.space else ()),
        *_model(study),
    ]
    return tuple(dict.fromkeys(notes))


def _model(study: Study) -> Iterator[str]:
    """Yield how the study changed the cost model."""
    fitted = study.fitted
    device = foreign_devices(study)
    if device is not None:
        yield (
            f"it ran on {device}, but the prediction is for {study.began.target}: their steps are"
            " not compared, and the cost model is not fitted"
        )
        return
    if fitted is None:
        return
    if fitted.path is None:
        yield f"the cost model was not fitted: {fitted.why}"
    elif fitted.error_before is not None and fitted.error_after is not None:
        yield (
            f"the cost model was fitted to {several(fitted.arms, 'arm')} ({fitted.path}): its error"
            f" is {fitted.error_after:.1%}, and was {fitted.error_before:.1%} before"
        )


def _reports(study: Study, name: str) -> tuple[TrialReport, ...]:
    return tuple(
        trial.report for trial in study.trials_of(name) if trial.counts and trial.report is not None
    )


def _remat(study: Study, found: StudyResults) -> Iterator[str]:
    """Report recomputation for only the arm or only the base: it outweighs most settings."""
    base = {report.remat for report in _reports(study, BASE)} - {None}
    for name, estimate in found.raced.items():
        own = {report.remat for report in _reports(study, name)} - {None}
        if not base or not own or own == base or estimate.verdict is ArmVerdict.SAME:
            continue
        which, other = (name, "the base") if True in own else ("the base", name)
        yield (
            f"XLA rematerializes to save memory in {which}, but not in {other}: part of their"
            " difference comes from memory"
        )


def _memory(study: Study, found: StudyResults) -> Iterator[str]:
    if found.winner is None:
        return
    for report in _reports(study, found.winner.name):
        if not report.peak_bytes or not report.limit_bytes:
            continue
        share = report.peak_bytes / report.limit_bytes
        if share >= _NEAR_THE_LIMIT:
            yield f"{found.winner.name} uses {share:.0%} of the available memory"
            return


def _numbers(study: Study) -> Iterator[str]:
    base = _reports(study, BASE)
    if base and not any(report.losses and report.losses.values for report in base):
        yield "the program prints no losses, so the results of the arms are not compared"


def _shorter(study: Study) -> Iterator[str]:
    """Report arms that ended successfully but ran fewer steps than the base."""
    base = [report.steps_seen for report in _reports(study, BASE) if report.steps_seen is not None]
    if not base:
        return
    for arm in study.arms:
        own = [
            report.steps_seen
            for report in _reports(study, arm.name)
            if report.steps_seen is not None
        ]
        if not arm.is_base and own and min(own) < _AS_FAR * min(base):
            yield f"{arm.name} ran {min(own)} steps, and the base {min(base)}: see its logs"


def _noise(indifferent: float, noise: RunNoise | None) -> Iterator[str]:
    if noise is None or isinstance(noise.sigma, Unknown) or noise.floor <= indifferent:
        return
    floor = share_text(noise.floor)
    yield f"identical runs differ by up to {floor} here: smaller effects can't be seen"


def _alarms(state: RaceState) -> Iterator[str]:
    from counterpoint.tune.statistics.fit import alarms

    yield from alarms(state.rows.observations(RACE))
    for note in alarms(state.rows.observations(CONFIRM)):
        yield f"in the confirmation, {note}"


def _others(study: Study, found: StudyResults) -> Iterator[str]:
    for name, estimate in found.raced.items():
        if name in study.dropped:
            continue
        if estimate.verdict is ArmVerdict.FASTER and (
            found.winner is None or name != found.winner.name
        ):
            yield f"{name} was also faster: {estimate_text(estimate)} in the race"


def _not_tried(study: Study) -> Iterator[str]:
    """Report arms that the budget had no room for: those that never ran, then those that did."""
    out = [drop.arm for drop in study.dropped.values() if drop.kind == NO_BUDGET]
    ran = [name for name in out if study.trials_of(name)]
    for names, room in (
        ([name for name in out if name not in ran], "room for"),
        (ran, "room for more runs of"),
    ):
        if names:
            first = some([what_text(study.arm(name)) for name in names], 3)
            yield f"the budget had no {room} {several(len(names), 'arm')}: {first}"


def _of_trials(study: Study) -> Iterator[str]:
    for trial in study.trials:
        if trial.report is not None:
            yield from trial.report.notes


TELLS_NOTHING: Final = 0.05
"""Rule of thumb: if an effect this large can't be ruled out, "no effect" is not claimed."""
NOISY: Final = "too noisy to tell"


def without_vain_claims(found: StudyResults) -> StudyResults:
    """Return the findings, with "no effect" changed to open where the range is too wide."""
    return replace(
        found,
        raced={name: _without_vain_claim(estimate) for name, estimate in found.raced.items()},
        fresh={name: _without_vain_claim(estimate) for name, estimate in found.fresh.items()},
    )


def _without_vain_claim(estimate: GainEstimate) -> GainEstimate:
    if estimate.verdict is not ArmVerdict.SAME or not isinstance(estimate.range, Range):
        return estimate
    most = max(abs(estimate.range.low), abs(estimate.range.high))
    if most <= TELLS_NOTHING:
        return estimate
    why = f"{NOISY}: {hidden_text([estimate.range])} can't be seen here"
    return replace(estimate, verdict=ArmVerdict.OPEN, why=why)
