"""Faults: failed trials, arms that equal another one, arms that compute something else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from counterpoint.tune.arm import BASE, Acts, Arm, ArmOrigin
from counterpoint.tune.executors.choose import executor_kind
from counterpoint.tune.race.moves import CloseAllocation, Drop, Finish, Move, Pause
from counterpoint.tune.race.state import SAME_PROGRAM, RaceState
from counterpoint.tune.study.study import BASE_FAILS, Study, Trial, is_no_chance
from counterpoint.tune.trial.applied_settings import changed_settings, is_reported
from counterpoint.tune.trial.loss_check import check_losses
from counterpoint.tune.trial.measure import NONE_SEEN
from counterpoint.tune.trial.report import Losses, Purpose, TrialFailure

_SAME_OPTIONS: Final = "XLA compiles it to the base's program with the base's options"
_COUNTED_WRONG: Final = 1
"""Steps by which a run may be short: its first or last line may be missed."""
_AS_LONG: Final = 0.9
"""Share of the base's time: what trains for a fixed time makes fewer steps if it is slower."""
_CHANCES: Final = 2
_AGAIN: Final = frozenset({TrialFailure.UNSTEADY, TrialFailure.HANG, TrialFailure.NO_STEPS})
"""Failures that may be chance even in the first run, or that a profile may resolve."""
_BY_THE_USER: Final = frozenset({TrialFailure.INTERRUPTED, TrialFailure.DISK_FULL})
_OF_NODES: Final = frozenset({TrialFailure.NODE_FAULT, TrialFailure.PREEMPTED})

_FIXES: Final = {
    TrialFailure.UNKNOWN_FLAG: "fix XLA_FLAGS: counterpoint flags check",
    TrialFailure.NOT_APPLIED: "start the program so that it inherits the environment",
    TrialFailure.OUT_OF_MEMORY: "make it fit first: a smaller batch, or more recomputation",
    TrialFailure.NAN: "fix the program first: its loss is not finite",
    TrialFailure.HANG: "find in the run's logs where it hangs, or raise the limit (--hang-after)",
    TrialFailure.TIMEOUT: "raise the time limit (--timeout), or run fewer steps (--steps)",
    TrialFailure.NO_STEPS: "make it print `step N`, or annotate steps with StepTraceAnnotation",
    TrialFailure.UNSTEADY: "run more steps",
}


def fault(state: RaceState) -> Move | None:
    """Return the move that follows from how trials ended, if any."""
    study = state.study
    return (
        _base_fault(study)
        or next(_arm_faults(study), None)
        or next(_other_numbers(study, state.plan.loss_tolerance), None)
        or next(_fewer_steps(study), None)
        or next(_same_settings(study), None)
        or next(_equal_programs(state), None)
        or _node_faults(study, state.plan.retries)
    )


def _base_fault(study: Study) -> Finish | None:
    """End the study if the base fails: without it there is nothing to compare with."""
    trials = [trial for trial in study.trials_of(BASE) if trial.counts or trial.may_blame_arm]
    of_this_session = {trial.started.number for trial in study.trials[study.earlier_trials :]}
    streak = 0
    for trial in reversed(trials):
        if trial.counts or trial.started.number not in of_this_session:
            break
        streak += 1
    if not streak:
        return None
    failure = trials[-1].failure
    assert failure is not None  # noqa: S101  # by Trial.may_blame_arm
    at_once = failure.is_certain or (streak == len(trials) and failure not in _AGAIN)
    if streak < _CHANCES and not at_once:
        return None
    timed = sum(trial.counts for trial in trials)
    if failure.may_be_chance and not is_no_chance(streak, len(trials) - timed, timed):
        return None
    detail = trials[-1].report.detail if trials[-1].report else ""
    why = f"{BASE_FAILS}: {failure}" + (f", {detail}" if detail else "")
    mend = _FIXES.get(failure, "" if "see " in detail else f"see {trials[-1].started.directory}")
    if failure is TrialFailure.NO_STEPS and not detail.startswith(NONE_SEEN):
        mend = "make it print each step immediately, or train longer"
    if failure.may_be_chance and timed:
        mend = "it was timed before: the machine may be busy, so repeat the command when it is free"
    return Finish(f"{why}; {mend}" if mend else why)


