"""The tuner: executes the moves of the race, and records each before the next.

The journal has a trial before its processes start, and their identity right after, so that a later
session can always find leftover processes.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

from counterpoint.core import CounterpointError, InputError
from counterpoint.tune.executors.executor import (
    Allocation,
    Executor,
    Gang,
    StoppedWaiting,
    TrialLimits,
    wait_for,
)
from counterpoint.tune.plan import StudyPlan
from counterpoint.tune.race.jobs import changes_in, job_of, place_of, profiled_settings
from counterpoint.tune.race.leftovers import end_leftovers
from counterpoint.tune.race.moves import (
    CloseAllocation,
    Drop,
    Enter,
    Finish,
    MakeProfile,
    Move,
    OpenAllocation,
    Pause,
    RunTrial,
)
from counterpoint.tune.race.race import next_move
from counterpoint.tune.study.ledger import Ledger, stamp
from counterpoint.tune.study.records import (
    AllocationClosed,
    AllocationOpened,
    ArmDropped,
    ArmEntered,
    ArmProfiled,
    GangStarted,
    Paused,
    StudyEnded,
    TrialEnded,
    TrialStarted,
)
from counterpoint.tune.study.study import Trial
from counterpoint.tune.trial.measure import measure
from counterpoint.tune.trial.report import TrialFailure, TrialReport

Say: TypeAlias = Callable[[str], None]

NO_PROFILE = "no profile"
TRIED_AGAIN = "if the machine was busy, that may be chance; it counts toward no budget of trials"


def run_study(
    ledger: Ledger,
    plan: StudyPlan,
    executor: Executor,
    directory: Path,
    say: Say,
    stopped: Callable[[], bool],
) -> None:
    """Race the arms of a study until it is done, paused or stopped.

    If `stopped` returns true or KeyboardInterrupt is raised, the running trial is killed and the
    study is recorded as paused. KeyboardInterrupt is raised again.
    """
    end_leftovers(ledger, executor, directory, say)
    tuner = _Tuner(ledger, plan, executor, directory, say, stopped)
    try:
        why = tuner.go_on()
    except KeyboardInterrupt:
        tuner.pause("interrupted")
        raise
    except CounterpointError as error:
        tuner.pause(error.what)
        raise
    except BaseException:
        tuner.release_nodes()
        raise
    if why is not None:
        tuner.pause(why)


@dataclass
class _Tuner:
    """One running tuner; all lasting state is in the ledger."""

    ledger: Ledger
    plan: StudyPlan
    executor: Executor
    directory: Path
    say: Say
    stopped: Callable[[], bool]
    allocations: dict[int, Allocation] = field(default_factory=dict[int, Allocation])

    def go_on(self) -> str | None:
        """Execute move after move. Return None if the study is done, else why it pauses."""
        while True:
            if self.stopped():
                return "stopped"
            move = next_move(self.ledger.study, self.plan)
            if isinstance(move, Pause):
                return move.why
            if isinstance(move, Finish):
                self.close_allocations()
                if self.ledger.study.ended is None:
                    self.ledger.add(StudyEnded(why=move.why, at=stamp()))
                return None
            self.carry_out(move)

    def carry_out(self, move: Move) -> None:
        match move:
            case Enter(arm):
                self.ledger.add(ArmEntered(arm=arm, at=stamp()))
            case Drop(arm, kind, why):
                self.say(f"dropped {arm} ({kind}): {why}")
                self.ledger.add(ArmDropped(arm=arm, kind=kind, why=why, at=stamp()))
            case OpenAllocation(number):
                self.open_allocation(number)
            case CloseAllocation(number):
                self.close_allocation(number)
            case MakeProfile(arm, trial):
                self.make_profile(arm, trial)
            case RunTrial():
                self.run_trial(move)
            case Pause() | Finish():
                raise AssertionError("go_on handles these")

    def open_allocation(self, number: int) -> None:
        self.say(f"requesting nodes: {self.executor.describe()}")
        try:
            allocation = self.executor.open()
        except StoppedWaiting:
            return  # `stopped` is checked before the next move
        self.allocations[number] = allocation
        self.ledger.add(
            AllocationOpened(
                number=number,
                executor=self.executor.name,
                identity=allocation.identity,
                nodes=allocation.nodes,
                at=stamp(),
            )
        )

    def close_allocation(self, number: int) -> None:
        allocation = self.allocations.pop(number, None)
        if allocation is not None:
            allocation.close()
        self.ledger.add(AllocationClosed(number=number, at=stamp()))

    def run_trial(self, move: RunTrial) -> None:
        """Run a trial and record its report; an exception also ends it."""
        study = self.ledger.study
        place = place_of(study, study.arm(move.arm))
        self.ledger.add(
            TrialStarted(
                number=place.number,
                arm=move.arm,
                purpose=move.purpose,
                row=move.row,
                allocation=move.allocation,
                directory=place.directory,
                at=stamp(),
            )
        )
        trial = self.ledger.study.trials[-1]
        self.say(f"trial {place.number}: {move.arm} ({move.purpose})")
        began = time.monotonic()
        try:
            report = self.execute(trial)
        except BaseException:
            with suppress(CounterpointError):
                self.record_end(trial, TrialReport(failure=TrialFailure.INTERRUPTED), began)
            raise
        self.record_end(trial, report, began)
        if place.number in self.ledger.study.excused:
            self.say(f"trial {place.number} could not be timed ({report.failure}): {TRIED_AGAIN}")
        if report.failure is TrialFailure.DISK_FULL:
            raise InputError(
                f"the disk is full: trial {place.number} could not write its results",
                why=report.detail or None,
                next="free some space, and repeat the command to continue",
            )

    def execute(self, trial: Trial) -> TrialReport:
        """Run a trial's job to its end."""
        job = job_of(self.ledger.study, self.plan, trial, self.directory)
        try:
            gang = self.allocations[trial.started.allocation].start(job)
        except CounterpointError as error:
            if not self.has_run(trial.started.allocation):
                raise
            # Trials have started here before, so the nodes are at fault, not the arm.
            return TrialReport(failure=TrialFailure.NODE_FAULT, detail=error.what)
        return self.wait_for_report(trial, gang, job.directory, job.limits)

    def wait_for_report(
        self, trial: Trial, gang: Gang, directory: Path, limits: TrialLimits
    ) -> TrialReport:
        """Wait for the end of a gang, and measure; kill it if anything goes wrong meanwhile."""
        try:
            number = trial.started.number
            self.ledger.add(GangStarted(number=number, identity=gang.identity, at=stamp()))
            ended = wait_for(gang, limits, self.stopped)
        except BaseException:
            with suppress(CounterpointError):  # report the first error
                gang.kill()
            raise
        report = measure(directory, ended, changes_in(self.ledger.study, trial))
        if self.stopped() and report.steady is None:
            return replace(report, failure=TrialFailure.INTERRUPTED, detail="stopped")
        return report

    def has_run(self, allocation: int) -> bool:
        return any(
            trial.started.allocation == allocation and trial.gang is not None
            for trial in self.ledger.study.trials
        )

    def record_end(self, trial: Trial, report: TrialReport, began: float) -> None:
        self.ledger.add(
            TrialEnded(
                number=trial.started.number,
                report=report,
                wall_s=time.monotonic() - began,
                at=stamp(),
            )
        )

    def make_profile(self, name: str, number: int) -> None:
        study = self.ledger.study
        trial = next(trial for trial in study.trials if trial.started.number == number)
        self.say(f"making the PGLE profile of {name}")
        try:
            settings = profiled_settings(
                study.arm(name), self.directory / trial.started.directory, self.directory
            )
        except CounterpointError as error:
            why = f"{error.what}: {error.why}" if error.why else error.what
            self.ledger.add(ArmDropped(arm=name, kind=NO_PROFILE, why=why, at=stamp()))
            return
        self.ledger.add(ArmProfiled(arm=name, settings=settings, at=stamp()))

    def pause(self, why: str) -> None:
        """Release everything, and record why, if the journal can be written."""
        self.release_nodes()
        with suppress(CounterpointError):
            self.ledger.add(Paused(why=why, at=stamp()))

    def close_allocations(self) -> None:
        for number in tuple(self.allocations):
            self.close_allocation(number)

    def release_nodes(self) -> None:
        """Close all allocations, even if the journal can't be written.

        Allocations that can't be closed stay open in the journal, so a later session sweeps them.
        """
        for number in tuple(self.allocations):
            try:
                self.close_allocation(number)
            except CounterpointError as error:
                self.say(f"releasing nodes: {error.what}")
