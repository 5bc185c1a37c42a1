"""Prediction: a step on hardware that is not here, and its basis.

    words ──► Subject ──compile──► Program ──price──► simulate ──► Forecast ──► Prediction

All candidates are compiled at once, in worker processes; one that fails is an error of its own row.

    Prediction ── base ──► Forecast ── simulation ──► Timeline
    ├── candidates ──► RankedCandidate (a Forecast, or why there is none), the best first
    ├── what_if ─────► WhatIfAnswer: the same schedule on other hardware
    ├── gain ────────► Gain: the most that a profile of real costs could save
    └── against ─────► MeasurementComparison, op by op
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Final, cast, get_args, get_origin, get_type_hints

from counterpoint.compile.inputs.workload import Workload, own_target
from counterpoint.core import InputError, UsageError, as_html
from counterpoint.core.printable import some
from counterpoint.core.scratch import scratch_directory
from counterpoint.cost.model import PriceSource
from counterpoint.cost.scalars import default_scalars, read_scalars
from counterpoint.diagnose.explanation import Explanation, explain
from counterpoint.hardware.target import Target
from counterpoint.hardware.targets import parse_target, resize_advice
from counterpoint.hlo.model.program import Program
from counterpoint.hlo.transfers import transfers
from counterpoint.simulate.jitter import Jitter
from counterpoint.simulate.simulation import Simulation
from counterpoint.timeline.model import Timeline
from counterpoint.trainers import TokensInStep
from counterpoint.workflow.forecast.batch import ForecastBatch, PredictionInputs, Say, forecasts
from counterpoint.workflow.forecast.forecast import PricingContext
from counterpoint.workflow.forecast.loop_trips import read_trips
from counterpoint.workflow.forecast.measured_costs import (
    notes_on_tables,
    read_tables,
    warnings_on_tables,
)
from counterpoint.workflow.forecast.options import PredictionOptions
from counterpoint.workflow.forecast.ranking import Forecast, RankedCandidate
from counterpoint.workflow.prediction.against import (
    MeasurementComparison,
    compare,
    read_measurement,
)
from counterpoint.workflow.prediction.gain import Gain, gain
from counterpoint.workflow.prediction.what_if import (
    UnansweredWhatIf,
    WhatIfAnswer,
    answers,
    read_questions,
)
from counterpoint.workflow.subject import (
    PredictionSubject,
    find_subject,
    is_function,
    lower_subject,
)

_CALL: Final = 'counterpoint.predict(workload, target="8xH100")'
_WORKLOADS: Final = (Workload, Program, PredictionSubject, Path, str)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Prediction:
    """The result of `counterpoint predict`; `basis` has shares of priced device time by source."""

    workload: str  # the module's name
    origin: str
    target: Target
    base: Forecast
    explanation: Explanation
    basis: Mapping[PriceSource, float]
    candidates: tuple[RankedCandidate, ...] = ()
    what_if: tuple[WhatIfAnswer, ...] = ()
    unanswered: tuple[UnansweredWhatIf, ...] = ()
    gain: Gain | None = None
    against: MeasurementComparison | None = None
    tokens: TokensInStep | None = None
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    def __repr__(self) -> str:
        low, high = self.base.range_s.low * 1e3, self.base.range_s.high * 1e3
        best = "".join(f", best {standing.name!r}" for standing in self.candidates[:1])
        return (
            f"<Prediction of {self.workload!r} on {self.target}: step {self.step_s * 1e3:,.2f} ms"
            f" ({low:,.2f} to {high:,.2f}), {len(self.candidates)} candidates{best}>"
        )

    def _repr_html_(self) -> str | None:
        return as_html(self)

    @property
    def step_s(self) -> float:
        return self.base.step_s

    @property
    def tokens_per_s(self) -> float | None:
        """Tokens per second on all devices; None if nothing tells the tokens of a step."""
        if self.tokens is None or self.step_s <= 0:
            return None
        return self.tokens.count / self.step_s

    @property
    def timeline(self) -> Timeline:
        """The simulated step, with its settings if it was compiled here."""
        return self.base.timeline


def check_workload(workload: object, target: object) -> None:
    """Reject values that are not a workload or a target."""
    if not isinstance(workload, _WORKLOADS):
        what = "a function" if callable(workload) else f"{workload!r:.60}"
        raise UsageError(
            f"{what} is not a workload",
            why="a workload is a Workload, a Program, or the path of a file, a dump or a Run",
            next="counterpoint.predict(counterpoint.program(train_step, state, batch),"
            ' target="8xH100")',
        )
    if not isinstance(target, (str, Target, type(None))):
        raise UsageError(f"target={target!r:.60} names no GPUs", next=_CALL)


def read_question(question: object, asked_for: Mapping[str, Any]) -> PredictionOptions:
    """Return the PredictionOptions with these of its fields.

    Arguments are checked before anything is read, since Python callers may have no type checker. A
    single name where several are expected is an error, not a sequence of letters.
    """
    if question is not None and not isinstance(question, PredictionOptions):
        raise UsageError(f"question={question!r:.60} is not a PredictionOptions", next=_CALL)
    known = [field.name for field in fields(PredictionOptions)]
    for name in asked_for:
        if name not in known:
            near = get_close_matches(name, known, 1) or [", ".join(known)]
            raise UsageError(f"predict has no argument {name}", next=near[0])
    read = {name: _read(name, value) for name, value in asked_for.items()}
    return replace(question or PredictionOptions(), **read)


def _read(name: str, value: object) -> object:
    """Return an argument as its field takes it; refuse what is of no type of the field."""
    hint = get_type_hints(PredictionOptions)[name]
    if get_origin(hint) is not tuple:
        return _one(name, value, _kinds(hint))
    if isinstance(value, (str, bytes, Path)) or not isinstance(value, Iterable):
        raise UsageError(f"{name}={value!r:.60}: pass a list", next=f"{name}=[{value!r:.60}]")
    kinds = _kinds(get_args(hint)[0])
    return tuple(_one(name, item, kinds) for item in cast("Iterable[object]", value))


def _kinds(hint: Any) -> tuple[Any, ...]:  # noqa: ANN401 - a type, or several
    """Return the types that a hint allows."""
    parts = get_args(hint) if isinstance(hint, UnionType) else (hint,)
    return tuple(get_origin(part) or part for part in parts)


def _one(name: str, value: object, kinds: tuple[Any, ...]) -> object:
    if isinstance(value, str) and Path in kinds and str not in kinds:
        return Path(value)
    if isinstance(value, Path) and str in kinds:
        return str(value)
    if float in kinds and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        wanted = " or ".join(kind.__name__ for kind in kinds if kind is not NoneType)
        raise UsageError(f"{name}: {value!r:.60} is {type(value).__name__}, not {wanted}")
    return value


_COUNTS: Final = re.compile(r"XLA_FLAGS|XLA_(PYTHON_)?CLIENT_\w+|NCCL_\w+|JAX_\w+")
_ELSEWHERE: Final = re.compile(r"JAX_(PLATFORMS|PLATFORM_NAME|DUMP\w*|COMPILATION_CACHE\w*|LOG\w*)")
_MOST: Final = 5


def shell_note(inherited: Mapping[str, str], options: Mapping[str, str]) -> str | None:
    """Return a note that variables of the shell are ignored, and how to apply them.

    A command inherits the shell's variables and is lowered with them. A file has no process: only
    the command line counts, so one line gives one answer on every machine.
    """
    names = sorted(
        name
        for name, value in inherited.items()
        if value and name not in options and _COUNTS.fullmatch(name)
        if not _ELSEWHERE.fullmatch(name)
    )
    if not names:
        return None
    shown = ", ".join(names[:_MOST]) + (", ..." if names[_MOST:] else "")
    first = "XLA_FLAGS" if "XLA_FLAGS" in names else names[0]
    return f'ignoring variables exported in your shell: {shown}; to apply: --env {first}="${first}"'


_EXAMPLE: Final = "use --target 8xH100"
# Rules of thumb: the scatter of executions of one kernel, and of whole devices.
_NOISE: Final = 0.02
_STRAGGLING: Final = 0.01
_SHOWN_FLAGS: Final = 4
_UNMODELLED: Final = ("NCCL_", "CUDA_", "RCCL_", "UCX_", "LIBTPU_", "MEGASCALE_")
_OF_LIBTPU: Final = "LIBTPU_INIT_ARGS"  # the worker's libtpu reads it as it starts


def predict(
    workload: Workload | Program | PredictionSubject | Path | str,
    *,
    target: Target | str | None = None,
    program: str | None = None,
    question: PredictionOptions | None = None,
    say: Say = lambda _: None,
    **asked_for: Any,  # noqa: ANN401 - the fields of PredictionOptions
) -> Prediction:
    """Predict the time of one step of a workload on a target, and where it goes.

    `asked_for` are fields of PredictionOptions, as in
    `predict("ir", target="8xH100", candidates=["fsdp"])`.
    """
    check_workload(workload, target)
    options = read_question(question, asked_for)
    where = parse_target(target, tpus=True) if isinstance(target, str) else target
    on_tpus = None if where is None else where.tpu is not None
    questions = read_questions(options.what_if, tpus=on_tpus)
    if where is not None:
        options.refuse_those_of_others(where)
    measured = None if options.against is None else read_measurement(options.against)
    tables = read_tables(options.nccl_table, options.gemm_table, options.kernel_table)
    trips = read_trips(options.trips, options.trips_from)
    fitted = read_scalars(options.calibration) if options.calibration is not None else None
    with scratch_directory("predict") as scratch:
        subject = _subject(workload, where, program, options, scratch, say)
        where = where or _own_target(subject)
        check_devices(subject, where)
        pricing = PricingContext(
            target=where,
            scalars=fitted.over(default_scalars(where.gpu), where.gpu) if fitted else None,
            tables=tables,
            jitter=_jitter(options, where),
            trips=trips,
        )
        work = PredictionInputs(subject, pricing, options, say)
        results = forecasts(work)
        base, pricing = results.base, results.pricing
        programs = [part.program for part in base.parts or (base,)]
        trips.check(programs)
        say("explaining the simulated step")
        answered = list(answers(pricing, base, questions))
        return Prediction(
            workload=subject.name,
            origin=subject.origin,
            target=where,
            base=base,
            explanation=explain(
                base.simulation.timeline,
                target=where,
                settings=base.settings,
                jaxlib=base.jaxlib,
            ),
            basis=shares(base.simulation),
            candidates=results.standings,
            what_if=tuple(answer for answer in answered if isinstance(answer, WhatIfAnswer)),
            unanswered=tuple(answer for answer in answered if isinstance(answer, UnansweredWhatIf)),
            gain=_gain(work, pricing, base),
            against=compare(base, measured, str(options.against), where) if measured else None,
            tokens=_tokens(subject),
            notes=_notes(subject, pricing, results, options),
            warnings=(
                *trips.without_counts(programs),
                *(text for carried in results.carried for text in carried.warnings),
                *warnings_on_tables(where, tables),
            ),
        )


def _tokens(subject: PredictionSubject) -> TokensInStep | None:
    """Return the tokens of a step, which may run the program that takes them several times."""
    if subject.tokens is None or not subject.cycle:
        return subject.tokens
    return replace(subject.tokens, count=subject.tokens.count * subject.order.count(subject.main))


def shares(simulation: Simulation) -> dict[PriceSource, float]:
    """Return the sources of the priced time, as shares of it."""
    whole = sum(simulation.rests_on.values())
    return {
        source: simulation.rests_on.get(source, 0.0) / whole if whole else 0.0
        for source in PriceSource
        if source is not PriceSource.FREE
    }


def check_platform(subject: PredictionSubject, target: Target) -> None:
    """Reject a program for TPUs on a target of GPUs, and a schedule for GPUs on one of TPUs."""
    if target.tpu is None and subject.on_tpus:
        raise InputError(
            f"{subject.origin}: {subject.name} was made for TPUs, but {target} has GPUs",
            why="its kernels or its schedule are for those devices",
            next="use --target v5e-256",
        )
    if target.tpu is not None and subject.program is not None and not subject.on_tpus:
        raise InputError(
            f"{subject.origin}: {subject.name} is not scheduled for TPUs, and {target} has them",
            why="a schedule is for one kind of device",
            next="pass the program before XLA's passes: file.py:make_step, or StableHLO",
        )


def _resized(subject: PredictionSubject, target: Target, slices: int) -> str:
    """Return the advice for so many devices, or for slices of so many each."""
    one = resize_advice(target, subject.devices)
    return one if slices == 1 else one.replace("--target ", f"--target {slices}x")


def check_devices(subject: PredictionSubject, target: Target) -> None:
    """Reject a program that is made for other devices, or for another number of them."""
    check_platform(subject, target)
    program = subject.program if target.tpu is not None else None
    # A scheduled program for several slices states the devices of one.
    sent = transfers(program).values() if program is not None else ()
    slices = max((it.slices or 1 for it in sent), default=1)
    made_for = subject.devices * slices
    other = program is not None and target.tpu is not None and target.tpu.slices != slices
    if made_for == target.devices and not other:
        return
    if made_for == 1 and subject.program is None:
        return  # the program may not state it; the compiler will
    of_slices = f" in {slices} slice{'s' * (slices > 1)}" if other else ""
    raise UsageError(
        f"{subject.name} is made for {made_for:,} devices{of_slices}, but {target} has"
        f" {target.devices:,}",
        why="the number of devices is part of a program: its mesh, shapes and collectives",
        next=_resized(subject, target, slices),
    )


def _subject(
    source: Workload | Program | PredictionSubject | Path | str,
    target: Target | None,
    program: str | None,
    question: PredictionOptions,
    scratch: Path,
    say: Say,
) -> PredictionSubject:
    if isinstance(source, PredictionSubject):
        return source
    if isinstance(source, str) and is_function(source):
        where = require_target(target, source)
        say(f"lowering {source}")
        return lower_subject(
            source,
            target=where,
            devices=question.devices,
            directory=scratch,
            timeout_s=question.timeout_s,
        )
    subject = find_subject(source, program, tpus=True)
    if question.devices is not None:
        raise UsageError(
            f"--devices {question.devices}: {subject.origin} is already lowered, for"
            f" {subject.devices:,} devices",
            why="--devices sets the number of devices for lowering a function or a command",
            next="omit --devices",
        )
    return subject


def _own_target(subject: PredictionSubject) -> Target:
    target = own_target(subject.workload) if subject.workload is not None else None
    if target is None:
        raise _no_target(subject.origin, tpus=subject.on_tpus)
    return target


def require_target(target: Target | None, origin: str) -> Target:
    """Return the target; raise an error if there is none and the workload has none."""
    if target is None:
        raise _no_target(origin)
    return target


def _no_target(origin: str, *, tpus: bool = False) -> UsageError:
    devices = "TPUs" if tpus else "GPUs"
    return UsageError(
        f"--target is missing: which {devices}, and how many?",
        why=f"{origin} does not state its devices",
        next="use --target v5e-256" if tpus else _EXAMPLE,
    )


def _jitter(question: PredictionOptions, target: Target) -> Jitter | None:
    if question.jitter is None:
        return None
    return Jitter(noise=_NOISE, straggling=_STRAGGLING, ranks=target.devices, seed=question.jitter)


def _gain(work: PredictionInputs, pricing: PricingContext, base: Forecast) -> Gain | None:
    question = work.question
    if not question.wants_gain or work.subject.workload is None:
        return None
    work.say("compiling with predicted costs")
    return gain(work.subject, pricing, base, question)


def _target_notes(target: Target, base: Forecast) -> Iterator[str]:
    """Yield the target's notes, without those on the compile if nothing is compiled."""
    gpu = target.known_gpu
    of_compile = gpu.stands_in if gpu is not None and base.compiled is None else None
    yield from (note for note in target.notes if not of_compile or of_compile not in note)