def _arm_faults(study: Study) -> Iterator[Drop]:
    excused = study.excused
    for arm in study.arms:
        if arm.is_base or arm.name in study.dropped:
            continue
        failed = [trial for trial in study.trials_of(arm.name) if trial.may_blame_arm]
        bad = [trial for trial in failed if trial.started.number not in excused]
        certain = next(
            (trial for trial in bad if trial.failure is not None and trial.failure.is_certain), None
        )
        # What may be chance had its other chances, which are not among these.
        if certain is None and len(bad) + any(it.may_be_chance for it in bad) < _CHANCES:
            continue
        last = certain or bad[-1]
        detail = last.report.detail if last.report else ""
        times = "" if certain else f" ({len(failed)} times)"
        yield Drop(arm.name, str(last.failure), f"{detail or last.failure}{times}")


def _other_numbers(study: Study, tolerance: float | None) -> Iterator[Drop]:
    base = _losses(study.trials_of(BASE))
    if not base:
        return
    for arm in study.arms:
        if arm.is_base or arm.name in study.dropped:
            continue
        for losses in _losses(study.trials_of(arm.name)):
            found = check_losses(base, losses, tolerance)
            if found.kind == "other":
                yield Drop(arm.name, str(TrialFailure.OTHER_NUMBERS), found.why)


def _fewer_steps(study: Study) -> Iterator[Drop]:
    """Drop arms that ended well, but before the base does: that is no faster program.

    What the base's own runs differ by is allowed.
    """
    base = _ends(study.trials_of(BASE))
    if len(base) < _CHANCES:
        return
    counts = [end.steps for end in base]
    fewest, most = min(counts), max(counts)
    shortest_s = min(end.seconds for end in base)
    for arm in study.arms:
        if arm.is_base or arm.name in study.dropped:
            continue
        for end in _ends(study.trials_of(arm.name)):
            short = end.steps < fewest - (most - fewest) - _COUNTED_WRONG
            if short and end.seconds < _AS_LONG * shortest_s:
                why = f"it ran {end.steps} steps, and the base {fewest}: see {end.directory}"
                yield Drop(arm.name, str(TrialFailure.FEWER_STEPS), why)


@dataclass(frozen=True, slots=True)
class _RunEnd:
    """The steps of a run that ended by itself, and what they take at its pace."""

    steps: int
    seconds: float
    directory: str


def _ends(trials: tuple[Trial, ...]) -> tuple[_RunEnd, ...]:
    return tuple(
        _RunEnd(it.steps_seen, it.steps_seen * it.steady.median_s, trial.started.directory)
        for trial in trials
        if (it := trial.report) is not None and it.steady is not None and it.steps_seen is not None
    )


def _losses(trials: tuple[Trial, ...]) -> tuple[Losses, ...]:
    return tuple(
        trial.report.losses
        for trial in trials
        if trial.counts and trial.report is not None and trial.report.losses is not None
    )


def _same_settings(study: Study) -> Iterator[Drop]:
    """Drop arms with the settings of another arm or the base; this needs no run."""
    before: dict[object, str] = {}
    for arm in study.arms:
        if arm.origin is ArmOrigin.ABLATION or arm.name in study.profiled:
            continue
        first = before.setdefault(_sets(arm), arm.name)
        if first != arm.name and arm.name not in study.dropped:
            yield Drop(arm.name, SAME_PROGRAM, f"the same settings as {first}")


def _sets(arm: Arm) -> object:
    of = arm.settings
    named = tuple(
        frozenset(values.items()) for values in (of.flags, of.variables, dict(of.options))
    )
    return named, of.layout, arm.per, arm.profile, frozenset(arm.options)


