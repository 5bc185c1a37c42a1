"""Sources of Settings that are to be applied: a user's file, or the name of a recipe.

A script is read by the same reader as in checks (parse/), but what a check would only remark on is
refused here: a value that needs a shell, a part that was not read, a setting within an `if`. A
guess would be a different setting.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from counterpoint.core import InputError, UsageError
from counterpoint.flags.jaxlib import installed_version
from counterpoint.flags.lines.known import refuse_bare_flag
from counterpoint.flags.named_files import LARGEST_SOURCE, beside, read_regular
from counterpoint.flags.parse.any_form import new_scan, scan_form
from counterpoint.flags.parse.form import sniff
from counterpoint.flags.parse.source import named_recipe, read_text
from counterpoint.flags.parse.traced import known
from counterpoint.flags.parsed import IssueKind, ParsedSource
from counterpoint.flags.recipe import read_recipe
from counterpoint.flags.settings import Settings
from counterpoint.flags.text import expand_xla_flags, parse_xla_flags

_TOLD_BY_NAME: Final = (".env", ".py", ".yaml", ".yml")
_WRITE_OUT: Final = "write the settings out as `counterpoint flags render` prints them"


def load_settings(
    source: str | Path, *, version: str | None = None, chip: str | None = None
) -> Settings:
    """Load a recipe or a file: TOML, flags as XLA takes them, or one of the rendered forms.

    A recipe is resolved for this version of jaxlib, by default the one installed here.
    """
    if isinstance(source, str) and (recipe := named_recipe(source)):
        if recipe.arguments and not recipe.lines:
            raise UsageError(
                f"{source}: this recipe has options of the trainer, and no flag or variable",
                why="a trainer reads them from its own command line",
                next=f"counterpoint flags render {source}",
            )
        return recipe.resolve(version or installed_version(), chip)
    path = Path(source)
    text = _read(path)
    if path.suffix == ".toml":
        settings = read_recipe(text, str(path)).resolve(version or installed_version(), chip)
    else:
        settings = _read_form(text, str(path))
    _refuse_bare_flags(settings, path)
    if settings == Settings():
        raise InputError(f"{path}: no settings found", next="add lines such as --xla_...=value")
    return settings


def _refuse_bare_flags(settings: Settings, path: Path) -> None:
    """Refuse flags without their prefix, which would be variables that nothing reads."""
    try:
        for name, value in settings.env:
            refuse_bare_flag(name, value)
    except UsageError as error:
        raise InputError(f"{path}: {error.what}", why=error.why, next=error.next) from None


def read_shell_settings(text: str, where: str) -> Settings:
    """Read the settings of a script, all of them known; without exports, all assignments count."""
    script = new_scan(where)
    script.certain = True
    scan_form(known(text, 1), script, "shell")
    assigned = list(script.assigned())
    for variable in assigned:
        for piece in variable.value.pieces:
            if not piece.known:
                raise InputError(
                    f"{where}:{piece.line}: `{piece.text}` needs a shell",
                    why="only variables of the file itself are substituted; commands are not run",
                    next="write the value out, or export it in the shell that starts Counterpoint",
                )
    for issue in script.issues:
        if issue.kind is IssueKind.STRAY:
            raise InputError(f"{issue.place}: {issue.text}: {issue.why}", next="put it in quotes")
    if doubtful := (*(f"not read: {part}" for part in script.unread), *script.doubts()):
        raise InputError(
            f"{where}: {doubtful[0]}",
            why="only settings that are certain to be set are applied",
            next="keep only lines such as `--xla_...=value` and `export NAME=value`",
        )
    flags: tuple[tuple[str, str], ...] = ()
    rest: list[tuple[str, str]] = []
    for variable in assigned:
        if variable.name == "XLA_FLAGS":
            here = f"{where}:{variable.value.line}"
            text = expand_xla_flags(variable.value.text, where=here, reach=beside(Path(where)))
            flags = parse_xla_flags(text, where=here)
        else:
            rest.append((variable.name, variable.value.text))
    return Settings(
        flags, tuple(rest), tuple((option.name, option.meant) for option in script.options)
    )


def _read_form(text: str, where: str) -> Settings:
    """Read a text in the form that its file name implies, by default as a shell script."""
    form = sniff(text, where) if where.endswith(_TOLD_BY_NAME) else "shell"
    if form == "env":
        return _read_env(text, where)
    return read_shell_settings(text, where) if form == "shell" else _read_certain(text, where)


def _read_env(text: str, where: str) -> Settings:
    """Read an env file literally, as docker does; with quotes or other lines, as a shell does."""
    written = read_text(text, where, form="env")
    if written.notes:
        return read_shell_settings(text, where)
    try:
        sourced = read_shell_settings(text, where)
    except InputError:
        sourced = None  # a value with spaces, for example: only the literal reading applies
    certain = _certain(written)
    if sourced is not None and (sourced.flags, sourced.variables) != (
        certain.flags,
        certain.variables,
    ):
        raise InputError(
            f"{where}: a shell and docker read this differently",
            why="docker reads each line literally, including a comment after a value",
            next="keep only lines NAME=value, and comments on separate lines",
        )
    return certain


def _read_certain(text: str, where: str) -> Settings:
    return _certain(read_text(text, where, reach=beside(Path(where))))


def _certain(written: ParsedSource) -> Settings:
    """Return the settings of a tolerant reader, if they are certain and complete."""
    for issue in written.issues:
        raise InputError(f"{issue.place}: {issue.text}: {issue.why}", next=_WRITE_OUT)
    doubtful = [
        f"{occurrence.name} is set within an `if`"
        for occurrence in written.given
        if occurrence.conditional
    ]
    doubtful += [*written.notes, *(f"not read: {text}" for text in written.unread)]
    doubtful += [
        f"{occurrence.name} is not certain" for occurrence in written.given if not occurrence.known
    ]
    doubtful += [
        f"{occurrence.name!r} is not a setting: {why}" for occurrence, why in written.refused
    ]
    if any(other.settings.flags != written.settings.flags for other in written.others):
        doubtful.append("several programs are started")
    if doubtful:
        raise InputError(
            f"{written.where}: {doubtful[0]}",
            why="only settings that are certain to be set are applied",
            next=_WRITE_OUT,
        )
    return written.settings


def _read(path: Path) -> str:
    try:
        data = read_regular(path, LARGEST_SOURCE)
    except FileNotFoundError:
        from counterpoint.flags.recipe import recipes

        raise UsageError(
            f"{path}: neither a file nor a recipe",
            why=f"the recipes are {', '.join(recipes())}",
            next="name a recipe, or a file with flags",
        ) from None
    except OSError as failure:
        raise InputError(f"{path}: can't be read: {failure.strerror or failure}") from None
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise InputError(f"{path}: not a text file", next="name a file with flags")
    return text
