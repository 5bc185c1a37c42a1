"""Settings as they stand somewhere, read with their places: the door to all readers.

    a file, `-`, flags as text      read_written   sniffs the form, or is told it
    a text that is already there    read_text
    an environment                  read_variables (`--env`, a Run), read_process (`pid:123`)

Readers are tolerant: a fault becomes a Slip, so that the rest can still be checked. Only what is
not text, or can't be parsed as a whole, is an error. To apply settings, use load_settings.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from counterpoint.core.errors import InputError, UsageError
from counterpoint.flags.named_files import (
    ANYWHERE,
    LARGEST,
    LARGEST_SOURCE,
    Reach,
    beside,
    read_regular,
)
from counterpoint.flags.sources.flag_files import with_files
from counterpoint.flags.sources.mentions import mentions
from counterpoint.flags.sources.sniff import ALIASES, FORMS, sniff
from counterpoint.flags.written import COMMAND_LINE, ENVIRONMENT, Place, Written

_NOWHERE: Final = Reach()
_MOST_SETTINGS: Final = 5_000
_PROCESS: Final = re.compile(r"pid:(\d+)")
_FLAGS: Final = re.compile(
    r"\s*(?:-\S|[\N{HYPHEN}-\N{EM DASH}\N{MINUS SIGN}]|['\"]\s*--|(?:export\s+)?[A-Za-z_]\w*=)"
)
"""What begins so is meant, not named; a file's name wins where there is one."""


def read_written(
    source: str | Path,
    *,
    form: str | None = None,
    version: str | None = None,
    allowed: Iterable[Path] = (),
) -> Written:
    """What a source says: a file, `-`, `pid:123`, a recipe, or flags as they stand.

    `form` forces one of FORMS instead of sniffing. `version` is the jaxlib a recipe is read for.
    Files that the source names are read where they lie beside it, or in an `allowed` directory.
    """
    reach = Reach().with_allowed(allowed)
    _check_form(form)
    if isinstance(source, str):
        if source == "-":
            data = sys.stdin.buffer.read(LARGEST_SOURCE + 1)
            if len(data) > LARGEST_SOURCE:
                raise InputError(f"stdin: more than {LARGEST_SOURCE >> 20} MiB")
            return read_text(_decoded(data, "stdin"), "stdin", form=form, reach=reach)
        if match := _PROCESS.fullmatch(source):
            return read_process(int(match[1]))
        if _FLAGS.match(source) and not _is_file(Path(source)):
            return _in_line(read_text(source, COMMAND_LINE, form=form, reach=ANYWHERE))
        if not source.strip():
            raise UsageError("an empty text: no settings", next="name a file, or flags in quotes")
        if is_recipe(source):
            return _recipe(source, version)
    path = Path(source)
    text = _decoded(_content(path), str(path))
    return read_text(text, str(path), form=form, reach=beside(path).with_allowed(allowed))


def read_text(
    text: str, where: str, *, form: str | None = None, reach: Reach = _NOWHERE
) -> Written:
    """What a text says; `where` is its name, by whose suffix the form is known, too."""
    _check_form(form)
    guessed = form is None
    form = ALIASES.get(form, form) if form else sniff(text, where)
    if len(text) > (LARGEST_SOURCE if form == "notebook" else LARGEST):
        raise InputError(f"{where}: more than {LARGEST >> 20} MiB of text: no settings")
    try:
        written = with_files(_reader(form)(text, where), reach)
    except RecursionError:
        raise InputError(
            f"{where}: nested too deep to be read", next="--form text finds flags in any text"
        ) from None
    _check_count(written, where)
    if guessed and form == "shell":
        written = _with_comments_noted(written, text)
    if written.given or written.slips or written.unread:
        return written
    return replace(written, unread=mentions(text, prose=form == "text"))


def _check_count(written: Written, where: str) -> None:
    """Each rule looks at each setting: no program has so many, and the rules would take minutes."""
    for program in written.programs:
        if len(program.given) > _MOST_SETTINGS:
            raise InputError(
                f"{where}: {len(program.given)} settings: no more than {_MOST_SETTINGS} of one"
                " program are looked at",
                next="name the file that sets the flags of one program",
            )


def _with_comments_noted(written: Written, text: str) -> Written:
    """Of flags with comments: a shell takes the comments away, and XLA does not."""
    from counterpoint.flags.sources.flag_text import comment_in_flags

    line = comment_in_flags(text)
    if line is None:
        return written
    note = (
        f"line {line} is a comment: if XLA_FLAGS names this file, XLA stops reading there"
        " (--form flags reads it so)"
    )
    return replace(written, notes=(*written.notes, note))


