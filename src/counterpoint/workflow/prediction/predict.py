"""`predict`: compile a workload for hardware that is not here, simulate it, and say what comes out.

    words ──► Subject ──compile──► Program ──price──► simulate ──► Forecast ──► Prediction

All candidates are compiled at once, in worker processes; one that fails is an error of its own row.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from counterpoint.compile import Workload, own_target, parse_target
from counterpoint.core.errors import UsageError
from counterpoint.cost import Source
from counterpoint.cost.scalar_file import read_scalars
from counterpoint.cost.scalars import default_scalars
from counterpoint.diagnose.explain import explain
from counterpoint.hardware import Target
from counterpoint.hardware.target_text import sized
from counterpoint.simulate import Jitter, Simulation
from counterpoint.workflow.prediction.against import compare, read_measurement
from counterpoint.workflow.prediction.arguments import check_workload, read_question
from counterpoint.workflow.prediction.forecast import Bench
from counterpoint.workflow.prediction.gain import Gain, gain
from counterpoint.workflow.prediction.prediction import Answer, Forecast, Prediction, Unanswered
from counterpoint.workflow.prediction.question import Question, Say
from counterpoint.workflow.prediction.shell import shell_note
from counterpoint.workflow.prediction.subject import (
    Subject,
    find_subject,
    is_function,
    lower_subject,
)
from counterpoint.workflow.prediction.tables import (
    notes_on_tables,
    read_tables,
    warnings_on_tables,
)
from counterpoint.workflow.prediction.trials import Made, Work, forecasts
from counterpoint.workflow.prediction.what_if_answers import answers, read_questions

if TYPE_CHECKING:
    from counterpoint.hlo import Program

_EXAMPLE: Final = "--target 8xH100"
# Rules of thumb: how much executions of one kernel scatter, and whole devices differ.
_NOISE: Final = 0.02
_STRAGGLING: Final = 0.01
_UNMODELLED: Final = ("NCCL_", "CUDA_", "RCCL_", "UCX_", "LIBTPU_", "MEGASCALE_")


def predict(
    workload: Workload | Program | Subject | Path | str,
    *,
    target: Target | str | None = None,
    program: str | None = None,
    question: Question | None = None,
    say: Say = lambda _: None,
    **asked_for: Any,  # noqa: ANN401 - the fields of a Question
) -> Prediction:
    """What one step of a workload takes on a target, and where it goes.

    `asked_for` are fields of a Question: `predict("ir", target="8xH100", candidates=["fsdp"])`.
    """
    check_workload(workload, target)
    given = read_question(question, asked_for)
    questions = read_questions(given.what_if)
    measured = None if given.against is None else read_measurement(given.against)
    tables = read_tables(given.nccl_tables, given.gemm_table, given.kernel_table)
    fitted = read_scalars(given.calibration) if given.calibration is not None else None
    where = parse_target(target) if isinstance(target, str) else target
    with tempfile.TemporaryDirectory(prefix="counterpoint-predict-") as scratch:
        subject = _subject(workload, where, program, given, Path(scratch), say)
        where = where or _own_target(subject)
        check_devices(subject, where)
        bench = Bench(
            target=where,
            scalars=fitted.over(default_scalars(where.gpu), where.gpu) if fitted else None,
            tables=tables,
            jitter=_jitter(given, where),
        )
        work = Work(subject, bench, given, say)
        made = forecasts(work)
        base, bench = made.base, made.bench
        say("explaining the simulated step")
        answered = list(answers(bench, base, questions))
        return Prediction(
            workload=subject.name,
            origin=subject.origin,
            target=where,
            base=base,
            explanation=explain(base.simulation.timeline, target=where, settings=base.settings),
            basis=shares(base.simulation),
            candidates=made.standings,
            what_if=tuple(it for it in answered if isinstance(it, Answer)),
            unanswered=tuple(it for it in answered if isinstance(it, Unanswered)),
            gain=_gain(work, bench, base),
            against=compare(base, measured, str(given.against), where) if measured else None,
            notes=_notes(subject, bench, made, given),
            warnings=(
                *(made.carried.warnings if made.carried else ()),
                *warnings_on_tables(where, tables),
            ),
        )


def shares(simulation: Simulation) -> dict[Source, float]:
    """What the priced time rests on, as shares of it."""
    whole = sum(simulation.rests_on.values())
    return {
        source: simulation.rests_on.get(source, 0.0) / whole if whole else 0.0
        for source in Source
        if source is not Source.FREE
    }


def check_devices(subject: Subject, target: Target) -> None:
    """Refuse a program that is made for another number of devices."""
    made_for = subject.devices
    if made_for == target.devices:
        return
    if made_for == 1 and subject.program is None:
        return  # it may not say: the compiler will
    raise UsageError(
        f"{subject.name} is made for {made_for:,} devices, and {target} has {target.devices:,}",
        why="the number of devices is part of a program: its mesh, shapes and collectives",
        next=sized(target, made_for),
    )


def _subject(
    source: Workload | Program | Subject | Path | str,
    target: Target | None,
    program: str | None,
    question: Question,
    scratch: Path,
    say: Say,
) -> Subject:
    if isinstance(source, Subject):
        return source
    if isinstance(source, str) and is_function(source):
        where = require_target(target, source)
        say(f"lowering {source}")
        return lower_subject(
            source,
            devices=question.devices or where.devices,
            directory=scratch,
            timeout_s=question.timeout_s,
        )
    subject = find_subject(source, program)
    if question.devices is not None:
        raise UsageError(
            f"--devices {question.devices}: {subject.origin} is lowered already, for"
            f" {subject.devices:,} devices",
            why="--devices says for how many a function or a command is lowered",
            next="leave --devices out",
        )
    return subject


def _own_target(subject: Subject) -> Target:
    found = own_target(subject.workload) if subject.workload is not None else None
    if found is None:
        raise _no_target(subject.origin)
    return found


def require_target(target: Target | None, origin: str) -> Target:
    """The target, where the workload can't tell one."""
    if target is None:
        raise _no_target(origin)
    return target


