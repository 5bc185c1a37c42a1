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
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
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
from counterpoint.flags.parse.flag_values import (
    AS_TEXT,
    Assignment,
    parse_assignments,
    read_flag_text,
    read_named_files,
)
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
FORMS: Final = (*("flags", "shell", "slurm", "python", "yaml", "env", "toml", "docker", "text"),)
"""The forms that a source can be declared to have."""
ALIASES: Final = {"bash": "shell", "k8s": "yaml", "compiler_options": "python"}
"""Alternative names of forms."""

_SUFFIXES: Final = {
    **dict.fromkeys((".sh", ".bash", ".zsh", ".ksh"), "shell"),
    **dict.fromkeys((".sbatch", ".slurm", ".sub", ".job"), "shell"),
    **dict.fromkeys((".yaml", ".yml", ".tpl"), "yaml"),
    **dict.fromkeys((".md", ".rst", ".log", ".html", ".adoc"), "text"),
    ".py": "python",
    ".toml": "toml",
}
_DOCKER_FILE: Final = re.compile(r"(?:docker|container)file(?:[.-][\w.-]+)?$", re.IGNORECASE)
_DOCKER: Final = re.compile(r"\A(?:[ \t\r]*+(?:#[^\n]*+)?\n|ARG [^\n]*+\n)*+FROM[ \t]+[\w.${/-]")
_SOURCED: Final = re.compile(
    r"^[ \t]*(?:export|set|unset|source|\.|echo|if|declare)\s|\\[ \t]*$"
    r"|^[ \t]*\w+=(?:\"[^\"\n]*|'[^'\n]*)$",
    re.MULTILINE,
)
"""Lines that a shell accepts, but not a docker env file."""
_COMMENTS: Final = re.compile(r"\A(?:[ \t]*+(?:#[^\n]*+)?\n)*+")
_ALL_FLAGS: Final = re.compile(
    r"\s*(?!---\s)(?:[-\N{HYPHEN}-\N{EM DASH}\N{MINUS SIGN}]+\w|['\"]\s*--|(?:xla|tf)_\w+)"
)
_ASSIGNED: Final = re.compile(r"^[ \t]*(?:#|export |[A-Z_]+=)", re.MULTILINE)
_PROGRAM: Final = re.compile(
    r"^[ \t]*(?:import \w|from [\w.]+ import |os\.environ|jax\.config|@|def \w+\(|class \w"
    r"|(?=\w*compiler_options)\w++[ \t]*(?::[^=\n]+)?=|\w+[ \t]*=\s*\{\s*(['\"])[\w.-]+\1\s*:)",
    re.MULTILINE,
)
_YAML: Final = re.compile(r"^(?:---|apiVersion:|kind:|[\w.-]+:(?:[ \t].*)?$)", re.MULTILINE)
_TOML: Final = re.compile(r"^\[(?:xla_flags|env)\]\s*$", re.MULTILINE)
_SCRIPT: Final = re.compile(
    r"^[ \t]*(?:#!.*sh\b|#SBATCH|export |unset |set -"
    r"|(?:\w++=\S*+[ \t]++)*+(?:srun|mpirun|mpiexec|python[\d.]*|env|uvx?|poetry|torchrun|nsys)\s)",
    re.MULTILINE,
)
_BY_CONTENT: Final = (
    *(("docker", _DOCKER), ("toml", _TOML)),
    *(("shell", _SCRIPT), ("python", _PROGRAM)),
)
_SET_LINE: Final = re.compile(r"(?:export[ \t]+)?[A-Za-z_]\w*=")
_SET_QUOTED: Final = re.compile(r"[A-Za-z_]\w*\+?=(?:['\"$(]|\S*$)")


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
    reach = AllowedFiles().with_allowed(allowed)
    _check_form(form)
    if isinstance(source, str):
        if source == "-":
            data = sys.stdin.buffer.read(LARGEST_SOURCE + 1)
            if len(data) > LARGEST_SOURCE:
                raise InputError(f"stdin: more than {LARGEST_SOURCE >> 20} MiB")
            return read_text(_decoded(data, "stdin"), "stdin", form=form, reach=reach)
        if match := _PROCESS.fullmatch(source):
            return read_process(int(match[1]))
        if _MEANT.match(source) and not _is_file(Path(source)):
            return _in_line(read_text(source, COMMAND_LINE, form=form, reach=ANYWHERE))
        if not source.strip():
            raise UsageError("the source is empty", next="name a file, or give flags in quotes")
        if recipe := named_recipe(source):
            from counterpoint.flags.parse.files import write_recipe

            return write_recipe(recipe, version, chip)
    path = Path(source)
    text = _decoded(_content(path), str(path))
    return read_text(text, str(path), form=form, reach=beside(path).with_allowed(allowed))


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
        written = read_named_files(_reader(form)(text, where), reach)
    except RecursionError:
        raise InputError(f"{where}: nested too deeply", next=AS_TEXT) from None
    except InputError as failure:
        if not guessed or form != "shell" or Path(where).suffix.lower() in _SUFFIXES:
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
            " (`form=flags` reads it that way)"
        )
        written = replace(written, notes=(*written.notes, note))
    if written.given or written.issues or written.unread:
        return written
    from counterpoint.flags.parse.any_text import mentions

    return replace(written, unread=mentions(text, prose=form == "text"))


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
    found = parse_assignments(assigned, where)
    written = ParsedSource(
        where=where,
        form=form,
        given=tuple(found.given),
        issues=tuple(found.issues),
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
    from counterpoint.flags.parse.shell import read_words

    before = {
        name: known(value, where=ENVIRONMENT)
        for name, value in inherited.items()
        if is_setting(name)
    }
    written = read_words(words, COMMAND_LINE, before, _script(words))
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


def _reader(form: str) -> Callable[[str, str], ParsedSource]:
    """Return the reader of a form, imported on use: yaml and ast would slow down every start."""
    match form:
        case "shell" | "slurm":
            from counterpoint.flags.parse.shell import read_shell

            return read_shell
        case "python":
            from counterpoint.flags.parse.python import read_python

            return read_python
        case "yaml":
            from counterpoint.flags.parse.manifest import read_yaml

            return read_yaml
        case "env" | "toml" | "docker":
            from counterpoint.flags.parse.files import read_docker, read_env_file, read_toml

            return {"env": read_env_file, "toml": read_toml, "docker": read_docker}[form]
        case "flags":
            return read_flag_text
        case _:
            from counterpoint.flags.parse.any_text import read_any_text

            return read_any_text


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


def sniff(text: str, where: str) -> str:
    """Recognize the form, one of FORMS."""
    name = Path(where).name
    suffix = Path(where).suffix.lower()
    if suffix == ".ipynb":
        raise InputError(
            f"{where}: notebooks are not read", next=f"jupyter nbconvert --to=script {where}"
        )
    if name == ".env" or suffix == ".env":
        return "shell" if _SOURCED.search(text) else "env"
    if suffix == ".dockerfile" or (suffix not in _SUFFIXES and _DOCKER_FILE.search(name)):
        return "docker"
    if known := _SUFFIXES.get(suffix):
        return known
    return _by_content(text)


def _by_content(text: str) -> str:
    bare = _COMMENTS.sub("", text)
    if _ALL_FLAGS.match(bare):
        return "flags" if bare == text and not _ASSIGNED.search(text) else "shell"
    if re.match(r"#!.*python", text):
        return "python"
    for form, pattern in _BY_CONTENT:
        if pattern.search(text):
            return form
    lines = [line.strip() for line in text.splitlines()]
    lines = [line for line in lines if line and not line.startswith("#")]
    if lines and all(_SET_LINE.match(line) for line in lines):
        return _assignments(lines)
    if lines and _SET_LINE.match(lines[0]):
        return "shell"
    return "yaml" if _YAML.search(text) else "text"


def _names_several(line: str) -> bool:
    """Return whether a line sets several variables, as only a shell does: `A=1 B=2`."""
    found = [match for match in map(_SET_LINE.match, line.split()) if match]
    names = [match[0].removesuffix("=") for match in found]
    return len(names) > 1 and len(names) == len(line.split()) and all(map(is_setting, names))


def _assignments(lines: list[str]) -> str:
    """Return the form of NAME=value lines: one XLA_FLAGS line is `flags`, more are an env file."""
    if all(_SET_QUOTED.match(line) for line in lines) or any(map(_names_several, lines)):
        return "shell"
    return "flags" if len(lines) == 1 and "FLAGS=" in lines[0] else "env"
