"""Predictor: compiles and simulates arms, and returns candidates in the same order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from shutil import rmtree
from typing import Final, TypeAlias

from counterpoint.compile.compiler import CompiledProgram
from counterpoint.compile.inputs.workload import Workload
from counterpoint.compile.pool import CompileResult, Pool
from counterpoint.compile.task import CompileTask
from counterpoint.core import CounterpointError, InputError
from counterpoint.flags.settings import Settings
from counterpoint.flags.versions import PROFILE, scheduler_on
from counterpoint.hlo.model.program import Program
from counterpoint.pgle.profiles.files import write_profile
from counterpoint.timeline.storage.parquet import write_parquet
from counterpoint.tune.arm import BASE, Arm, ArmOrigin, Predicted
from counterpoint.tune.schedule_hash import schedule_hash
from counterpoint.tune.search.predicted_step import predicted, with_other_memory
from counterpoint.tune.study.directory import step_path
from counterpoint.tune.study.ledger import Ledger, stamp
from counterpoint.tune.study.records import CandidateSeen
from counterpoint.workflow import Variant
from counterpoint.workflow.forecast import (
    CompileRequest,
    ForecastBatch,
    PredictionInputs,
    PricingContext,
    communication_streams,
    compile_request,
    forecast,
    memory_fit,
)
from counterpoint.workflow.prediction import (
    Forecast,
    synthetic_profile,
)

Identity: TypeAlias = tuple[str, Settings, bool]
"""Identity of an arm: name, settings, and whether a profile is added."""
Key: TypeAlias = tuple[frozenset[tuple[str, str]], frozenset[tuple[str, str]], bool]
"""All compiler inputs of an arm."""

LEAST_AHEAD: Final = 8
"""Arms in progress: enough that up to four workers make the same search as one."""

# Prefixes of variables that libraries read at run time; they do not affect the compile.
_RUN_PREFIXES: Final = ("NCCL_", "CUDA_", "RCCL_", "UCX_", "OMPI_", "FI_")
_POLL_S: Final = 0.2
_KEPT: Final = 8  # predicted steps that can be looked at later, besides the base's


class SearchStopped(Exception):
    """The user stopped the search."""


@dataclass(slots=True)
class _PendingArm:
    """An arm in progress."""

    arm: Arm
    key: Key | None = None
    wanted: CompileRequest | None = None
    number: int | None = None  # number of its compile
    failure: str | None = None
    known: CandidateSeen | None = None
    counts: bool = False  # whether it is a compile, now or in the journal
    first: bool = False  # whether the current compile is the one its profile is made from


class Predictor:
    """Predicts arms relative to its base; use it in one thread.

        Arm ──► CompileTask ──► Pool (worker processes) ──► CompiledProgram ──► Forecast

    Several arms are always in progress, so that no worker waits. Results are used in the order in
    which the arms were requested, whichever compile ends first. Candidates in the journal are not
    compiled again.

    Args:
        work: The workload, its target, and the options of each prediction.
        base_forecast: The base's prediction, and what prices instructions.
        ledger: Where candidates are recorded, and found when a search continues.
        pool: The compiler.
        scratch: A directory for profiles.
        keep: The study's directory, where the Timelines of the best steps are kept; or None.
        stopped: Returns whether the user stopped the search.
    """

    def __init__(
        self,
        work: PredictionInputs,
        base_forecast: ForecastBatch,
        ledger: Ledger,
        pool: Pool,
        *,
        scratch: Path,
        keep: Path | None = None,
        stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        self.base: Forecast = base_forecast.base
        self.requested = 0  # compiles, including those in the journal
        self.answered = 0  # of `compile_request`
        self.ahead = max(LEAST_AHEAD, 2 * pool.jobs)
        self._work = work
        self._pricing: PricingContext = base_forecast.pricing
        self._ledger = ledger
        self._pool = pool
        self._scratch = scratch
        self._study = keep
        self._base_step: Path | None = None
        self._stopped = stopped
        self._recorded = {_identity(seen.arm): seen for seen in ledger.study.candidates}
        self._by_key: dict[Key, CandidateSeen | None] = {}
        self._by_program: dict[tuple[str, int], CandidateSeen] = {}
        self._numbers = 0
        self._compiles: dict[int, _PendingArm] = {}
        self._results: dict[int, CompileResult] = {}

    def begin(self, settings: Settings) -> CandidateSeen:
        """Return the base, with `settings` as its own: the first candidate, compiled already."""
        variant = Variant(BASE, self._in_full(settings))
        wanted = self._request(variant)
        arm = Arm(name=BASE, settings=settings, origin=ArmOrigin.BASE)
        candidate = self._candidate(arm, self.base, schedule_hash(self.base.program))
        recorded = self._recorded.get(_identity(arm))
        if recorded is None:
            self._ledger.add(candidate)
        elif recorded.arm.predicted and not _have_same_program(recorded, candidate):
            raise InputError(
                "the base is scheduled differently than when the study began",
                why="the workload now gives another program (its code, jaxlib, or variables that it"
                " reads changed), so new predictions can't be compared with earlier ones",
                next="continue with the code and environment that the study began with",
            )
        self._by_key[_key(wanted.task, profile=False)] = candidate
        return candidate

    def outcomes(self, arms: Iterable[Arm]) -> Iterator[CandidateSeen]:
        """Yield each arm's candidate in order, while compiling the next ones.

        When an arm is taken from `arms`, all but the last `ahead` before it have been yielded.
        """
        source = iter(arms)
        waiting: deque[_PendingArm] = deque()
        over = False
        while True:
            while not over and len(waiting) < self.ahead:
                arm = next(source, None)
                over = arm is None
                if arm is not None:
                    waiting.append(self._ask(arm))
            if not waiting:
                return
            entry = waiting.popleft()
            seen = self._answer(entry)
            self.answered += entry.counts
            yield seen

    def _ask(self, arm: Arm) -> _PendingArm:
        variant = Variant(arm.name, self._in_full(arm.settings))
        try:
            wanted = self._request(variant)
        except CounterpointError as error:  # an invalid value
            return _PendingArm(arm, failure=_error_text(error))
        key = _key(wanted.task, profile=arm.profile)
        entry = _PendingArm(
            arm, key, replace(wanted, task=_without_run_variables(wanted.task)), first=arm.profile
        )
        entry.known = self._recorded.get(_identity(arm))
        if key in self._by_key:
            return entry
        self.requested += 1
        entry.counts = True
        self._by_key[key] = None
        if entry.known is None:
            self._compile(entry, entry.wanted)
        return entry

    def _answer(self, one: _PendingArm) -> CandidateSeen:
        if one.number is None and one.failure is None and one.known is None:
            return self._record(one, self._equal_compile(one))
        while one.number is not None and one.number not in self._results:
            self._take()
        if one.known is not None:
            return self._reuse(one, one.known)
        result = self._results.pop(one.number) if one.number is not None else None
        if isinstance(result, CompiledProgram) and one.wanted is not None:
            return self._record(one, self._predicted(one, one.wanted, result))
        failure = _error_text(result) if isinstance(result, CounterpointError) else one.failure
        return self._record(one, CandidateSeen(arm=one.arm, failure=failure, at=stamp()))

    def _take(self) -> None:
        """Wait for a compile; if a profile is made from it, start the compile with the profile."""
        if self._stopped():
            raise SearchStopped
        taken = self._pool.take(_POLL_S)
        if taken is None:
            return
        number, result = taken
        entry = self._compiles.pop(number)
        if entry.first and isinstance(result, CompiledProgram) and entry.wanted is not None:
            entry.first = False
            self._compile(entry, self._with_profile(entry.wanted, result.program))
        else:
            self._results[number] = result

    def _compile(self, one: _PendingArm, wanted: CompileRequest | None) -> None:
        if wanted is None:
            return
        one.wanted = wanted
        one.number = self._numbers
        self._numbers += 1
        self._compiles[one.number] = one
        self._pool.ask(one.number, wanted.task)

    def _with_profile(self, wanted: CompileRequest, program: Program) -> CompileRequest:
        """Return the same compile with a profile of the model's costs for this program."""
        about = f"{program.name} on {self._pricing.target}"
        profile = synthetic_profile(program, self._pricing.model(), about)
        place = write_profile(profile, self._scratch / f"predicted{self._numbers}.pbtxt")
        # A profile makes the scheduler run where it would not otherwise; `predict` does the same
        # (workflow/prediction/gain.py).
        options = {**dict(scheduler_on()), **wanted.task.options, PROFILE: str(place)}
        return replace(wanted, task=replace(wanted.task, options=options))

    def _predicted(
        self, one: _PendingArm, wanted: CompileRequest, compiled: CompiledProgram
    ) -> CandidateSeen:
        program = schedule_hash(compiled.program)
        same = self._by_program.get((program, communication_streams(wanted.variant.settings)))
        if same is None or same.arm.predicted is None:
            return self._candidate(one.arm, forecast(self._pricing, wanted, compiled), program)
        variables = wanted.variant.settings.variables
        fraction = wanted.assumed.memory_fraction
        fit = memory_fit(compiled.memory, self._pricing.target, variables, fraction)
        figures = with_other_memory(same.arm.predicted, fit)
        arm = replace(one.arm, predicted=figures)
        return CandidateSeen(arm=arm, same_as=same.arm.name, at=stamp())

    def _candidate(self, arm: Arm, result: Forecast, program: str) -> CandidateSeen:
        figures = predicted(self.base.simulation, result.simulation, result.memory, program)
        if self._study is not None:
            self._keep_step(self._study, figures, result)
        seen = CandidateSeen(arm=replace(arm, predicted=figures), at=stamp())
        return self._remember_program(seen)

    def _keep_step(self, study: Path, figures: Predicted, result: Forecast) -> None:
        """Keep the Timeline of the step if it is the base's or among the best that fit."""
        path = step_path(study, figures)
        if result is self.base:
            self._base_step = path
        ranked = sorted({path, *path.parent.glob("*")} - {self._base_step})
        if result is self.base or (figures.fits is not False and path in ranked[:_KEPT]):
            with suppress(InputError):  # of a full disk, which the journal reports
                write_parquet(result.simulation.timeline, path, overwrite=True)
        for worse in ranked[_KEPT:]:
            rmtree(worse, ignore_errors=True)

    def _equal_compile(self, one: _PendingArm) -> CandidateSeen:
        """Return the result of an earlier compile with the same inputs."""
        found = self._by_key.get(one.key) if one.key is not None else None
        if found is None:
            raise LookupError(f"{one.arm.name} was answered before the arm that it equals")
        arm = replace(one.arm, predicted=found.arm.predicted)
        same = found.same_as or found.arm.name
        return CandidateSeen(arm=arm, failure=found.failure, same_as=same, at=stamp())

    def _reuse(self, one: _PendingArm, known: CandidateSeen) -> CandidateSeen:
        """Reuse a candidate from the journal, without recording it again."""
        if one.key is not None and self._by_key.get(one.key) is None:
            self._by_key[one.key] = known
        return self._remember_program(known) if known.same_as is None else known

    def _record(self, one: _PendingArm, seen: CandidateSeen) -> CandidateSeen:
        self._ledger.add(seen)
        if one.key is not None and self._by_key.get(one.key) is None:
            self._by_key[one.key] = seen
        return seen

    def _remember_program(self, seen: CandidateSeen) -> CandidateSeen:
        if seen.arm.predicted is not None:
            streams = communication_streams(self._in_full(seen.arm.settings))
            self._by_program.setdefault((seen.arm.predicted.program, streams), seen)
        return seen

    def _in_full(self, settings: Settings) -> Settings:
        """Add the program's own settings, which an arm must override."""
        return self._work.subject.settings.merged(settings)

    @property
    def _workload(self) -> Workload:
        workload = self._work.subject.workload
        if workload is None:
            raise InputError(
                f"{self._work.subject.origin} is already scheduled, so no setting can change it",
                why="XLA can't compile a scheduled program again",
                next="pass the program from before XLA's passes: JAX_DUMP_IR_TO=ir, or -- CMD",
            )
        return workload

    def _request(self, variant: Variant) -> CompileRequest:
        question = self._work.question
        return compile_request(
            self._workload,
            self._pricing.target,
            variant,
            question.timeout_s,
            schedule_only=question.schedule_only,
        )


def _identity(arm: Arm) -> Identity:
    return arm.name, arm.settings, arm.profile


def _without_run_variables(task: CompileTask) -> CompileTask:
    """Remove variables that no compile reads, because a worker would be restarted for them."""
    environment = {
        name: value
        for name, value in task.environment.items()
        if not name.startswith(_RUN_PREFIXES)
    }
    return replace(task, environment=environment)


def _key(task: CompileTask, *, profile: bool) -> Key:
    bare = _without_run_variables(task)
    return frozenset(bare.options.items()), frozenset(bare.environment.items()), profile


def _error_text(error: CounterpointError) -> str:
    return error.what if error.why is None else f"{error.what}: {error.why}"


def _have_same_program(one: CandidateSeen, other: CandidateSeen) -> bool:
    programs = {
        seen.arm.predicted.program for seen in (one, other) if seen.arm.predicted is not None
    }
    return len(programs) == 1
