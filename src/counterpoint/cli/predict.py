"""`counterpoint predict`: the time of a step on hardware that you don't have, and where it goes."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import Parameter

from counterpoint.cli.notebooks import with_notebook
from counterpoint.cli.output import check_number, check_output, check_page
from counterpoint.cli.predict_options import (
    CompileOptions,
    DigestOptions,
    PriceOptions,
    checked_prices,
    make_question,
)
from counterpoint.cli.printing import print_report, say_line, say_wrote, write_result
from counterpoint.cli.profiles import check_timeline_output, write_digest, write_timeline
from counterpoint.cli.progress import Progress
from counterpoint.core import CounterpointError, UsageError
from counterpoint.core.notebook import as_typed, is_notebook
from counterpoint.core.scratch import scratch_directory

if TYPE_CHECKING:
    from counterpoint.cli.predict_options import CompileOptions
    from counterpoint.hardware.target import Target
    from counterpoint.hlo.model.program import Program
    from counterpoint.workflow.prediction import Prediction, PredictionOptions, RankedCandidate


OUT_OF_MEMORY: Final = 1
_KEPT: Final = (".mlir", ".gz")


def predict(  # noqa: PLR0913 - the options of the command
    workload: str | None = None,
    *command: Annotated[str, Parameter(name="COMMAND...", show=False, negative=())],
    compile_: Annotated[CompileOptions | None, Parameter(name="*")] = None,
    prices: Annotated[PriceOptions | None, Parameter(name="*")] = None,
    explain: bool = False,
    top: int = 10,
    json: bool = False,
    short: Annotated[DigestOptions | None, Parameter(name="*")] = None,
    out: Annotated[Path | None, Parameter(name=["--out", "-o"])] = None,
    html: Path | None = None,
    full: bool = False,
    keep_program: Path | None = None,
    force: bool = False,
) -> int:
    """Predict the time of a step on hardware that you don't have, and where it goes.

    Exit code 1 if it is predicted to run out of memory; 2 if a --what-if names something that the
    program lacks (the rest is still reported).

    Args:
        workload: StableHLO, a dump, a Run, HLO; file.py:function, which runs the file; or `-- CMD`.
        command: The command to start, after `--`: the step is lowered, and nothing is trained.
        compile_: What is compiled.
        prices: How it is priced.
        explain: Add the full report of `explain` on the predicted step: findings, ops, collectives.
        top: Rows in each table.
        json: Print everything as JSON.
        short: How short it is.
        out: Save the predicted Timeline: a directory (Parquet), .json.gz, .json or .pftrace.
        html: Write one page to this file (.html): the report, and the predicted step to zoom into.
        full: Put all of a large step into the page, however large.
        keep_program: Write the command's lowered step to this file (.mlir.gz), to predict it again.
        force: Overwrite existing output.
    """
    workload = _named(workload)
    check_page(html, full=full, force=force)
    _check_shown(top, out, workload, force=force)
    size = (short or DigestOptions()).size(json=json)
    compile_options = compile_ or CompileOptions()
    target = None if compile_options.target is None else _target(compile_options.target)
    asked = checked_prices(prices, [workload, *command], target)
    words = _command(workload, command)
    question = make_question(compile_options, asked, target, force=force)
    _check_kept(keep_program, words, force=force)
    with kept_whatever_happens(keep_program), Progress("reading the program") as progress:
        told = (target, compile_options.program, question, progress.say)
        prediction = (
            _of_file(workload, *told) if words is None else _of_command(words, *told, keep_program)
        )
        progress.say("drawing")
        _write_timeline(prediction, out, force=force)
    named = (workload, ()) if words is None else (None, words)
    seen = (bool(question.what_if), explain)
    next_line = next_command(prediction, compile_options, *named, seen=seen)
    if html is not None:
        _write_page(prediction, (top, next_line), html, full=full)
    if html is None or json or size is not None:
        _print(prediction, (top, next_line, size), as_json=json, explained=explain)
    return _exit_code(prediction, out)


def _check_shown(top: int, out: Path | None, workload: str, *, force: bool) -> None:
    check_number("--top", top, 1)
    if out is not None:
        check_timeline_output(out, [workload], force=force)


def _write_timeline(prediction: Prediction, out: Path | None, *, force: bool) -> None:
    if out is not None:
        write_timeline(prediction.timeline, out, force=force)


def _check_kept(path: Path | None, words: Sequence[str] | None, *, force: bool) -> None:
    if path is None:
        return
    if words is None:
        raise UsageError(
            "--keep-program requires a command to lower",
            why="the workload is a file or a function already",
            next=f"counterpoint predict --target 8xH100 --keep-program {path} -- python train.py",
        )
    check_output(path, force=force, endings=_KEPT, argument="keep_program")


@contextmanager
def kept_whatever_happens(path: Path | None) -> Generator[None]:
    """Make errors allow for a program that is kept already: the same command would find its file.

    The file stays, since lowering may have taken minutes.
    """
    try:
        yield
    except CounterpointError as error:
        if path is not None and path.exists():
            say_line(f"kept the lowered step in {path}, a workload for later predictions")
            if error.next is not None and error.next.startswith("use "):
                error.next += " --force"
        raise


def _named(workload: str | None) -> str:
    if workload is None:
        raise UsageError(
            "no workload was given",
            why="pass a file or directory, file.py:function, or a command after `--`",
            next="counterpoint predict --target 8xH100 -- python train.py",
        )
    return workload


def _exit_code(prediction: Prediction, out: Path | None) -> int:
    if out is not None:
        say_wrote(out)
    for question in prediction.unanswered:
        say_line(f"error: {question.error}")
    if prediction.unanswered:
        return UsageError.exit_code
    return OUT_OF_MEMORY if prediction.base.memory.fits is False else 0


def _command(workload: str, rest: Sequence[str]) -> list[str] | None:
    """Return the words after `--`, if any; a script or a notebook may also stand alone."""
    path = Path(workload)
    if is_notebook([workload, *rest]):
        return [*with_notebook([workload])]
    if not rest:
        script = path.is_file() and os.access(path, os.X_OK) and path.read_bytes()[:2] == b"#!"
        return [workload] if script else None
    from counterpoint.workflow import is_function

    is_file = path.is_file() and not os.access(path, os.X_OK)
    if path.is_dir() or is_file or is_function(workload):
        raise UsageError(
            f"two workloads: {workload}, and {shlex.join(rest)}",
            next=f"counterpoint predict {shlex.quote(workload)} --target 8xH100",
        )
    return [workload, *rest]


def _of_file(
    workload: str,
    target: Target | None,
    program: str | None,
    question: PredictionOptions,
    say: Callable[[str], None],
) -> Prediction:
    from counterpoint.workflow.prediction import predict as ask

    inheriting = replace(question, inherited=dict(os.environ))
    return ask(workload, target=target, program=program, question=inheriting, say=say)


def _of_command(
    words: Sequence[str],
    target: Target | None,
    program: str | None,
    question: PredictionOptions,
    say: Callable[[str], None],
    keep: Path | None,
) -> Prediction:
    from counterpoint.compile.interpreter import require_compiler
    from counterpoint.workflow import run_subject
    from counterpoint.workflow.prediction import predict as ask
    from counterpoint.workflow.prediction import require_target

    where = require_target(target, shlex.join(as_typed(words)))
    require_compiler(tpus=where.tpu is not None)
    with scratch_directory("lower") as scratch:
        say(f"lowering {shlex.join(as_typed(words))}")
        subject = run_subject(
            words,
            target=where,
            devices=question.devices,
            directory=scratch,
            program=program,
            timeout_s=question.timeout_s,
            keep=keep,
            say=say,
        )
        return ask(subject, target=where, question=question, say=say)


def _target(text: str) -> Target:
    from counterpoint.hardware.targets import parse_target

    return parse_target(text, tpus=True)


def _print(
    prediction: Prediction,
    shown: tuple[int, str, int | None],
    *,
    as_json: bool,
    explained: bool,
) -> None:
    from counterpoint.report.predict.predict_digest import predict_digest
    from counterpoint.report.predict.predict_document import predict_document
    from counterpoint.report.predict.predict_json import predict_json

    top, following, size = shown
    if size is not None:
        write_digest(predict_digest(prediction, following).text(size), None)
    elif as_json:
        write_result(predict_json(prediction))
    else:
        print_report(predict_document(prediction, top, following, explained=explained))


def _write_page(prediction: Prediction, shown: tuple[int, str], path: Path, *, full: bool) -> None:
    from counterpoint.cli.pages import predicted_page, write_page
    from counterpoint.report.predict.predict_document import predict_document
    from counterpoint.report.predict.predict_json import predict_json

    document = predict_document(prediction, *shown, explained=True)
    write_page(predicted_page(prediction, document, predict_json(prediction)), path, full=full)


_LINE = 90  # characters of settings; longer lines are hard to read
_CHIP = "flops=2x,hbm=2x"
_SHARE = 0.01  # share of the step from which exposed communication matters


def next_command(
    prediction: Prediction,
    compile_options: CompileOptions,
    workload: str | None,
    words: Sequence[str],
    *,
    seen: tuple[bool, bool] = (False, False),
) -> str:
    """Return the next command for the same workload: a path, a function, or a command's words.

    `seen` says whether --what-if was answered, and whether everything was explained.
    """
    typed = as_typed(words)
    workload_words = shlex.join([workload] if workload is not None else ["--", *typed])
    options = [
        "counterpoint",
        "predict",
        "--target",
        str(prediction.target),
        *_again(compile_options),
    ]
    on_tpus = prediction.target.tpu is not None
    recompiled = prediction.base.compiled is not None and not on_tpus  # `tune` is for GPUs
    recipe = None if on_tpus else _recipe(prediction, compile_options)
    if recipe is not None:
        return f"{shlex.join([*options, '--candidate', recipe])} {workload_words}"
    best = prediction.candidates[0] if prediction.candidates else None
    if (
        best is not None
        and not on_tpus
        and not any(candidate.is_base and candidate.tied for candidate in prediction.candidates)
    ):
        return _with_best(best, prediction, compile_options, workload, words)
    answered, explained = seen
    if not answered:
        return f"{shlex.join([*options, '--what-if', _question(prediction)])} {workload_words}"
    if not explained:
        return f"{shlex.join([*options, '--explain'])} {workload_words}"
    if recompiled:
        return _tune(prediction, workload, words)
    return f"{shlex.join([*options, '-o', 'step.pftrace'])} {workload_words}"


def _recipe(prediction: Prediction, compile_options: CompileOptions) -> str | None:
    """Return the recipe that is worth a try first, if any."""
    fits = prediction.base.memory.fits
    if fits is False and "memory" not in compile_options.candidate:
        return "memory"
    untried = not prediction.candidates and prediction.base.compiled is not None
    return "pgle-recommended" if untried and fits is not False else None


def _with_best(
    best: RankedCandidate,
    prediction: Prediction,
    compile_options: CompileOptions,
    workload: str | None,
    words: Sequence[str],
) -> str:
    """Run or predict with the best candidate; if it has many settings, let `tune` write them."""
    chosen = _chosen(best, prediction)
    if len(shlex.join(chosen)) > _LINE:
        return _tune(prediction, workload, words)
    if workload is None:
        return shlex.join(
            ["counterpoint", "run", *_settings(compile_options), *chosen, "--", *as_typed(words)]
        )
    options = [
        *_again(compile_options),
        *(setting.replace("--settings=", "--recipe=") for setting in chosen),
    ]
    line = ["counterpoint", "predict", "--target", str(prediction.target), *options]
    return shlex.join([*line, "--what-if", _question(prediction), workload])


def _tune(prediction: Prediction, workload: str | None, words: Sequence[str]) -> str:
    target = ["--target", str(prediction.target)]
    if workload is None:
        return shlex.join(["counterpoint", "tune", *target, "--", *words])
    return shlex.join(["counterpoint", "tune", "--predict", workload, *target])


def _again(compile_options: CompileOptions) -> Iterator[str]:
    """Yield the user's options for the compile, except candidates."""
    if compile_options.program is not None:
        yield f"--program={compile_options.program}"
    if compile_options.devices is not None:
        yield f"--devices={compile_options.devices}"
    yield from (f"--recipe={value}" for value in compile_options.recipe)
    yield from (f"--set={value}" for value in compile_options.set_)
    yield from (f"--env={value}" for value in compile_options.env)
    if compile_options.schedule_only:
        yield "--schedule-only"


