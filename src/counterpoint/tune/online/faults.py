"""Faults: what failed trials, other numbers and equal programs mean for an arm or the study."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterpoint.tune.arm import BASE, Acts, Arm, Origin
from counterpoint.tune.online.moves import CloseAllocation, Drop, Finish, Move, Pause
from counterpoint.tune.online.standing import SAME_PROGRAM, racers
from counterpoint.tune.plan import Plan
from counterpoint.tune.study.study import BASE_FAILS, Study, Trial
from counterpoint.tune.trial.guard import guard
from counterpoint.tune.trial.report import Failure, Losses, Purpose
from counterpoint.tune.trial.step_times import NONE_SEEN

OTHER_NUMBERS: Final = "other numbers"
_CHANCES: Final = 2
OF_NO_USE: Final = frozenset({Failure.NO_STEPS, Failure.UNSTEADY})
"""A run that is profiled needs no step times."""
_AGAIN: Final = frozenset({Failure.UNSTEADY, Failure.HANG, Failure.NO_STEPS})
"""What may be luck also in the first run of all, or is seen in a profile the second time."""
_BY_THE_USER: Final = frozenset({Failure.INTERRUPTED, Failure.DISK_FULL})
_OF_NODES: Final = frozenset({Failure.NODE_FAULT, Failure.PREEMPTED})
_HELD: Final = ("slurm", "ray")
"""Executors whose allocation is nodes that are held: gone as soon as one of them is."""

_MEND: Final = {
    Failure.UNKNOWN_FLAG: "mend XLA_FLAGS: counterpoint flags check",
    Failure.OUT_OF_MEMORY: "make it fit first: a smaller batch, or more recomputation",
    Failure.NAN: "mend the program first: its loss is no number",
    Failure.HANG: "see where it hangs in the run's logs, or allow more silence",
    Failure.TIMEOUT: "allow more time per trial, or fewer steps: --steps",
    Failure.NO_STEPS: "let it print `step N`, or mark steps with StepTraceAnnotation",
    Failure.UNSTEADY: "let it run for more steps",
}


def fault(study: Study, plan: Plan) -> Move | None:
    """What has to follow from how trials ended, if anything."""
    return (
        _of_the_base(study)
        or next(_of_arms(study), None)
        or next(_other_numbers(study, plan), None)
        or next(_same_settings(study), None)
        or next(_twins(study), None)
        or _of_nodes(study, plan)
    )


def blamed(trial: Trial) -> bool:
    """Whether it failed by what may be the arm's doing."""
    if trial.failure is None or not trial.failure.blames_the_arm:
        return False
    return trial.started.purpose is not Purpose.PROFILE or trial.failure not in OF_NO_USE


def _of_the_base(study: Study) -> Finish | None:
    """Without the base there is nothing to compare with."""
    trials = [it for it in study.trials_of(BASE) if it.counts or blamed(it)]
    of_now = {it.started.number for it in study.trials[study.before :]}
    streak = 0
    for it in reversed(trials):
        if it.counts or it.started.number not in of_now:
            break
        streak += 1
    if not streak:
        return None
    failure = trials[-1].failure
    assert failure is not None  # noqa: S101  # blamed
    at_once = failure.is_certain or (streak == len(trials) and failure not in _AGAIN)
    if streak < _CHANCES and not at_once:
        return None
    detail = trials[-1].report.detail if trials[-1].report else ""
    told = f"{BASE_FAILS}: {failure}" + (f", {detail}" if detail else "")
    mend = _MEND.get(failure, "" if "see " in detail else f"see {trials[-1].started.directory}")
    if failure is Failure.NO_STEPS and not detail.startswith(NONE_SEEN):
        mend = "let it print each step, at once, or train longer"
    return Finish(f"{told}; {mend}" if mend else told)


def _of_arms(study: Study) -> Iterator[Drop]:
    for it in study.arms:
        if it.is_base or it.name in study.dropped:
            continue
        bad = [trial for trial in study.trials_of(it.name) if blamed(trial)]
        certain = next((x for x in bad if x.failure is not None and x.failure.is_certain), None)
        if certain is None and len(bad) < _CHANCES:
            continue
        last = certain or bad[-1]
        detail = last.report.detail if last.report else ""
        times = "" if certain else f" ({len(bad)} times)"
        yield Drop(it.name, str(last.failure), f"{detail or last.failure}{times}")


