"""`counterpoint flags check --fix` and `--diff`: the mended text, in its file or on stdout."""

from __future__ import annotations

import difflib
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from counterpoint.cli.options import Force, OutputPath, flat
from counterpoint.cli.printing import flush_result, say_line, write_file, write_result
from counterpoint.core import UsageError, WriteError
from counterpoint.flags.check.examination import CheckRequest, fix_and_examine
from counterpoint.flags.parse.source import SourceText, open_source
from counterpoint.flags.parsed import COMMAND_LINE
from counterpoint.report.flags.check_document import fix_lines, fixed_summary_lines


@flat
@dataclass(frozen=True)
class FixOptions:
    """Whether the source is mended, and where the result goes.

    Args:
        fix: Make all safe fixes in the source file. Of `-` and of flags in quotes, the result is
            printed.
        diff: Print what --fix would change, and change nothing.
        out: With --fix, write the result to this file; the source stays as it is.
    """

    fix: bool = False
    diff: bool = False
    out: OutputPath = None
    force: Force = False

    @property
    def mends(self) -> bool:
        return self.fix or self.diff

    def check(self, source: str | None) -> None:
        """Refuse options that contradict each other, and a file that can't be written."""
        if self.mends or self.out is not None:
            _check(source, fix=self.fix, diff=self.diff, out=self.out, force=self.force)


def _check(source: str | None, *, fix: bool, diff: bool, out: Path | None, force: bool) -> None:
    if out is not None and diff:
        raise UsageError(
            "--diff and -o exclude each other",
            why="--diff writes no file",
            next="omit --diff" if fix else "omit --diff, use --fix",
        )
    if out is not None and not fix:
        raise UsageError("-o requires --fix", next="use --fix")
    path = Path(source) if source is not None else None
    if out is not None:
        if path and out.exists() and path.exists() and out.samefile(path):
            raise UsageError(
                f"-o {out}: this is the source",
                why="--fix alone edits it",
                next="omit -o",
            )
        from counterpoint.cli.output import check_output

        check_output(out, force=force, endings=(out.suffix,))


def opened_to_fix(source: str | None, form: str | None, allowed: Sequence[Path]) -> SourceText:
    """Return the text to edit; refuse what is none."""
    opened = None
    if source is not None and not _is_run(source):
        opened = open_source(source, form=form, allowed=allowed)
    if opened is None:
        raise UsageError(
            "--fix edits a file, and this source is none",
            why="`flags check` without it says what to change",
            next="omit --fix and --diff and -o",
        )
    return opened


def _is_run(source: str) -> bool:
    from counterpoint.runs.layout import is_run

    path = Path(source)
    try:
        return path.is_dir() and is_run(path)
    except OSError:  # flags in quotes may be longer than any file name
        return False


def fix_in_place(
    opened: SourceText,
    question: CheckRequest,
    *,
    options: FixOptions,
    every: bool,
    as_json: bool,
) -> int:
    """Write the mended text where it belongs, say what was changed, and return the exit code."""
    diff, out = options.diff, options.out
    path = None if diff else out or opened.path
    if path is not None and out is None:
        _check_writable(path)
    fixed, examination = fix_and_examine(opened.text, opened.read, question, every=every)
    changed = fixed.text != opened.text
    if path is not None and (changed or out is not None):
        _write(path, fixed.text, opened.path)
    told = list(fix_lines(fixed, examination, every=every))
    if as_json:
        from counterpoint.report.flags.settings_json import fix_json

        write_result(fix_json(fixed, examination))
    elif diff:
        write_file("".join(_diff(opened, fixed.text)))
    elif path is None:
        write_file(f"{fixed.text}\n" if opened.where == COMMAND_LINE else fixed.text)
    else:
        write_result("".join(f"{line}\n" for line in told))
        told = []
    flush_result()
    for line in () if as_json else (*told, *fixed_summary_lines(fixed, examination, path)):
        say_line(line)
    return int(examination.failed or bool(fixed.refused) or (diff and changed))


def _check_writable(path: Path) -> None:
    """Refuse a file that its owner protects, though a rename would replace it."""
    mode = path.stat().st_mode
    if not os.access(path, os.W_OK) or not mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH):
        raise UsageError(
            f"{path}: not writable",
            why="--fix edits the file; --diff shows the changes without writing",
            next="omit --fix, use --diff",
        )


def _write(path: Path, text: str, source: Path | None) -> None:
    """Write the text with the mode of its source, so that a script still launches."""
    from counterpoint.cli.output import write_output

    write_output(path, text.encode(errors="surrogateescape"))
    if source is not None and not path.samefile(source):
        try:
            path.chmod(stat.S_IMODE(source.stat().st_mode))
        except OSError as failure:
            raise WriteError(path, failure) from None


def _diff(opened: SourceText, text: str) -> Iterator[str]:
    """Yield the lines of a diff that `patch` accepts."""
    before, after = (whole.splitlines(keepends=True) for whole in (opened.text, text))
    for line in difflib.unified_diff(before, after, opened.where, opened.where):
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