def _settings(compile_options: CompileOptions) -> Iterator[str]:
    """Yield the same options in the form of `run`."""
    yield from (f"--settings={value}" for value in compile_options.recipe)
    yield from (f"--set={value}" for value in compile_options.set_)
    yield from (f"--env={value}" for value in compile_options.env)


def _question(prediction: Prediction) -> str:
    """Return what could shorten the step: faster links if it waits for them, else the chip."""
    simulation, target = prediction.base.simulation, prediction.target
    if simulation.exposed_s < _SHARE * simulation.step_s:
        return _CHIP
    if target.tpu is not None:
        return "dcn=2x" if target.tpu.slices > 1 else "ici=2x"
    return _binding(prediction.base.program, target)


def _binding(program: Program, target: Target) -> str:
    """Return the links that would shorten the program's collectives most if twice as fast.

    That is both links of a collective across hosts if speeding up one makes the other the limit.
    """
    from counterpoint.cost.build import build_model
    from counterpoint.cost.what_if import parse_what_if
    from counterpoint.hlo.collectives import collective
    from counterpoint.hlo.model.program import launched

    communicating = [
        instruction
        for body in launched(program)
        for instruction in body.instructions
        if collective(program, instruction)
    ]
    domain = "nvlink" if target.wiring.joins else "host"

    def seconds(question: str) -> float:
        model = build_model(target, what_if=parse_what_if(question) if question else None)
        return sum(model.price(program, instruction).seconds for instruction in communicating)

    usual, both = seconds(""), f"nic=2x,{domain}=2x"
    single = min(("nic=2x", f"{domain}=2x", "host=2x"), key=seconds)
    saved = usual - seconds(both)
    if saved <= 0:
        return _CHIP  # only the latency of collectives remains, which no link shortens
    return single if usual - seconds(single) > 0.5 * saved else both


def _chosen(best: RankedCandidate, prediction: Prediction) -> list[str]:
    """Return the best candidate's settings beyond those of the base, in the form of `run`."""
    from counterpoint.flags.recipe import recipes

    if best.name in recipes():
        return [f"--settings={best.name}"]
    before = prediction.base.settings
    flags = [item for item in best.settings.flags.items() if item not in before.flags.items()]
    variables = [item for item in best.settings.variables.items() if item not in before.env]
    return [
        *(f"--set={name}={value}" for name, value in flags),
        *(f"--env={name}={value}" for name, value in variables if name != "XLA_FLAGS"),
    ]