def _other_numbers(study: Study, plan: Plan) -> Iterator[Drop]:
    base = _losses(study.trials_of(BASE))
    if not base:
        return
    for it in study.arms:
        if it.is_base or it.name in study.dropped:
            continue
        for losses in _losses(study.trials_of(it.name)):
            found = guard(base, losses, plan.loss_tolerance)
            if found.kind == "other":
                yield Drop(it.name, OTHER_NUMBERS, found.why)


def _losses(trials: tuple[Trial, ...]) -> tuple[Losses, ...]:
    return tuple(
        it.report.losses
        for it in trials
        if it.counts and it.report is not None and it.report.losses is not None
    )


def _same_settings(study: Study) -> Iterator[Drop]:
    """Arms that set nothing else than another one, or the base: they need no run to tell."""
    before: dict[object, str] = {}
    for it in study.arms:
        if it.origin is Origin.ABLATION or it.name in study.profiled:
            continue
        other = before.setdefault(_sets(it), it.name)
        if other != it.name and it.name not in study.dropped:
            yield Drop(it.name, SAME_PROGRAM, f"the same settings as {other}")


def _sets(arm: Arm) -> object:
    of = arm.settings
    named = tuple(frozenset(it.items()) for it in (of.flags, of.variables, dict(of.options)))
    return named, of.layout, arm.per, arm.profile


def _twins(study: Study) -> Iterator[Drop]:
    """Arms that act on the schedule only, and leave it as the base's or another arm's is."""
    of_base = _programs(study, BASE)
    before: dict[str, Arm] = {}
    arms = sorted(racers(study), key=lambda it: len(it.changes))
    for it in arms:
        if it.acts is not Acts.SCHEDULE:
            continue
        for program in _programs(study, it.name):
            if program in of_base:
                yield Drop(it.name, SAME_PROGRAM, "XLA makes the base's program of it")
            elif program in before:
                other = before[program].name
                yield Drop(it.name, SAME_PROGRAM, f"XLA makes the same program of it as of {other}")
            before[program] = it
    yield from _twins_of_winner(study)


def _twins_of_winner(study: Study) -> Iterator[Drop]:
    """A change that the winner's program does not show brings nothing."""
    against = {it.started.arm for it in study.trials if it.started.purpose is Purpose.ABLATE}
    for it in study.arms:
        if it.origin is not Origin.ABLATION or it.name in study.dropped:
            continue
        winners = [study.arm(name) for name in against if name != it.name]
        for winner in winners:
            if winner.origin is Origin.ABLATION or winner.acts is not Acts.SCHEDULE:
                continue
            if _programs(study, it.name) & _programs(study, winner.name):
                yield Drop(it.name, SAME_PROGRAM, f"XLA makes the program of {winner.name} of it")


def _programs(study: Study, name: str) -> frozenset[str]:
    """Hashes of what its timed trials compiled to."""
    return frozenset(
        it.report.program
        for it in study.trials_of(name)
        if it.counts and it.report is not None and it.report.program is not None
        if it.started.purpose is not Purpose.PROFILE
    )


def _of_nodes(study: Study, plan: Plan) -> Move | None:
    """Trials that fail without blame: once more, then elsewhere, then not for now.

    Elsewhere at once where the nodes themselves are gone: there every arm's turn would end so.
    """
    if not study.open_allocations:
        return None
    here = study.open_allocations[-1]
    streak: list[Trial] = []
    for it in reversed(study.trials):
        if it.failure is None or it.failure.blames_the_arm:
            break
        if it.failure not in _BY_THE_USER:
            streak.append(it)
    in_this_one = sum(it.started.allocation == here for it in streak)
    gone = in_this_one and _lost_its_nodes(study, streak[0])
    if in_this_one <= plan.retries and not gone:
        return None
    if in_this_one == len(streak) or (gone and len(streak) <= plan.retries):
        return CloseAllocation(here)
    detail = streak[0].report.detail if streak[0].report else ""
    told = f": {detail}" if detail else ""
    return Pause(f"trials keep failing by no fault of theirs ({streak[0].failure}{told})")


def _lost_its_nodes(study: Study, trial: Trial) -> bool:
    """Whether nothing can be started there any more: not at all, or on nodes that were held."""
    place = next(it for it in study.allocations if it.number == trial.started.allocation)
    held = place.executor in _HELD and trial.failure in _OF_NODES
    return held or trial.gang is None
