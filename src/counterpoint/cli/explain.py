"""`counterpoint explain`: read profiles, and say where a median step goes."""

from __future__ import annotations

import io
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TextIO

from cyclopts import Parameter

from counterpoint.cli.explained_run import find_run, refuse_directory_of_runs
from counterpoint.cli.numbers import MaybeWholeNumber, WholeNumber
from counterpoint.cli.output import check_output, write_output
from counterpoint.cli.progress import Progress
from counterpoint.core.errors import InputError, UsageError
from counterpoint.diagnose.explain import Explanation
from counterpoint.diagnose.explain import explain as explain_timeline
from counterpoint.hardware import Target, parse_target
from counterpoint.report.explain_document import explain_document
from counterpoint.report.json import explain_json
from counterpoint.report.terminal import plain_text, print_document
from counterpoint.runs import Run
from counterpoint.runs.read import read

ENDINGS = (".json", ".txt", ".md")


def explain(  # noqa: PLR0913 - the options of the command
    *paths: str,
    step: MaybeWholeNumber = None,
    device: str | None = None,
    target: str | None = None,
    top: WholeNumber = 10,
    jobs: MaybeWholeNumber = None,
    json: Annotated[bool, Parameter(show_default=False)] = False,
    out: Annotated[Path | None, Parameter(name=["--out", "-o"])] = None,
    force: Annotated[bool, Parameter(show_default=False)] = False,
) -> None:
    """Say where a training step goes.

    Args:
        paths: A Run, file, log directory, zip, pattern or URL; several are the hosts of one run.
        step: Explain this step alone.
        device: Explain these devices alone: their numbers with commas between, e.g. 0,1.
        target: The machine it ran on, e.g. 8xH100 or 64x8xH100:8x400G: tells how fast links are.
        top: Rows in each table.
        jobs: Read so many hosts at a time; by default one per core, where there is much to read.
        json: Print everything as JSON, uncut.
        out: Write to this file: .json as JSON, .txt or .md as text.
        force: Overwrite the file.
    """
    devices = None if device is None else _device_numbers(device)
    if not paths:
        raise UsageError("no profile was named", next="counterpoint explain PATH")
    if top < 1:
        raise UsageError(f"--top takes a number from 1 on, not {top}", next="--top 10")
    if out is not None:
        check_output(out, force=force, endings=ENDINGS)
        if json and out.suffix != ".json":
            raise UsageError(f"--json, but {out} is to be text", next="end its name in .json")
    run = find_run(paths)
    known_target = None if target is None else parse_target(target)
    explanation = _explain(paths, Question(step, devices, run, known_target), jobs)
    as_json = json or (out is not None and out.suffix == ".json")
    if out is None:
        _print(explanation, run, top, as_json=as_json)
        return
    if as_json:
        text = explain_json(explanation, run)
    else:
        text = plain_text(explain_document(explanation, top, run))
    write_output(out, f"```\n{text}```\n" if out.suffix == ".md" else text)
    print(f"wrote {out}", file=sys.stderr)


def _device_numbers(text: str) -> tuple[int, ...]:
    numbers = text.split(",")
    if not all(number.strip().isdecimal() for number in numbers):
        raise UsageError(
            f"--device takes numbers with commas between, not {text!r}", next="--device 0,1"
        )
    return tuple(sorted({int(number) for number in numbers}))


@dataclass(frozen=True, slots=True)
class Question:
    """What of the profile is asked for, and what is known beside it."""

    step: int | None
    devices: tuple[int, ...] | None
    run: Run | None
    target: Target | None


def _explain(paths: tuple[str, ...], asked: Question, jobs: int | None) -> Explanation:
    with Progress("reading") as progress:

        def say(what: str, done: int, total: int) -> None:
            progress.say(f"reading {what.rpartition('/')[2]}, {done / max(total, 1):.0%}")

        try:
            timeline = read(*paths, progress=say, jobs=jobs)
        except InputError:
            refuse_directory_of_runs(paths)
            raise
        progress.say("explaining")
        return explain_timeline(
            timeline, step=asked.step, devices=asked.devices, run=asked.run, target=asked.target
        )


def _print(explanation: Explanation, run: Run | None, top: int, *, as_json: bool) -> None:
    stream: TextIO = sys.stdout
    _show_every_name(stream)
    if as_json:
        stream.write(explain_json(explanation, run))
    else:
        print_document(explain_document(explanation, top, run), stream)


def _show_every_name(stream: TextIO) -> None:
    """Names that the stream's encoding lacks are shown as escapes."""
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")
