"""Settings as a TOML file: a user's own, or a recipe that comes with Counterpoint.

about = "One sentence."              # recipes: what it is for
source = "https://..."               # recipes: who recommends it

[xla_flags]                          # names without dashes
xla_gpu_enable_triton_gemm = false
xla_gpu_enable_command_buffer = { value = "", reason = "..." }

[env]                                # JAX, NCCL, CUDA, allocator
NCCL_DEBUG = "WARN"

[left_out]                           # recipes: what the source has and this has not, and why
xla_gpu_enable_all_gather_combine_by_dim = "false is the default"
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Final, cast

from counterpoint.core.errors import InputError
from counterpoint.flags.settings import Settings

_TABLES: Final = ("about", "source", "xla_flags", "env", "left_out")


@dataclass(frozen=True, slots=True)
class Line:
    """One setting of a recipe."""

    name: str
    value: str
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Recipe:
    """Settings with what they are for and who says so."""

    name: str
    about: str = ""
    source: str = ""
    flags: tuple[Line, ...] = ()
    variables: tuple[Line, ...] = ()
    left_out: tuple[tuple[str, str], ...] = ()

    @property
    def settings(self) -> Settings:
        return Settings(
            tuple((line.name, line.value) for line in self.flags),
            tuple((line.name, line.value) for line in self.variables),
        )


@cache
def recipes() -> Mapping[str, Recipe]:
    """All recipes that come with Counterpoint, by name."""
    directory = resources.files("counterpoint.flags").joinpath("recipes")
    files = {entry.name: entry for entry in directory.iterdir()}
    found = (
        read_recipe(files[name].read_text("utf-8"), name)
        for name in sorted(files)
        if name.endswith(".toml")
    )
    return {recipe.name: recipe for recipe in found}


def read_recipe(text: str, where: str) -> Recipe:
    """The settings in a TOML text; `where` is its file."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as failure:
        raise InputError(f"{where}: not TOML: {failure}") from None
    for key in document:
        if key not in _TABLES:
            raise InputError(
                f"{where}: `{key}` is not known there",
                why=f"known are {', '.join(_TABLES)}",
                next="put flags under [xla_flags] and variables under [env]",
            )
    if "XLA_FLAGS" in document.get("env", {}):
        raise InputError(f"{where}: XLA_FLAGS under [env]", next="write flags under [xla_flags]")
    return Recipe(
        where.rpartition("/")[2].removesuffix(".toml"),
        about=_text(document, "about", where),
        source=_text(document, "source", where),
        flags=_lines(document, "xla_flags", where),
        variables=_lines(document, "env", where),
        left_out=tuple((line.name, line.value) for line in _lines(document, "left_out", where)),
    )


def _text(document: Mapping[str, Any], key: str, where: str) -> str:
    value = document.get(key, "")
    if not isinstance(value, str):
        raise InputError(f"{where}: {key} is not a text: {value!r}")
    return value


def _lines(document: Mapping[str, Any], table: str, where: str) -> tuple[Line, ...]:
    entries = document.get(table, {})
    if not isinstance(entries, dict):
        raise InputError(f"{where}: {table} is not a table", next=f"write it as [{table}]")
    items = cast("dict[str, Any]", entries).items()
    return tuple(_line(name, entry, f"{where}: {table}.{name}") for name, entry in items)


def _line(name: str, entry: Any, where: str) -> Line:  # noqa: ANN401 - whatever TOML holds
    if not name.replace("_", "").isalnum() or not name.isascii():
        raise InputError(f"{where}: not a name", next="names go without dashes and quotes")
    if not isinstance(entry, dict):
        return Line(name, _value(entry, where))
    fields = cast("dict[str, Any]", entry)
    if "value" not in fields or set(fields) - {"value", "reason"}:
        raise InputError(
            f"{where}: a table with {', '.join(fields) or 'nothing'} in it",
            next=f'{name} = {{ value = "...", reason = "..." }}',
        )
    return Line(name, _value(fields["value"], where), str(fields.get("reason", "")) or None)


def _value(value: Any, where: str) -> str:  # noqa: ANN401 - whatever TOML holds
    """As XLA and the environment write it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    if isinstance(value, list):
        return ",".join(_value(item, where) for item in cast("list[Any]", value))
    raise InputError(
        f"{where}: can't be a value: {value!r}",
        why="values are texts, numbers, true, false, and lists of these",
    )
