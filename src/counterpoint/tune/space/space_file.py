"""A user's file about the space: dimensions to add, fix, narrow and drop, and manual arms.

    drop = ["NCCL channels", "cublas-gemm"]  # dimensions and recipes that are not tried
    only = ["all-gather threshold", "fsdp"]  # ... or the only ones that are; [] for manual arms

    [fix]                                    # joins the base
    "overlap limit" = 2

    [choices]                                # only these of a dimension
    "all-gather threshold" = ["256 MiB", "1 GiB"]

    [dimension."my threshold"]               # see dimensions.py
    choices = { small = "--xla_gpu_x=1", large = "--xla_gpu_x=2" }

    [arms]                                   # a manual sweep: a name, and flags and variables
    nvls = "NCCL_NVLS_ENABLE=1"
    both = { xla_flags = "--xla_gpu_x=1", env = { NCCL_NVLS_ENABLE = 1 }, recipe = "fsdp" }

A file whose name ends in .json has the same in JSON. A file with none of these keys is a sweep as a
whole: names of arms, each with its settings; or a list of tables with a `name`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, cast

from counterpoint.core import InputError, parse_json, parse_toml
from counterpoint.core.opening import read_input
from counterpoint.flags.settings import Settings
from counterpoint.tune.arm import BASE, Per
from counterpoint.tune.space.dimensions import Draft, read_draft
from counterpoint.tune.space.values import (
    KEYS,
    ValuePlace,
    nearest,
    settings_of_line,
    settings_of_table,
)

_TABLES: Final = ("fix", "drop", "only", "choices", "dimension", "arms")
_ARM: Final = (*KEYS, "recipe", "profile", "per")
_EXAMPLE: Final = 'nvls = "NCCL_NVLS_ENABLE=1"'


@dataclass(frozen=True, slots=True, kw_only=True)
class HandArm:
    """A manual arm: recipes in their order, then settings; `options` are of the command."""

    name: str
    settings: Settings
    recipes: tuple[str, ...] = ()
    profile: bool = False
    per: Per | None = None
    options: tuple[tuple[str, ...], ...] = ()
    place: ValuePlace


@dataclass(frozen=True, slots=True, kw_only=True)
class SpaceFile:
    """The contents of a file; `only` is None if all dimensions and recipes are tried."""

    file: str
    fix: Mapping[str, str] = field(default_factory=dict[str, str])
    drop: tuple[str, ...] = ()
    only: tuple[str, ...] | None = None
    choices: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    drafts: tuple[Draft, ...] = ()
    arms: tuple[HandArm, ...] = ()

    @property
    def place(self) -> ValuePlace:
        return ValuePlace(self.file)


def read_space(path: Path) -> SpaceFile:
    """Read the file."""
    try:
        text = read_input(path).decode()
    except FileNotFoundError:
        raise InputError(
            f"{path}: no such file", next="docs/reference/tune-space.md has an example"
        ) from None
    except OSError as failure:
        raise InputError(f"{path} can't be read: {failure.strerror or failure}") from None
    except UnicodeDecodeError:
        raise InputError(f"{path} is not text", why="it must be TOML or JSON in UTF-8") from None
    return parse_space(text, str(path))


def parse_space(text: str, file: str) -> SpaceFile:
    """Parse the text of a file; a name ending in .json means JSON."""
    place = ValuePlace(file)
    document = _json(text, file) if file.casefold().endswith(".json") else _toml(text, file)
    if isinstance(document, list):
        return SpaceFile(file=file, arms=_arms(cast("list[Any]", document), place))
    table = place.table(document, _EXAMPLE)
    if _is_sweep(table):
        return SpaceFile(file=file, arms=_arms(table, place))
    place.keys_of(table, _TABLES)
    drop = place.at("drop")
    only = place.at("only")
    return SpaceFile(
        file=file,
        fix=_fix(table, place.at("fix")),
        drop=drop.texts(table.get("drop", [])),
        only=only.texts(table["only"]) if "only" in table else None,
        choices=_choices(table, place.at("choices")),
        drafts=_drafts(table, place.at("dimension")),
        arms=_arms(table.get("arms", {}), place.at("arms")),
    )


def _toml(text: str, file: str) -> object:
    try:
        return parse_toml(text)
    except ValueError as failure:
        raise InputError(
            f"{file}: not TOML: {failure}", next="docs/reference/tune-space.md has an example"
        ) from None


def _json(text: str, file: str) -> object:
    def once(pairs: list[tuple[str, object]]) -> dict[str, object]:
        found: dict[str, object] = {}
        for key, value in pairs:
            if key in found:
                raise InputError(f"{file}: `{key}` occurs twice", next="rename one of them")
            found[key] = value
        return found

    try:
        return parse_json(text, pairs=once)
    except json.JSONDecodeError as failure:
        where = f"line {failure.lineno}, column {failure.colno}"
        raise InputError(f"{file}: not JSON: {failure.msg} (at {where})") from None
    except ValueError as failure:
        raise InputError(f"{file}: not JSON: {failure}") from None


def _is_sweep(table: Mapping[str, Any]) -> bool:
    """Return True for a sweep, even with a mistake in an arm, if no name resembles a known key."""
    if not table or set(table) & set(_TABLES):
        return False
    if all(map(_is_arm, table.values())):
        return True
    like = all(isinstance(value, dict | str) for value in table.values())
    return like and not any(nearest(name, _TABLES) for name in table)


def _is_arm(value: object) -> bool:
    if isinstance(value, dict):
        return set(cast("dict[str, Any]", value)) <= set(_ARM)
    return isinstance(value, str)


def _fix(table: Mapping[str, Any], place: ValuePlace) -> Mapping[str, str]:
    entries = place.table(table.get("fix", {}), '[fix]\n"overlap limit" = 2')
    return MappingProxyType({name: _word(value, place.at(name)) for name, value in entries.items()})


def _choices(table: Mapping[str, Any], place: ValuePlace) -> Mapping[str, tuple[str, ...]]:
    entries = place.table(table.get("choices", {}), '[choices]\n"overlap limit" = [2, 4]')
    found: dict[str, tuple[str, ...]] = {}
    for name, value in entries.items():
        here = place.at(name)
        items = cast("list[object]", value) if isinstance(value, list) else [value]
        if not items:
            raise here.wrong("no choices", next=f'drop = ["{name}"] leaves the dimension alone')
        found[name] = tuple(dict.fromkeys(_word(item, here) for item in items))
    return MappingProxyType(found)


def _word(value: object, place: ValuePlace) -> str:
    """Return the name of a choice; numbers and Booleans are names, too."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value) if isinstance(value, int | float) else place.text(value)