def read_variables(
    variables: Mapping[str, str],
    where: str,
    *,
    form: str = "environment",
    directory: Path | None = None,
    reach: Reach = ANYWHERE,
) -> Written:
    """What an environment says. `directory` is where its process runs: a flag file lies there.

    Variables that set nothing about training (PATH, HOME) are left out.
    """
    from counterpoint.flags.sources.traced import known
    from counterpoint.flags.sources.variables import Assigned, is_setting, write_up

    assigned = [
        Assigned(name, known(value)) for name, value in variables.items() if is_setting(name)
    ]
    found = write_up(assigned, where)
    written = Written(where=where, form=form, given=tuple(found.given), slips=tuple(found.slips))
    return with_files(written, reach, directory=directory)


def read_process(pid: int) -> Written:
    """What the environment of a running process said when it started."""
    from counterpoint.flags.sources.process import process_directory, process_environment

    variables = process_environment(pid)
    return read_variables(variables, f"pid:{pid}", form="process", directory=process_directory(pid))


def read_command(
    words: Sequence[str], inherited: Mapping[str, str], *, allowed: Iterable[Path] = ()
) -> Written:
    """What a command would get: the environment, and `NAME=value` before it, also behind `env`.

    A command that starts with a shell script or a Slurm job is read as that script, too.
    """
    from counterpoint.flags.sources.command_line import read_command_line

    written = read_command_line(words, inherited)
    reach = beside(Path(written.where)).with_allowed(allowed)
    return with_files(written, reach, own=(COMMAND_LINE, ENVIRONMENT))


def _in_line(written: Written) -> Written:
    """A text of one line has no lines to name."""
    places = [one.place for one in (*written.given, *written.slips)]
    if any(place.line != 1 for place in places if place.where == COMMAND_LINE):
        return written
    place = Place(COMMAND_LINE)
    return replace(
        written,
        given=tuple(
            replace(it, place=place) if it.place.where == COMMAND_LINE else it
            for it in written.given
        ),
        slips=tuple(
            replace(it, place=place, lost=tuple(replace(one, place=place) for one in it.lost))
            if it.place.where == COMMAND_LINE
            else it
            for it in written.slips
        ),
    )


def _reader(form: str) -> Callable[[str, str], Written]:
    """Loaded when used: yaml and ast cost time at every start."""
    if form in ("shell", "slurm"):
        from counterpoint.flags.sources.shell_source import read_shell as read
    elif form == "python":
        from counterpoint.flags.sources.python_source import read_python as read
    elif form == "yaml":
        from counterpoint.flags.sources.yaml_source import read_yaml as read
    elif form == "env":
        from counterpoint.flags.sources.env_file import read_env_file as read
    elif form == "toml":
        from counterpoint.flags.sources.toml_source import read_toml as read
    elif form == "docker":
        from counterpoint.flags.sources.docker_source import read_docker as read
    elif form == "flags":
        from counterpoint.flags.sources.flag_text import read_flag_text as read
    elif form == "notebook":
        from counterpoint.flags.sources.notebook import read_notebook

        return partial(read_notebook, reader=_reader)
    else:
        from counterpoint.flags.sources.document import read_document

        return partial(read_document, reader=_reader)
    return read


def is_recipe(source: str) -> bool:
    """Whether it is the name of a recipe; a file of this name comes first."""
    if _is_file(Path(source)) or not re.fullmatch(r"[\w.-]+", source):
        return False
    from counterpoint.flags.advice.recipe import recipes

    return source in recipes()


def _recipe(name: str, version: str | None) -> Written:
    from counterpoint.flags.advice.recipe import recipes
    from counterpoint.flags.sources.toml_source import write_recipe

    return write_recipe(recipes()[name], version)


def _check_form(form: str | None) -> None:
    if form is not None and form not in (*FORMS, *ALIASES):
        raise UsageError(f"--form {form}: no such form", why=f"the forms are {', '.join(FORMS)}")


def _is_file(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # a name too long, or with a zero byte
        return False


def _content(path: Path) -> bytes:
    try:
        return read_regular(path, LARGEST_SOURCE)
    except FileNotFoundError:
        raise UsageError(
            f"{path}: neither a file nor a recipe",
            why="a source is a file, `-`, `pid:NUMBER`, a recipe's name, or flags in quotes",
            next="counterpoint flags check 'XLA_FLAGS=--xla_...'",
        ) from None
    except IsADirectoryError:
        raise UsageError(
            f"{path}: a directory, and no Run",
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