def _no_target(origin: str) -> UsageError:
    return UsageError(
        "--target is missing: which GPUs, and how many?",
        why=f"{origin} does not tell the devices it is for",
        next=_EXAMPLE,
    )


def _jitter(question: Question, target: Target) -> Jitter | None:
    if question.jitter is None:
        return None
    return Jitter(noise=_NOISE, straggling=_STRAGGLING, ranks=target.devices, seed=question.jitter)


def _gain(work: Work, bench: Bench, base: Forecast) -> Gain | None:
    question = work.question
    if not (question.pgle or question.pgle_out) or work.subject.workload is None:
        return None
    work.say("compiling with predicted costs")
    return gain(work.subject.workload, bench, base, question)


def _target_notes(target: Target, base: Forecast) -> Iterator[str]:
    """Without what is of the compile alone, where nothing is compiled."""
    gpu = target.known_gpu
    of_compile = gpu.stands_in if gpu is not None and base.compiled is None else None
    yield from (note for note in target.notes if not of_compile or of_compile not in note)


def _notes(subject: Subject, bench: Bench, made: Made, question: Question) -> tuple[str, ...]:
    base, carried = made.base, made.carried
    settings = base.settings
    target = bench.target
    notes = [*subject.notes, *_target_notes(target, base), *base.notes, *base.simulation.notes]
    notes += notes_on_tables(base.program, target, bench.tables)
    if subject.others:
        names = ", ".join(subject.others[:3])
        more = len(subject.others) - 3
        notes.append(
            f"predicted is {subject.name}; not {names}{f' and {more} more' if more > 0 else ''}"
            " (--program NAME)"
        )
    if carried is not None:
        notes.append(f"measured costs: {carried.how}")
    exported = shell_note(question.inherited, settings.variables)
    if exported is not None:
        notes.insert(0, exported)
    ignored = [name for name in settings.variables if name.startswith(_UNMODELLED)]
    if ignored:
        notes.append(f"not modelled, so of no effect here: {', '.join(ignored)}")
    return tuple(dict.fromkeys(notes))
