"""Doubts: what a reader has to know before believing a figure of a study."""

from __future__ import annotations

from collections.abc import Iterator

from counterpoint.core.basis import Unknown
from counterpoint.tune.arm import BASE
from counterpoint.tune.conclusion.findings import Findings
from counterpoint.tune.conclusion.foreign import foreign_devices
from counterpoint.tune.figures import estimate_text, several, share_text, what_text
from counterpoint.tune.online.rows import CONFIRM, RACE, observations
from counterpoint.tune.plan import Plan
from counterpoint.tune.statistics.estimate import Noise, Verdict
from counterpoint.tune.study.study import NO_BUDGET, Study
from counterpoint.tune.trial.report import Report

_NEAR_THE_LIMIT = 0.95
_AS_FAR = 0.9
"""Of the base's steps: a program that trains for so long, not for so many, is a bit slower."""


def doubts(study: Study, plan: Plan, found: Findings, noise: Noise | None) -> tuple[str, ...]:
    """In the order of how much they matter; each once."""
    notes = [
        *_remat(study, found),
        *_memory(study, found),
        *_numbers(study),
        *_shorter(study),
        *_noise(plan, noise),
        *_alarms(study),
        *_others(study, found),
        *_not_tried(study),
        *_of_trials(study),
        *(study.space.notes if study.space else ()),
        *_model(study),
    ]
    return tuple(dict.fromkeys(notes))


def _model(study: Study) -> Iterator[str]:
    """What the study taught the cost model."""
    told = study.fitted
    other = foreign_devices(study)
    if other is not None:
        yield (
            f"it ran on {other}, and what is predicted is for {study.began.target}: their steps are"
            " not compared, and the cost model learns nothing from this study"
        )
        return
    if told is None:
        return
    if told.path is None:
        yield f"the cost model learnt nothing from this study: {told.why}"
    elif told.error_before is not None and told.error_after is not None:
        yield (
            f"the cost model was fitted to {several(told.arms, 'arm')} ({told.path}): it is off by"
            f" {told.error_after:.1%} now, and was by {told.error_before:.1%}"
        )


def _reports(study: Study, name: str) -> tuple[Report, ...]:
    return tuple(it.report for it in study.trials_of(name) if it.counts and it.report is not None)


def _remat(study: Study, found: Findings) -> Iterator[str]:
    """Recomputation on one side only is worth more than most settings are."""
    base = {it.remat for it in _reports(study, BASE)} - {None}
    for name, told in found.raced.items():
        own = {it.remat for it in _reports(study, name)} - {None}
        if not base or not own or own == base or told.verdict is Verdict.SAME:
            continue
        which = f"{name}, and not" if True in own else "the base, and not"
        other = "the base" if True in own else name
        yield (
            f"XLA recomputes to save memory in {which} in {other}: "
            "their difference is that of memory, too"
        )


def _memory(study: Study, found: Findings) -> Iterator[str]:
    if found.winner is None:
        return
    for it in _reports(study, found.winner.name):
        if not it.peak_bytes or not it.limit_bytes:
            continue
        share = it.peak_bytes / it.limit_bytes
        if share >= _NEAR_THE_LIMIT:
            yield f"{found.winner.name} takes {share:.0%} of the memory that it may: little is left"
            return


def _numbers(study: Study) -> Iterator[str]:
    base = _reports(study, BASE)
    if base and not any(it.losses and it.losses.values for it in base):
        yield "the program prints no losses: whether arms compute the same is not checked"


def _shorter(study: Study) -> Iterator[str]:
    """Who ends early and well does less than was asked of it, or another thing."""
    base = [it.steps_seen for it in _reports(study, BASE) if it.steps_seen is not None]
    if not base:
        return
    for arm in study.arms:
        own = [it.steps_seen for it in _reports(study, arm.name) if it.steps_seen is not None]
        if not arm.is_base and own and min(own) < _AS_FAR * min(base):
            yield f"{arm.name} made {min(own)} steps where the base made {min(base)}: see its logs"


def _noise(plan: Plan, noise: Noise | None) -> Iterator[str]:
    if noise is None or isinstance(noise.sigma, Unknown) or noise.floor <= plan.rule.indifferent:
        return
    yield f"identical runs differ by up to {share_text(noise.floor)} here: less can't be seen"


def _alarms(study: Study) -> Iterator[str]:
    from counterpoint.tune.statistics.alarms import alarms

    yield from alarms(observations(study, RACE))
    for note in alarms(observations(study, CONFIRM)):
        yield f"in the confirmation, {note}"


def _others(study: Study, found: Findings) -> Iterator[str]:
    for name, told in found.raced.items():
        if name in study.dropped:
            continue
        if told.verdict is Verdict.FASTER and (found.winner is None or name != found.winner.name):
            yield f"{name} was faster, too: {estimate_text(told)} in the race"


def _not_tried(study: Study) -> Iterator[str]:
    """Who never ran is another matter than who ran, and was to run again."""
    out = [it.arm for it in study.dropped.values() if it.kind == NO_BUDGET]
    ran = [it for it in out if study.trials_of(it)]
    for names, room in (
        ([it for it in out if it not in ran], "room for"),
        (ran, "room for more runs of"),
    ):
        if names:
            first = ", ".join(what_text(study.arm(it)) for it in names[:3])
            more = f" and {len(names) - 3} more" if len(names) > 3 else ""
            yield f"the budget had no {room} {several(len(names), 'arm')}: {first}{more}"


def _of_trials(study: Study) -> Iterator[str]:
    for trial in study.trials:
        if trial.report is not None:
            yield from trial.report.notes
