"""Where Settings come from: a file of the user's, or a recipe by its name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from counterpoint.core.errors import InputError, UsageError
from counterpoint.flags.advice.recipe import recipes
from counterpoint.flags.advice.recipe_text import read_recipe
from counterpoint.flags.settings import Settings
from counterpoint.flags.shell import read_script
from counterpoint.flags.xla_flags import expand_xla_flags, parse_xla_flags


def load_settings(
    source: str | Path, *, version: str | None = None, chip: str | None = None
) -> Settings:
    """Settings of a recipe or a file: TOML, flags as XLA takes them, or lines of a shell script.

    A recipe holds for the jaxlib of that version; if none is said, for the one installed here.
    """
    if isinstance(source, str) and source in recipes():
        return recipes()[source].resolve(version or installed_jaxlib(), chip)
    path = Path(source)
    text = _read(path)
    if path.suffix == ".toml":
        settings = read_recipe(text, str(path)).resolve(version or installed_jaxlib(), chip)
    else:
        settings = _settings(read_script(text, str(path)))
    if settings == Settings():
        raise InputError(f"{path}: no settings in it", next="add lines such as --xla_...=value")
    return settings


def installed_jaxlib() -> str | None:
    """The version of the jaxlib beside this Counterpoint; None where there is none."""
    from importlib import metadata  # dear, and needed for recipes only

    try:
        return metadata.version("jaxlib")
    except metadata.PackageNotFoundError:
        return None


def _settings(variables: Mapping[str, str]) -> Settings:
    rest = {name: value for name, value in variables.items() if name != "XLA_FLAGS"}
    flags = expand_xla_flags(variables.get("XLA_FLAGS", ""))
    return Settings(parse_xla_flags(flags), tuple(rest.items()))


def _read(path: Path) -> str:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise UsageError(
            f"{path}: neither a file nor a recipe",
            why=f"the recipes are {', '.join(recipes())}",
            next="name one of them, or a file with flags",
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
