"""What commands that look into profiles have in common: reading them, and printing every name."""

from __future__ import annotations

import glob
import io
import os
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TextIO, TypeVar

from counterpoint.cli.explained_run import refuse_directory_of_runs
from counterpoint.cli.output import check_output, write_output
from counterpoint.cli.progress import Progress
from counterpoint.core.errors import InputError, UsageError
from counterpoint.report.document import Document
from counterpoint.report.terminal import plain_text, print_document
from counterpoint.runs.read import read
from counterpoint.timeline.model import Timeline

ENDINGS = (".json", ".txt", ".md")

Answer = TypeVar("Answer")


def look_into(
    paths: tuple[str, ...], answer: Callable[[Timeline], Answer], jobs: int | None, doing: str
) -> Answer:
    """What is to be said of profiles, with their reading and that shown on a terminal."""
    with Progress("reading") as progress:
        try:
            timeline = read(*paths, progress=progress.read, jobs=jobs)
        except InputError:
            refuse_directory_of_runs(paths)
            raise
        progress.say(doing)
        return answer(timeline)


def as_typed(paths: Sequence[str]) -> tuple[str, ...]:
    """The paths in few words: many files that a shell made of one pattern are that pattern."""
    distinct = list(dict.fromkeys(paths))
    prefix = os.path.commonprefix
    start = prefix(distinct)
    end = prefix([path.removeprefix(start)[::-1] for path in distinct])[::-1]
    pattern = f"{glob.escape(start)}*{glob.escape(end)}"
    if len(distinct) > 1 and sorted(glob.glob(pattern)) == sorted(distinct):  # noqa: PTH207
        return (pattern,)
    return tuple(paths)


def device_numbers(text: str | None) -> tuple[int, ...] | None:
    """What `--device` names; None where it was not given."""
    if text is None:
        return None
    numbers = text.split(",")
    if not all(number.strip().isdecimal() for number in numbers):
        raise UsageError(
            f"--device takes numbers with commas between, not {text!r}", next="--device 0,1"
        )
    return tuple(sorted({int(number) for number in numbers}))


def check_asked(
    paths: tuple[str, ...], top: int, out: Path | None, command: str, *, json: bool, force: bool
) -> None:
    """Refuse what can't be answered before anything is read."""
    if not paths:
        raise UsageError("no profile was named", next=f"counterpoint {command} PATH")
    if top < 1:
        raise UsageError(f"--top takes a number from 1 on, not {top}", next="--top 10")
    if out is not None:
        check_output(out, force=force, endings=ENDINGS)
        if json and out.suffix != ".json":
            raise UsageError(
                f"--json, but {out} is to be text",
                next=f"-o {shlex.quote(str(out.with_suffix('.json')))}",
            )


def tell(
    document: Callable[[], Document], as_text: Callable[[], str], out: Path | None, *, json: bool
) -> None:
    """Print the answer, or write it to a file: as a document, or as JSON."""
    if out is None:
        _show_every_name(sys.stdout)
        if json:
            sys.stdout.write(as_text())
        else:
            print_document(document(), sys.stdout)
        return
    if json or out.suffix == ".json":
        text = as_text()
    else:
        text = plain_text(document())
        text = f"```\n{text}```\n" if out.suffix == ".md" else text
    write_output(out, text)
    print(f"wrote {out}", file=sys.stderr)


def _show_every_name(stream: TextIO) -> None:
    """Names that the stream's encoding lacks are shown as escapes."""
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")
