"""The entry point of the package: settings in any source, read with their places.

    a file, `-`, flags as text      read_source    recognizes the form, or is given it
    a text in memory                read_text
    an environment                  read_variables (`--env`, a Run), read_process (`pid:123`)
    a command in words              read_command

Readers are tolerant: a fault becomes a SyntaxIssue, so that the rest can still be checked. Only
what is not text, or can't be parsed as a whole, is an error. To apply settings, use load_settings.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from counterpoint.core import ArgumentError, InputError, UsageError
from counterpoint.flags.named_files import (
    ANYWHERE,
    LARGEST,
    LARGEST_SOURCE,
    AllowedFiles,
    beside,
    read_regular,
)
from counterpoint.flags.parse.any_form import new_scan, scan_form
from counterpoint.flags.parse.flag_values import (
    AS_TEXT,
    Assignment,
    parse_assignments,
    read_flag_text,
    read_named_files,
)
from counterpoint.flags.parse.form import ALIASES, FORMS, SUFFIXES, sniff
from counterpoint.flags.parse.traced import known
from counterpoint.flags.parsed import (
    COMMAND_LINE,
    ENVIRONMENT,
    NSYS_VARIABLES,
    Location,
    ParsedSource,
)
from counterpoint.flags.settings import is_setting

if TYPE_CHECKING:
    from counterpoint.flags.recipe import Recipe

_NOWHERE: Final = AllowedFiles()
_MOST_SETTINGS: Final = 5_000
_PROCESS: Final = re.compile(r"pid:(\d+)")
_MEANT: Final = re.compile(
    r"\s*(?:-\S|[\N{HYPHEN}-\N{EM DASH}\N{MINUS SIGN}]|['\"]\s*--|(?:export\s+)?[A-Za-z_]\w*=)"
)
"""The start of a literal text of settings; an existing file of that name takes precedence."""


def read_source(
    source: str | Path,
    *,
    form: str | None = None,
    version: str | None = None,
    chip: str | None = None,
    allowed: Iterable[Path] = (),
) -> ParsedSource:
    """Read a source: a file, `-`, `pid:123`, a recipe, or literal flags.

    `form` forces one of FORMS instead of recognizing it. `version` and `chip` are those for which a
    recipe is resolved. Files that the source names are read if they are beside it, or in an
    `allowed` directory.
    """
    opened = open_source(source, form=form, allowed=allowed)
    if opened is not None:
        return opened.read(opened.text)
    if match := _PROCESS.fullmatch(str(source)):
        return read_process(int(match[1]))
    from counterpoint.flags.parse.files import write_recipe
    from counterpoint.flags.recipe import recipes

    return write_recipe(recipes()[str(source)], version, chip)


@dataclass(frozen=True, slots=True)
class SourceText:
    """A source that is text, exactly as it is: bytes that are not UTF-8 are surrogates."""

    where: str
    text: str
    form: str | None
    reach: AllowedFiles
    path: Path | None = None  # of a file

    def read(self, text: str) -> ParsedSource:
        """Read this text, or another version of it, as one of this source."""
        text = _decoded(text.encode(errors="surrogateescape"), self.where)
        parsed = read_text(text, self.where, form=self.form, reach=self.reach)
        if self.where == COMMAND_LINE:
            return _in_line(parsed)
        return _with_destination(parsed, text, self.path)


def open_source(
    source: str | Path, *, form: str | None = None, allowed: Iterable[Path] = ()
) -> SourceText | None:
    """Return the text of a file, of `-` or of literal flags; None of what is no text."""
    _check_form(form)
    if isinstance(source, str):
        reach = AllowedFiles().with_allowed(allowed)
        if source == "-":
            data = sys.stdin.buffer.read(LARGEST_SOURCE + 1)
            if len(data) > LARGEST_SOURCE:
                raise InputError(f"stdin: more than {LARGEST_SOURCE >> 20} MiB")
            return SourceText("stdin", data.decode(errors="surrogateescape"), form, reach)
        if _PROCESS.fullmatch(source):
            return None
        if _MEANT.match(source) and not _is_file(Path(source)):
            return SourceText(COMMAND_LINE, source, form, ANYWHERE)
        if not source.strip():
            raise UsageError("the source is empty", next="name a file, or give flags in quotes")
        if named_recipe(source):
            return None
    path = Path(source)
    text = _content(path).decode(errors="surrogateescape")
    return SourceText(str(path), text, form, beside(path).with_allowed(allowed), path)


def _with_destination(written: ParsedSource, text: str, path: Path | None) -> ParsedSource:
    """Add the release and the chip that a launch file names; flags alone say nothing of them."""
    if written.form in ("flags", "toml"):
        return written
    from counterpoint.flags.parse.destination import machine_of, pin_beside, pin_of

    page = written.form == "markdown"
    pin = pin_of(text, written.where, page=page) or (pin_beside(path) if path else None)
    return replace(written, pin=pin, machine=machine_of(text, written.where, page=page))


def named_recipe(source: str) -> Recipe | None:
    """Return the recipe of this name; a file of the same name takes precedence."""
    if not re.fullmatch(r"[\w.-]+", source) or Path(source).is_file():
        return None
    from counterpoint.flags.recipe import recipes  # slow, and needed for names only

    return recipes().get(source)


def read_text(
    text: str, where: str, *, form: str | None = None, reach: AllowedFiles = _NOWHERE
) -> ParsedSource:
    """Read a text; `where` is its name, whose suffix may determine the form."""
    _check_form(form)
    guessed = form is None
    form = ALIASES.get(form, form) if form else sniff(text, where)
    if len(text) > LARGEST:
        raise InputError(f"{where}: more than {LARGEST >> 20} MiB of text: no settings")
    if form == "python" and len(text) > LARGEST // 2:  # its parser takes 700 bytes for each
        raise InputError(f"{where}: more than {LARGEST >> 11} KiB of Python: no settings")
    try:
        written = read_named_files(_read(text, where, form), reach)
    except RecursionError:
        raise InputError(f"{where}: nested too deeply", next=AS_TEXT) from None
    except InputError as failure:
        if not guessed or form != "shell" or Path(where).suffix.lower() in SUFFIXES:
            raise
        why = f"it was read as a shell script; {failure.next}, if it is one"
        raise InputError(failure.what, why=why, next=AS_TEXT) from None
    for program in written.programs:  # the rules check each program, and would take minutes
        if len(program.given) > _MOST_SETTINGS:
            raise InputError(
                f"{where}: {len(program.given)} settings in one program; at most"
                f" {_MOST_SETTINGS} are checked",
                next="name the file that sets the flags of one program",
            )
    if guessed and form == "shell" and (line := _comment_in_flags(text)):
        note = (
            f"line {line} is a comment: if XLA_FLAGS names this file, XLA stops reading there"
            " (--form flags reads it that way)"
        )
        written = replace(written, notes=(*written.notes, note))
    return written


def _comment_in_flags(text: str) -> int | None:
    """Return the first comment's line in a text of flags: a shell skips comments, XLA does not."""
    lines = [line.lstrip() for line in text.splitlines()]
    if not all(line.startswith(("--", "#")) for line in lines if line) or "--" not in text:
        return None
    return next((at for at, line in enumerate(lines, 1) if line.startswith("#")), None)