_OTHERS_FLAGS: Final = {True: ("xla_gpu_", "xla_cpu_"), False: ("xla_cpu_",)}
"""Prefixes of the flags that the compiler accepts and does not read, on TPUs and on GPUs."""


def _unread_flags(target: Target, batch: ForecastBatch) -> Iterator[str]:
    """Yield a note on flags for XLA's compiler of other devices, which change nothing."""
    if batch.base.compiled is None:
        return
    every = [batch.base.settings, *(it.settings for it in batch.standings if it.error is None)]
    prefixes = _OTHERS_FLAGS[target.tpu is not None]
    names = dict.fromkeys(
        name
        for settings in every
        for name in [*settings.flags, *dict(settings.options)]
        if name.startswith(prefixes)
    )
    if names:
        shown = some([*names], _SHOWN_FLAGS)
        devices = "TPUs" if target.tpu is not None else "GPUs"
        yield f"XLA's compiler for {devices} does not read {shown}: without effect here"


def _notes(
    subject: PredictionSubject,
    pricing: PricingContext,
    batch: ForecastBatch,
    question: PredictionOptions,
) -> tuple[str, ...]:
    base = batch.base
    settings = base.settings
    target = pricing.target
    notes = [*subject.notes, *_target_notes(target, base), *base.notes, *base.simulation.notes]
    notes += [
        note
        for part in base.parts or (base,)
        for note in notes_on_tables(part.program, target, pricing.tables)
    ]
    if any(part.alive_bytes is None for part in subject.cycle):
        notes.append(
            "memory is that of the program with the highest peak: what the loop keeps alive beside"
            " it is not known"
        )
    if subject.others:
        names = ", ".join(subject.others[:3])
        more = len(subject.others) - 3
        what = "all programs of a step" if subject.cycle else subject.name
        notes.append(
            f"predicting {what}; choose {names}{f' and {more} more' if more > 0 else ''}"
            " (--program NAME)"
        )
    if batch.carried:
        notes.append(f"measured costs: {'; '.join(carried.how for carried in batch.carried)}")
    exported = shell_note(question.inherited, settings.variables)
    if exported is not None:
        notes.insert(0, exported)
    notes += _unread_flags(target, batch)
    read = _OF_LIBTPU if target.tpu is not None else None
    ignored = [name for name in settings.variables if name.startswith(_UNMODELLED) and name != read]
    if ignored:
        notes.append(f"not modeled, so without effect here: {', '.join(ignored)}")
    return tuple(dict.fromkeys(notes))