def _drafts(table: Mapping[str, Any], place: ValuePlace) -> tuple[Draft, ...]:
    entries = place.table(table.get("dimension", {}), '[dimension."my own"]')
    return tuple(read_draft(name, value, place.at(name)) for name, value in entries.items())


def _arms(value: object, place: ValuePlace) -> tuple[HandArm, ...]:
    """Parse arms by name, or a list of tables with a `name`."""
    if not isinstance(value, list):
        entries = place.table(value, f"[arms]\n{_EXAMPLE}")
        return tuple(_arm(name, arm, place.at(name)) for name, arm in entries.items())
    found: list[HandArm] = []
    for number, entry in enumerate(cast("list[object]", value), 1):
        here = place.at(number)
        table = dict(here.table(entry, '{ name = "nvls", env = { NCCL_NVLS_ENABLE = 1 } }'))
        if "name" not in table:
            raise here.wrong("the arm has no name", next='name = "nvls"')
        name = here.at("name").text(table.pop("name"))
        if any(arm.name == name for arm in found):
            raise here.at("name").wrong(f"`{name}` occurs twice", next="rename one of them")
        found.append(_arm(name, table, here))
    return tuple(found)


def _arm(name: str, value: object, place: ValuePlace) -> HandArm:
    if not name.strip() or name != name.strip() or not name.isprintable():
        raise place.wrong("not a valid name of an arm")
    if name == BASE:
        raise place.wrong(
            "reserved name", why=f"`{BASE}` is the arm that all others are compared with"
        )
    if isinstance(value, str):
        return HandArm(name=name, settings=settings_of_line(value, place), place=place)
    table = place.table(value, _EXAMPLE)
    place.keys_of(table, _ARM)
    per = place.at("per").word(table["per"], ("gpu", "node")) if "per" in table else None
    arm = HandArm(
        name=name,
        settings=settings_of_table(table, place),
        recipes=place.at("recipe").texts(table.get("recipe", [])),
        profile=place.at("profile").flag(table.get("profile", False)),
        per=cast("Per | None", per),
        place=place,
    )
    if arm.settings == Settings() and not (arm.recipes or arm.profile or arm.per):
        raise place.wrong("no settings in it", next=_EXAMPLE)
    return arm
