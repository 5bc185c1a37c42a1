"""`counterpoint predict`: the time of a step on hardware that you don't have, and where it goes."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import Parameter

from counterpoint.cli.options import (
    BaseSettings,
    CompileTimeout,
    Digest,
    Force,
    Json,
    OutputPath,
    Page,
    Top,
    Where,
    Words,
    flat,
)
from counterpoint.cli.output import check_output
from counterpoint.cli.printing import print_report, say_line, say_wrote, write_result
from counterpoint.cli.profiles import check_timeline_output, write_digest, write_timeline
from counterpoint.cli.progress import Progress
from counterpoint.cli.subject import command_of, named_workload, refuse_profile_of_pgle
from counterpoint.compile.task import TIMEOUT_S
from counterpoint.core import CounterpointError, InputError, UsageError
from counterpoint.core.arguments import given_words
from counterpoint.core.bounds import check_number
from counterpoint.flags.versions import PROFILE
from counterpoint.workflow.forecast.options import (
    ForecastOptions,
    PredictionOptions,
    QuestionOptions,
)

if TYPE_CHECKING:
    from counterpoint.workflow.prediction import Prediction

OUT_OF_MEMORY: Final = 1
_KEPT: Final = (".mlir", ".gz")


def predict(  # noqa: PLR0913 - the options of the command
    workload: str | None = None,
    *command: Words,
    where: Where = Where(),
    base: BaseSettings = BaseSettings(),
    candidate: Annotated[tuple[str, ...], Parameter(allow_leading_hyphen=True)] = (),
    forecast: Annotated[ForecastOptions, flat] = ForecastOptions(),
    timeout_s: CompileTimeout = TIMEOUT_S,
    question: Annotated[QuestionOptions, flat] = QuestionOptions(),
    explain: bool = False,
    top: Top = 10,
    json: Json = False,
    short: Digest = Digest(),
    out: OutputPath = None,
    page: Page = Page(),
    keep_program: Path | None = None,
    force: Force = False,
) -> int:
    """Predict the time of a step on hardware that you don't have, and where it goes.

    Exit code 1 if it is predicted to run out of memory; 2 if a --what-if names something that the
    program lacks (the rest is still reported).

    Args:
        workload: StableHLO, a dump, a Run, HLO; file.py:function, which runs the file; or `-- CMD`.
        command: The command to start, after `--`: the step is lowered, and nothing is trained.
        where.program: The program to predict; by default the one with the most FLOPs, with what
            else an iteration of a command's loop calls.
        candidate: Settings to rank, on top of these: flags in quotes, a file, a recipe's name.
        explain: Add the full report of `explain` on the predicted step: findings, ops, collectives.
        out: Save the predicted Timeline: a directory (Parquet), .json.gz, .json or .pftrace.
        keep_program: Write the command's lowered step to this file (.mlir.gz), to predict it again.
    """
    named = named_workload(workload)
    page.check(force=force)
    check_number("--top", top, 1)
    if out is not None:
        check_timeline_output(out, [named], force=force)
    size = short.size(json=json)
    target = where.read()
    if question.pgle:
        refuse_profile_of_pgle([named, *command], target)
    words = command_of(named, command)
    options = PredictionOptions(
        **vars(forecast),
        **vars(question),
        settings=base.read(chip=None if target is None else target.gpu),
        recipes=base.recipe,
        candidates=candidate,
        overwrite=force,
        timeout_s=timeout_s,
    )
    _check(options)
    _check_kept(keep_program, words, force=force)

    from counterpoint.report.predict.next_command import PredictCommand, next_command
    from counterpoint.workflow.prediction import predict as predict_step
    from counterpoint.workflow.prediction import predict_command

    with kept_whatever_happens(keep_program), Progress("reading the program") as progress:
        if words is None:
            inheriting = replace(options, inherited=dict(os.environ))
            prediction = predict_step(
                named,
                target=target,
                program=where.program,
                question=inheriting,
                say=progress.say,
            )
        else:
            prediction = predict_command(
                words, target, where.program, options, keep=keep_program, say=progress.say
            )
        progress.say("drawing")
        if out is not None:
            write_timeline(prediction.timeline, out, force=force)
    given = PredictCommand(
        workload=named if words is None else None,
        command=words or (),
        options=(
            *given_words(replace(where, target=None)),
            *base.words(),
            *given_words(forecast),
        ),
        settings=base.words("--settings"),
        candidates=candidate,
        asks_what_if=bool(question.what_if),
        explains=explain,
    )
    following = next_command(prediction, given)
    _show(prediction, following, top, page, size, json=json, explain=explain)
    if out is not None:
        say_wrote(out)
    for unanswered in prediction.unanswered:
        say_line(f"error: {unanswered.error}")
    if prediction.unanswered:
        return UsageError.exit_code
    return OUT_OF_MEMORY if prediction.base.memory.fits is False else 0


def _show(
    prediction: Prediction,
    following: str,
    top: int,
    page: Page,
    size: int | None,
    *,
    json: bool,
    explain: bool,
) -> None:
    """Write the page, and print the digest, the JSON or the report."""
    from counterpoint.report.predict.predict_digest import predict_digest
    from counterpoint.report.predict.predict_document import predict_document
    from counterpoint.report.predict.predict_json import predict_json

    if page.html is not None:
        from counterpoint.cli.pages import predicted_page

        document = predict_document(prediction, top, following, explained=True)
        page.write(predicted_page(prediction, document, predict_json(prediction)))
    if size is not None:
        write_digest(predict_digest(prediction, following).text(size), None)
    elif json:
        write_result(predict_json(prediction))
    elif page.html is None:
        print_report(predict_document(prediction, top, following, explained=explain))


def _check(options: PredictionOptions) -> None:
    """Refuse what can't be compiled or written, before any work is done."""
    options.check()
    if options.pgle_out is not None:
        from counterpoint.workflow.prediction import check_gain_place

        check_gain_place(options.pgle_out, overwrite=options.overwrite)
    given = options.settings.flags.get(PROFILE)
    if given and not Path(given).exists():
        raise InputError(
            f"--set {PROFILE}={given}: no such file or directory",
            why="XLA logs an error at most and compiles without the profile",
            next="counterpoint pgle make PROFILE... -o FILE.pbtxt",
        )


def _check_kept(path: Path | None, words: list[str] | None, *, force: bool) -> None:
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
