"""Prints everything that a command says: reports, results, messages, and files on request.

Nothing else in `cli` writes to stdout or stderr, so nothing from an input reaches a terminal
without its control characters shown as escapes. The output of a workload is not ours: `capture`
passes it on unchanged.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from counterpoint.core.printable import printable, printable_lines

if TYPE_CHECKING:
    from counterpoint.report.document import Document

STEP_SUMMARY: Final = "GITHUB_STEP_SUMMARY"
"""Names the file of what the page of a job shows in GitHub Actions, at most one MiB."""
_LARGEST_SUMMARY: Final = 200_000


def print_report(document: Document) -> None:
    """Print a report to stdout."""
    from counterpoint.report.terminal import print_document

    print_document(document, sys.stdout)


def document_text(document: Document) -> str:
    """Return a report as plain text."""
    from counterpoint.report.terminal import plain_text

    return plain_text(document)


def write_result(text: str) -> None:
    """Print a result that is JSON, or lines of text, to stdout."""
    sys.stdout.write(printable_lines(text))


def write_file(text: str) -> None:
    """Print to stdout the content of a file that is to be saved: exactly, unless people see it."""
    if sys.stdout.isatty():
        sys.stdout.write(printable_lines(text))
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(text.encode(errors="surrogateescape"))


def say_result(line: str) -> None:
    """Print a line to stdout."""
    write_result(f"{line}\n")


def say_line(line: str) -> None:
    """Print a line, or several, to stderr."""
    sys.stderr.write(f"{printable_lines(line)}\n")
    sys.stderr.flush()


def say_error(text: str) -> None:
    """Print to stderr a text whose words are final."""
    sys.stderr.write(f"{printable_lines(text)}\n")
    sys.stderr.flush()


def say_wrote(path: object) -> None:
    """Say on stderr which file was written."""
    say_error(f"wrote {printable(str(path))}")


def flush_result() -> None:
    """Write out what was printed to stdout, so that it precedes what is said on stderr."""
    sys.stdout.flush()


def add_step_summary(markdown: str) -> None:
    """Add Markdown to the step summary if there is one; a failure is said, and changes nothing."""
    name = os.environ.get(STEP_SUMMARY)
    if not name or len(markdown) > _LARGEST_SUMMARY:
        return
    try:
        with Path(name).open("a", encoding="utf-8", errors="backslashreplace") as file:
            file.write(f"{markdown}\n")
    except OSError as failure:
        say_line(f"the step summary was not written: {failure}")
