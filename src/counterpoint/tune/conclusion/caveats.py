"""Caveats of a conclusion: noise, drift, other machines, memory, and what was not tried."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator
from statistics import median
from typing import Final

from counterpoint.core import CounterpointError, Unknown
from counterpoint.core.printable import counted_noun as several
from counterpoint.core.printable import some
from counterpoint.flags.lines.known import is_variable
from counterpoint.flags.versions import PROFILE
from counterpoint.hardware.chip import find_chip
from counterpoint.hardware.targets import parse_target
from counterpoint.tune.arm import (
    BASE,
    Arm,
    changes_text,
    share_text,
)
from counterpoint.tune.conclusion.results import StudyResults
from counterpoint.tune.race.rows import CONFIRM, RACE
from counterpoint.tune.race.state import RaceState
from counterpoint.tune.statistics.estimate import (
    ArmVerdict,
    RunNoise,
    estimate_text,
)
from counterpoint.tune.study.study import NO_BUDGET, Study
from counterpoint.tune.trial.applied_settings import changed_settings
from counterpoint.tune.trial.loss_check import check_losses, loss_text
from counterpoint.tune.trial.report import TrialReport

WITHOUT_PGLE = (
    "without PGLE: the gain was predicted with a profile of predicted costs;"
    " a profile must be measured"
)
_CPU: Final = "cpu"  # as JAX calls it
_NEAR_THE_LIMIT = 0.95
_FEWEST_STARTS: Final = 2
_NOTICEABLE_S: Final = 0.5
"""Less is a matter of how a program ends, not of what it does (rule of thumb)."""


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
    if arm.options:
        words = shlex.join(word for option in arm.options for word in option)
        caveats.append(f"it needs the command with {words}; no setting does this")
    return tuple(caveats)


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
    return min((device for device in seen if _is_another_chip(device, wanted)), default=None)


def _is_another_chip(device: str, wanted: str) -> bool:
    """Return whether the device is not the wanted chip; False for unknown GPUs."""
    if device.lower() == _CPU:
        return True
    chip = find_chip(device)
    return chip is not None and chip.name != wanted


def caveats(state: RaceState, found: StudyResults, noise: RunNoise | None) -> tuple[str, ...]:
    """Return all caveats once, the most important first."""
    study = state.study
    notes = [
        *_remat(study, found),
        *_memory(study, found),
        *_losses(state, found),
        *_start(study, found),
        *_unread(study, found),
        *_excused(study),
        *_noise(state.plan.rule.indifferent, noise),
        *_alarms(state),
        *_also_faster(study, found),
        *_without_budget(study),
        *_notes_of_trials(study),
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


def _losses(state: RaceState, found: StudyResults) -> Iterator[str]:
    """Report how far losses are apart, and how far they may be: of the winner, or of the worst."""
    study = state.study
    reports = _reports(study, BASE)
    base = [report.losses for report in reports if report.losses and report.losses.values]
    if reports and not base:
        yield "the program prints no losses, so the results of the arms are not compared"
    if not base:
        return
    arms = [found.winner] if found.winner is not None else state.racers
    checks = [
        (arm.name, check_losses(base, report.losses, state.plan.loss_tolerance))
        for arm in arms
        for report in _reports(study, arm.name)
    ]
    unchecked = next((check.why for _, check in checks if check.kind == "unchecked"), None)
    if unchecked is not None:
        yield f"the losses of the arms are not compared: {unchecked}"
        return
    if not checks:
        return
    name, worst = max(checks, key=lambda pair: pair[1].deviation or 0.0)
    apart = loss_text(worst.deviation or 0.0)
    facts = (
        f"the losses of {name} are up to {apart} off the base's"
        if worst.deviation
        else (f"the losses of {name} are those of the base to the last digit")
    )
    yield f"{facts}; {loss_text(worst.tolerance or 0.0)} is allowed: {worst.allowed_by}"


def _start(study: Study, found: StudyResults) -> Iterator[str]:
    """Report a winner that starts or compiles longer than any run of the base: runs may be short.

    Steps that are faster later may not make up for it before the program ends.
    """
    claim = found.claimed
    if found.winner is None or claim is None or claim.base_s is None or claim.gain <= 0:
        return
    base, own = (
        [report.start_s for report in _reports(study, name) if report.start_s is not None]
        for name in (BASE, found.winner.name)
    )
    if len(base) < _FEWEST_STARTS or len(own) < _FEWEST_STARTS:
        return
    later_s = median(own) - median(base)
    if min(own) <= max(base) or later_s < _NOTICEABLE_S:
        return
    steps = math.ceil(later_s / (claim.gain * claim.base_s))
    yield (
        f"a run of {found.winner.name} takes {later_s:.1f} s longer beside its steps (start,"
        f" compile, warm-up: {median(own):.1f} s, the base {median(base):.1f} s): the gain is"
        f" nothing before step {steps:,}"
    )


def _unread(study: Study, found: StudyResults) -> Iterator[str]:
    """Report arms that only set variables which the program alone may read, and maybe does not."""
    base = study.arm(BASE).settings
    compiled = {report.program for report in _reports(study, BASE)} - {None}
    for name, estimate in found.raced.items():
        arm = study.arm(name)
        changed = changed_settings(arm.settings, base)
        names = list(changed.variables)
        compiler = changed.flags or arm.settings.options != base.options
        others = compiler or arm.options or arm.per or arm.profile
        if others or not names or any(map(is_variable, names)):
            continue
        own = {report.program for report in _reports(study, name)} - {None}
        verdict = found.fresh.get(name, estimate).verdict
        differs = verdict in (ArmVerdict.FASTER, ArmVerdict.SLOWER)
        if own and own == compiled and not differs:
            yield (
                f"{name} has the base's compiled program: it is the base, unless the program reads"
                f" {' or '.join(names)} at run time"
            )


def _excused(study: Study) -> Iterator[str]:
    """Report trials that were repeated because their steps could not be timed."""
    excused = study.excused
    kinds = {str(it.failure) for it in study.trials if it.started.number in excused}
    if kinds:
        yield (
            f"{several(len(excused), 'trial')} could not be timed ({', '.join(sorted(kinds))}), "
            "which may be chance on a busy machine: not counted in the budget of trials"
        )


def _noise(indifferent: float, noise: RunNoise | None) -> Iterator[str]:
    if noise is None or isinstance(noise.sigma, Unknown) or noise.floor <= indifferent:
        return
    floor = share_text(noise.floor)
    yield f"two identical runs differ by up to {floor} here: only several rows show less"


def _alarms(state: RaceState) -> Iterator[str]:
    from counterpoint.tune.statistics.alarms import alarms

    yield from alarms(state.rows.observations(RACE))
    for note in alarms(state.rows.observations(CONFIRM)):
        yield f"in the confirmation, {note}"


def _also_faster(study: Study, found: StudyResults) -> Iterator[str]:
    for name, estimate in found.raced.items():
        if name in study.dropped:
            continue
        if estimate.verdict is ArmVerdict.FASTER and (
            found.winner is None or name != found.winner.name
        ):
            also = "also " if found.winner is not None else ""
            yield f"{name} was {also}faster: {estimate_text(estimate)} in the race"


def _without_budget(study: Study) -> Iterator[str]:
    """Report arms that the budget had no room for: those that never ran, then those that did."""
    out = [drop.arm for drop in study.dropped.values() if drop.kind == NO_BUDGET]
    ran = [name for name in out if study.trials_of(name)]
    for names, room in (
        ([name for name in out if name not in ran], "room for"),
        (ran, "room for more runs of"),
    ):
        if names:
            first = some([changes_text(study.arm(name)) for name in names], 3)
            yield f"the budget had no {room} {several(len(names), 'arm')}: {first}"


def _notes_of_trials(study: Study) -> Iterator[str]:
    for trial in study.trials:
        if trial.report is not None:
            yield from trial.report.notes
