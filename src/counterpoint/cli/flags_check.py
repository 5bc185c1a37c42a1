"""`counterpoint flags check`: what XLA rejects, what has no effect, and the fixes."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

from cyclopts import Parameter

from counterpoint.cli.flags_check_fix import FixOptions, fix_in_place, opened_to_fix
from counterpoint.cli.options import Json, flat
from counterpoint.cli.printing import flush_result, say_line, write_result
from counterpoint.cli.settings_source import (
    SettingsContext,
    SettingsSource,
    check_version,
    checked_chip,
    read_source,
)
from counterpoint.core import InputError, UsageError
from counterpoint.core.arguments import given_words
from counterpoint.flags.check.examination import CheckRequest, Examination, codes, examine
from counterpoint.flags.jaxlib import find_interpreter
from counterpoint.flags.parse.form import FORMS
from counterpoint.flags.parsed import COMMAND_LINE, IssueKind, ParsedSource
from counterpoint.flags.settings import Channel
from counterpoint.report.flags.check_document import check_lines, nothing_lines, summary_lines

_NAMED: Final = 10
"""Maximum number of unread parts named in an error."""

_FORM = f"The form of the source, if its name does not determine it: {', '.join(FORMS)}."


@flat
@dataclass(frozen=True)
class UsedBy:
    """What will read the settings.

    Args:
        jaxlib: The release to check for; by default what the source installs, else the installed.
        python: The interpreter that runs the program; by default the first one with a jaxlib.
        target: The Target: 8xH100.
        chip: The chip, if neither the Target nor the source names it: H100, MI300X, TPU v5p.
        form: The form of the source.
    """

    form: Annotated[str | None, Parameter(help=_FORM)] = None
    jaxlib: str | None = None
    python: Path | None = None
    target: str | None = None
    chip: str | None = None

    @property
    def known_chip(self) -> str | None:
        """The chip by its name."""
        if self.target is not None and self.chip is not None:
            raise UsageError(
                f"--target {self.target} and --chip {self.chip}: both specify the chip",
                next="omit --chip",
            )
        if self.target is None:
            return checked_chip(self.chip)
        from counterpoint.hardware.targets import parse_devices

        return parse_devices(self.target).chip


def check(  # noqa: PLR0913 - the options of the command
    source: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    *command: Annotated[str, Parameter(name="CMD...", show=False)],
    env: bool = False,
    used: UsedBy = UsedBy(),
    profiling: bool = False,
    no_probe: bool = False,
    mending: FixOptions = FixOptions(),
    json: Json = False,
    all: bool = False,
    select: tuple[str, ...] = (),
    ignore: tuple[str, ...] = (),
    allow: tuple[Path, ...] = (),
) -> int:
    """Check flags and environment: what XLA rejects, what has no effect, and the fixes.

    Args:
        source: A script, flag file, manifest, `-`, recipe, `pid:N`, Run, or flags in quotes.
        command: A command after `--`: the settings that it would inherit are checked.
        env: Check the environment of this shell.
        profiling: The settings are for a run whose profile becomes a PGLE profile.
        no_probe: Don't query the compiler.
        all: List minor remarks, too, and fix them: defaults repeated, values known only at run
            time, tests.
        select: Only these codes or code prefixes: FLAG1,FLAG203.
        ignore: Codes or code prefixes to ignore.
        allow: A directory whose files the source may name; by default only its own directory.
    """
    if source is not None and command and _is_program(source, command[0]):
        source, command = None, (source, *command)  # all words are behind `--`
    mending.check(source)
    check_version(used.jaxlib)
    chosen, left_out = codes(select, "select"), codes(ignore, "ignore")
    interpreter = find_interpreter(used.python or _python_of(command))
    wanted = SettingsContext(
        used.jaxlib or (interpreter.jaxlib if interpreter else None), used.known_chip
    )
    given = source is not None or env or command
    opened = opened_to_fix(source, used.form, allow) if mending.mends and given else None
    if opened is not None:
        found = SettingsSource(opened.read(opened.text))
    else:
        found = read_source(source, command, env=env, form=used.form, wanted=wanted, allowed=allow)
    _check_read(found.written)
    question = CheckRequest(
        version=used.jaxlib
        or found.jaxlib
        or (interpreter.jaxlib if used.python and interpreter else None),
        interpreter=interpreter,
        chip=wanted.chip or found.chip,
        profiling=profiling,
        ask=None if no_probe else _asker(),
        select=chosen,
        ignore=left_out,
    )
    if opened is not None:
        return fix_in_place(opened, question, options=mending, every=all, as_json=json)
    examination = examine(found.written, question)
    if json:
        from counterpoint.report.flags.settings_json import check_json

        write_result(check_json(examination))
        return int(examination.failed)
    if not (found.written.given or found.written.issues or examination.remarks):
        _say(*nothing_lines(examination))
        return 0
    write_result("".join(f"{line}\n" for line in check_lines(examination, every=all)))
    following = _next(examination, source, given_words(used))
    _say(*summary_lines(examination, following, every=all))
    return int(examination.failed)


def _check_read(written: ParsedSource) -> None:
    """Raise an error for a text that sets something of which nothing could be read."""
    issues = [issue for issue in written.issues if issue.kind is not IssueKind.NAMES_FILE]
    if written.unread and not (written.given or issues):
        more = len(written.unread) - _NAMED
        named = [*written.unread[:_NAMED], *([f"and {more} more"] if more > 0 else [])]
        raise InputError(
            f"{written.where}: no settings could be read",
            why=f"not read: {'; '.join(named)}",
            next="use --form text",
        )


def _asker():  # noqa: ANN202 - flags.confirm.Ask
    from counterpoint.flags.option_probe import probe_compiler

    return probe_compiler


def _python_of(command: Sequence[str]) -> str | None:
    """Return the interpreter that a command starts, if it is named in the command and exists."""
    import shutil

    words = (word for word in command if Path(word).name.startswith("python"))
    return next((word for word in words if shutil.which(word)), None)


def _next(found: Examination, source: str | None, same: Sequence[str]) -> str:
    """Return the next useful command, for the same release and chip."""
    fixable = any(
        remark.fix and remark.fix.safe and remark.channel is not Channel.JAX_CONFIG
        for remark in found.standing
    )
    text = found.written.where == COMMAND_LINE or (source is not None and Path(source).is_file())
    if fixable and text and source is not None:
        return shlex.join(["counterpoint", "flags", "check", source, *same, "--fix"])
    if found.standing:
        return f"counterpoint explain-code {found.standing[0].code}"
    return ""


def _say(*lines: str) -> None:
    """Print to stderr, and in a terminal after the result."""
    flush_result()
    for line in lines:
        say_line(line)


def _is_program(word: str, following: str) -> bool:
    """Return whether a first word of several starts a program, rather than being a source.

    It has no file, as `python` on PATH, or its file is executable. Two scripts are two sources.
    """
    path = Path(word)
    if not path.exists():
        return True
    if not (path.is_file() and os.access(path, os.X_OK)):
        return False
    with path.open("rb") as file:
        is_script = file.read(2) == b"#!"
    return not (is_script and os.access(following, os.X_OK))