def read_variables(
    variables: Mapping[str, str],
    where: str = ENVIRONMENT,
    *,
    form: str = "environment",
    directory: Path | None = None,
    reach: AllowedFiles = ANYWHERE,
) -> ParsedSource:
    """Read an environment. `directory` is where its process runs; flag files are relative to it.

    Variables that are not settings (PATH, HOME) are left out.
    """
    assigned = [
        Assignment(name, known(value)) for name, value in variables.items() if is_setting(name)
    ]
    parsed = parse_assignments(assigned, where)
    written = ParsedSource(
        where=where,
        form=form,
        given=tuple(parsed.given),
        issues=tuple(parsed.issues),
        nsys=any(variables.get(name) for name in NSYS_VARIABLES),
    )
    return read_named_files(written, reach, directory=directory)


def read_process(pid: int) -> ParsedSource:
    """Read the initial environment of a running process, as Linux keeps it."""
    path = Path(f"/proc/{pid}/environ")
    try:
        data = path.read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        raise UsageError(
            f"pid:{pid}: no such process",
            why="pid:NUMBER names a process on this machine",
            next="pgrep -af python",
        ) from None
    except PermissionError:
        raise InputError(
            f"pid:{pid}: permission denied",
            why="only its owner and root may read its environment",
            next=f"run as its owner, e.g. sudo cat {path}",
        ) from None
    except OSError as failure:
        raise InputError(f"pid:{pid}: can't be read: {failure.strerror or failure}") from None
    try:
        directory = Path(f"/proc/{pid}/cwd").readlink()
    except OSError:
        directory = None
    entries = data.decode(errors="replace").split("\0")
    variables = dict(entry.split("=", 1) for entry in entries if "=" in entry)
    return read_variables(variables, f"pid:{pid}", form="process", directory=directory)