def _equal_programs(state: RaceState) -> Iterator[Drop]:
    """Drop arms that act only on the schedule and compile to the program of the base or another.

    An arm of flags set by hand is dropped, too, if XLA reports the base's options for its program.
    """
    study = state.study
    of_base = _programs(study, BASE)
    compiled_base = _compiled(study, BASE)
    before: dict[str, Arm] = {}
    arms = sorted(state.racers, key=lambda arm: len(arm.changes))
    for arm in arms:
        if arm.acts is not Acts.SCHEDULE:
            plain = _sets_flags_only(arm, study.arm(BASE))
            if plain and _compiled(study, arm.name) & compiled_base:
                yield Drop(arm.name, SAME_PROGRAM, _SAME_OPTIONS)
            continue
        for program in _programs(study, arm.name):
            if program in of_base:
                yield Drop(arm.name, SAME_PROGRAM, "XLA compiles it to the base's program")
            elif program in before:
                twin = before[program].name
                yield Drop(arm.name, SAME_PROGRAM, f"XLA compiles it to the same program as {twin}")
            before[program] = arm
    yield from _ablations_without_effect(study)


def _ablations_without_effect(study: Study) -> Iterator[Drop]:
    """Drop ablations whose program is the winner's: the omitted change has no effect."""
    against = {
        trial.started.arm for trial in study.trials if trial.started.purpose is Purpose.ABLATE
    }
    for arm in study.arms:
        if arm.origin is not ArmOrigin.ABLATION or arm.name in study.dropped:
            continue
        winners = [study.arm(name) for name in against if name != arm.name]
        for winner in winners:
            if winner.origin is ArmOrigin.ABLATION or winner.acts is not Acts.SCHEDULE:
                continue
            if _programs(study, arm.name) & _programs(study, winner.name):
                why = f"XLA compiles it to the program of {winner.name}"
                yield Drop(arm.name, SAME_PROGRAM, why)


def _programs(study: Study, name: str) -> frozenset[str]:
    """Return the hashes of the programs that its timed trials compiled."""
    return frozenset(
        trial.report.program
        for trial in study.trials_of(name)
        if trial.counts and trial.report is not None and trial.report.program is not None
        if trial.started.purpose is not Purpose.PROFILE
    )


def _compiled(study: Study, name: str) -> frozenset[str]:
    """Return the hashes of program and compiler options of its timed trials."""
    return frozenset(
        trial.report.compiled
        for trial in study.trials_of(name)
        if trial.counts and trial.report is not None and trial.report.compiled is not None
        if trial.started.purpose is not Purpose.PROFILE
    )


def _sets_flags_only(arm: Arm, base: Arm) -> bool:
    """Return whether an arm differs from the base in flags that XLA reports, and nothing else."""
    changes = changed_settings(arm.settings, base.settings)
    if changes.variables or arm.per is not None or arm.profile or arm.options:
        return False
    return all(map(is_reported, changes.flags))


def _node_faults(study: Study, retries: int) -> Move | None:
    """React to trials that fail through no fault of an arm: retry, change nodes, then pause.

    If the nodes themselves are lost, change them at once, as no trial could succeed there.
    """
    if not study.open_allocations:
        return None
    allocation = study.open_allocations[-1]
    streak: list[Trial] = []
    for trial in reversed(study.trials):
        if trial.failure is None or trial.failure.blames_the_arm:
            break
        if trial.failure not in _BY_THE_USER:
            streak.append(trial)
    in_this_one = sum(trial.started.allocation == allocation for trial in streak)
    gone = in_this_one and _lost_its_nodes(study, streak[0])
    if in_this_one <= retries and not gone:
        return None
    if in_this_one == len(streak) or (gone and len(streak) <= retries):
        return CloseAllocation(allocation)
    detail = streak[0].report.detail if streak[0].report else ""
    cause = f": {detail}" if detail else ""
    return Pause(f"trials keep failing for reasons outside the arms ({streak[0].failure}{cause})")


def _lost_its_nodes(study: Study, trial: Trial) -> bool:
    """Return whether the trial did not start, or the nodes held for it failed."""
    allocation = next(
        allocation
        for allocation in study.allocations
        if allocation.number == trial.started.allocation
    )
    held = executor_kind(allocation.executor).holds_nodes and trial.failure in _OF_NODES
    return held or trial.gang is None
