"""`counterpoint predict`: what a step takes on hardware that is not here, and where it goes."""

from __future__ import annotations

import os
import shlex
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import Parameter

from counterpoint.cli.output import WholeNumber
from counterpoint.cli.predict_next import next_command
from counterpoint.cli.predict_options import CompileOptions, PriceOptions, Switch, make_question
from counterpoint.cli.profiles import check_timeline_output, write_timeline
from counterpoint.cli.progress import Progress
from counterpoint.core import UsageError

if TYPE_CHECKING:
    from counterpoint.hardware import Target
    from counterpoint.workflow.prediction import Prediction, PredictionOptions

OUT_OF_MEMORY: Final = 1


def predict(  # noqa: PLR0913 - the options of the command
    workload: str | None = None,
    *command: Annotated[str, Parameter(name="COMMAND...", show=False, negative=())],
    compile_: Annotated[CompileOptions | None, Parameter(name="*")] = None,
    prices: Annotated[PriceOptions | None, Parameter(name="*")] = None,
    explain: Switch = False,
    top: WholeNumber = 10,
    json: Switch = False,
    out: Annotated[Path | None, Parameter(name=["--out", "-o"])] = None,
    force: Switch = False,
) -> int:
    """Say what a step takes on hardware that is not here, and where it goes.

    Exit code 1 where it is predicted to run out of memory; 2 where a --what-if names what the
    program does not have (the rest is told all the same).

    Args:
        workload: StableHLO, a dump, a Run, HLO, file.py:function; or `-- python train.py`.
        command: What to start, behind `--`: the step is lowered, and nothing is trained.
        compile_: What is compiled.
        prices: What prices it.
        explain: Add all that `explain` tells of the predicted step: findings, ops, collectives.
        top: Rows in each table.
        json: Print everything as JSON, uncut.
        out: Keep the predicted Timeline: a directory (Parquet), .json.gz, .json or .pftrace.
        force: Overwrite what is there.
    """
    if workload is None:
        raise UsageError(
            "no workload was named",
            why="it is a file or directory, file.py:function, or a command behind `--`",
            next="counterpoint predict --target 8xH100 -- python train.py",
        )
    if top < 1:
        raise UsageError(f"--top takes a number from 1 on, not {top}")
    if out is not None:
        check_timeline_output(out, [workload], force=force)
    given = compile_ or CompileOptions()
    from counterpoint.hardware.targets import parse_target

    target = parse_target(given.target) if given.target is not None else None
    words = _command(workload, command)
    question = make_question(given, prices or PriceOptions(), target, force=force)
    with Progress("reading the program") as progress:
        prediction = (
            _of_file(workload, target, given.program, question, progress.say)
            if words is None
            else _of_command(words, target, given.program, question, progress.say)
        )
        progress.say("drawing")
        if out is not None:
            write_timeline(prediction.timeline, out, force=force)
    named = (workload, ()) if words is None else (None, words)
    next_line = next_command(prediction, given, *named, seen=(bool(question.what_if), explain))
    _print(prediction, top, next_line, as_json=json, explained=explain)
    if out is not None:
        print(f"wrote {out}", file=sys.stderr)
    return _exit_code(prediction)


def _exit_code(made: Prediction) -> int:
    for question in made.unanswered:
        print(f"error: {question.error}", file=sys.stderr)
    if made.unanswered:
        return UsageError.exit_code
    return OUT_OF_MEMORY if made.base.memory.fits is False else 0


def _command(workload: str, rest: Sequence[str]) -> list[str] | None:
    """Return the words after `--`, if any; an executable script may also stand alone."""
    path = Path(workload)
    if not rest:
        script = path.is_file() and os.access(path, os.X_OK) and path.read_bytes()[:2] == b"#!"
        return [workload] if script else None
    if path.is_dir() or (path.is_file() and not os.access(path, os.X_OK)):
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
) -> Prediction:
    from counterpoint.compile import require_compiler
    from counterpoint.workflow import run_subject
    from counterpoint.workflow.prediction import predict as ask
    from counterpoint.workflow.prediction import require_target

    where = require_target(target, shlex.join(words))
    require_compiler()
    with tempfile.TemporaryDirectory(prefix="counterpoint-lower-") as scratch:
        say(f"lowering {shlex.join(words)}")
        subject = run_subject(
            words,
            devices=question.devices or where.devices,
            directory=Path(scratch),
            program=program,
            timeout_s=question.timeout_s,
            say=say,
        )
        return ask(subject, target=where, question=question, say=say)


def _print(made: Prediction, top: int, next: str, *, as_json: bool, explained: bool) -> None:
    from counterpoint.report import print_document
    from counterpoint.report.predict import predict_document, predict_json

    if as_json:
        sys.stdout.write(predict_json(made))
    else:
        print_document(predict_document(made, top, next, explained=explained), sys.stdout)