def read_command(
    words: Sequence[str], inherited: Mapping[str, str], *, allowed: Iterable[Path] = ()
) -> ParsedSource:
    """Read what a command inherits: the environment, and `NAME=value` before it, also after `env`.

    A command that starts a shell script or a Slurm job is read with that script.
    """
    from counterpoint.flags.parse.shell import scan_words

    name, script = _script(words) or (COMMAND_LINE, None)
    scan = new_scan(name)
    scan.whole = True
    for variable, value in inherited.items():
        if is_setting(variable):
            scan.exported.add(variable)
            scan.assign(variable, known(value, where=ENVIRONMENT), 0)
    form = scan_words(words, scan, None if script is None else known(script, 1))
    written = scan.parsed(form, script or "")
    reach = beside(Path(written.where)).with_allowed(allowed)
    return read_named_files(written, reach, own=(COMMAND_LINE, ENVIRONMENT))


def _script(words: Sequence[str]) -> tuple[str, str] | None:
    """Return name and text of the shell script that is started, if there is one."""
    for word in words:
        try:
            text = read_regular(Path(word)).decode()
        except (OSError, ValueError):
            continue
        if sniff(text, word) == "shell":
            return word, text
    return None


def _in_line(written: ParsedSource) -> ParsedSource:
    """Drop the line numbers of a one-line text."""
    places = [item.place for item in (*written.given, *written.issues)]
    if any(place.line != 1 for place in places if place.where == COMMAND_LINE):
        return written
    place = Location(COMMAND_LINE)
    given = (
        replace(occurrence, place=place) if occurrence.place.where == COMMAND_LINE else occurrence
        for occurrence in written.given
    )
    issues = (
        replace(
            issue,
            place=place,
            lost=tuple(replace(occurrence, place=place) for occurrence in issue.lost),
        )
        if issue.place.where == COMMAND_LINE
        else issue
        for issue in written.issues
    )
    return replace(written, given=tuple(given), issues=tuple(issues))


def _read(text: str, where: str, form: str) -> ParsedSource:
    if form == "flags":
        return read_flag_text(text, where)
    if form == "toml":
        from counterpoint.flags.parse.files import read_toml

        return read_toml(text, where)
    scan = new_scan(where)
    label = scan_form(known(text, 1), scan, form)
    return scan.parsed(label, text)


def _check_form(form: str | None) -> None:
    if form is not None and form not in (*FORMS, *ALIASES):
        raise ArgumentError(
            "form", form, "no such form", why=f"the forms are {', '.join(FORMS)}", instead="text"
        )


def _is_file(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # a name too long, or with a zero byte
        return False


def _content(path: Path) -> bytes:
    try:
        return read_regular(path, LARGEST_SOURCE)
    except FileNotFoundError:
        raise InputError(
            f"{path}: neither a file nor a recipe",
            why="a source is a file, `-`, `pid:NUMBER`, a recipe's name, or flags in quotes",
            next="counterpoint flags check 'XLA_FLAGS=--xla_...'",
        ) from None
    except IsADirectoryError:
        raise InputError(
            f"{path}: a directory, but not a Run",
            next="name the file in it that sets XLA_FLAGS",
        ) from None
    except (OSError, ValueError) as failure:
        reason = getattr(failure, "strerror", None) or failure
        raise InputError(f"{path}: can't be read: {reason}") from None


def _decoded(data: bytes, where: str) -> str:
    text = data.decode("utf-8-sig", errors="replace")
    strange = text.count("\N{REPLACEMENT CHARACTER}")
    if "\0" in text or strange * 20 > len(text):
        raise InputError(
            f"{where}: not a text file",
            why="settings are read from text: scripts, manifests, flag files",
            next="name the script that starts the program",
        )
    return text.replace("\r\n", "\n")
