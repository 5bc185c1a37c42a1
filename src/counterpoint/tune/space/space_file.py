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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, cast

from counterpoint.core import CounterpointError, InputError, parse_json, parse_toml
from counterpoint.core.frozen import frozen
from counterpoint.flags import Channel, Settings
from counterpoint.flags.lifecycle import UNKNOWN_TO_ALL, unknown_hint
from counterpoint.flags.recipe import recipes
from counterpoint.flags.values import refusal
from counterpoint.tune.arm import BASE, Per
from counterpoint.tune.space.arms import RECOMMENDED
from counterpoint.tune.space.dimensions import Draft, Pick, builtin_dimensions, read_draft
from counterpoint.tune.space.situation import SpaceContext, fitted, name_of, picks, size_of
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


@frozen(kw_only=True)
class HandArm:
    """A manual arm: recipes in their order, then settings."""

    name: str
    settings: Settings
    recipes: tuple[str, ...] = ()
    profile: bool = False
    per: Per | None = None
    place: ValuePlace


@frozen(kw_only=True)
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
        text = path.read_bytes().decode()
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


def drafts_for(asked: SpaceFile) -> Mapping[str, Draft]:
    """Return all dimensions with the user's own, narrowed as requested; reject unknown names."""
    drafts = {**builtin_dimensions().drafts, **{draft.name: draft for draft in asked.drafts}}
    place = asked.place
    arms = (*drafts, *recipes(), RECOMMENDED)
    neither = "it is neither a dimension nor a recipe"
    _require(asked.drop, arms, place.at("drop"), neither)
    _require(asked.only or (), arms, place.at("only"), neither)
    _require(asked.fix, drafts, place.at("fix"))
    _require(asked.choices, drafts, place.at("choices"))
    for draft in asked.drafts:
        own = place.at("dimension").at(draft.name)
        _require(draft.needs, drafts, own.at("needs"))
        _require(draft.excludes, drafts, own.at("excludes"))
    return {name: _narrowed(draft, asked) for name, draft in drafts.items()}


def _require(
    names: Iterable[str], known_: Iterable[str], place: ValuePlace, why: str | None = None
) -> None:
    words = tuple(known_)
    for name in names:
        if name not in words:
            raise place.unknown(name, words, why=why)


def wanted(draft: Draft, asked: SpaceFile) -> tuple[str, ...] | None:
    """Return the choices of the draft that the user selected; None for all."""
    names = asked.choices.get(draft.name)
    if names is None or not draft.combine:
        return names
    return tuple(name_of(size) for name in names if (size := size_of(name)) is not None)


def _narrowed(draft: Draft, asked: SpaceFile) -> Draft:
    """Apply the user's own thresholds; reject a choice that does not exist."""
    names = asked.choices.get(draft.name)
    if names is None:
        return draft
    place = asked.place.at("choices").at(draft.name)
    if draft.combine:
        sizes = [_size(name, place) for name in names]
        return replace(draft, choices=picks(_flag(draft), sizes))
    for name in names:
        if name not in draft.choices:
            raise place.unknown(name, draft.choices)
    return draft


def _flag(draft: Draft) -> str:
    """Return the flag of a threshold."""
    first = next(iter(draft.choices.values()))
    return first[0].settings.xla[0][0]


def _size(text: str, place: ValuePlace) -> int:
    size = size_of(text)
    if size is None:
        raise place.wrong(
            f"`{text}` is not a size", why="a threshold is in bytes", next='"512 MiB"'
        )
    return size


def fixed(asked: SpaceFile, drafts: Mapping[str, Draft], here: SpaceContext) -> Settings:
    """Return the base with what the user fixed."""
    base = here.base
    for name, value in asked.fix.items():
        place = asked.place.at("fix").at(name)
        settings = _fixed(drafts[name], value, place, here)
        for _ in hints(settings, place, here):
            pass  # hints are reported where the space is made; here only errors count
        base = base.merged(settings)
    return base


def _fixed(draft: Draft, value: str, place: ValuePlace, here: SpaceContext) -> Settings:
    if value in draft.choices:
        pick = _holding(draft.choices[value], here)
        if pick is None:
            raise place.wrong(
                f"`{value}` is not available here",
                why=next(
                    filter(None, (here.unmet(pick.condition) for pick in draft.choices[value]))
                ),
            )
        if pick.profile or pick.per:
            raise place.wrong(
                "can't be part of the base",
                why="the base has only settings; processes and profiles are options of the study",
                next=f'drop = ["{draft.name}"], and pass it to `counterpoint tune` instead',
            )
        return fitted(pick.settings, here)
    if draft.combine and (size := size_of(value)) is not None:
        return Settings(((_flag(draft), str(size)),))
    if "=" in value:
        return settings_of_line(value, place)
    raise place.unknown(value, draft.choices)


def _holding(several: tuple[Pick, ...], here: SpaceContext) -> Pick | None:
    return next((pick for pick in several if here.unmet(pick.condition) is None), None)


def checked(asked: SpaceFile, typed: Sequence[HandArm], here: SpaceContext) -> tuple[str, ...]:
    """Return hints about flags that the user named; raise an error for one that does not exist."""
    found: list[str] = []
    for draft in asked.drafts:
        place = asked.place.at("dimension").at(draft.name).at("choices")
        for name, variants in draft.choices.items():
            pick = _holding(variants, here)
            if pick is not None:
                found += hints(pick.settings, place.at(name), here)
    for name, value in asked.fix.items():
        if "=" in value:
            place = asked.place.at("fix").at(name)
            found += hints(settings_of_line(value, place), place, here)
    for arm in (*asked.arms, *typed):
        found += hints(arm.settings, arm.place, here)
    return tuple(found)


def hints(settings: Settings, place: ValuePlace, here: SpaceContext) -> Iterator[str]:
    """Yield what is odd about a user's flags; raise an error if the release is known for sure."""
    version = here.release.version
    ways = ((settings.xla, Channel.XLA_FLAGS), (settings.options, Channel.COMPILER_OPTIONS))
    for pairs, channel in ways:
        for name, value in pairs:
            flag = here.release.flags.get(name)
            option = channel is Channel.COMPILER_OPTIONS
            taken = flag is not None and (flag.compile_option if option else flag.xla_flags)
            if flag is None or not taken:
                if option and flag is None:
                    continue  # levels and efforts are options, not flags
                what = f"jaxlib {version} does not know {name}"
                if here.sure:
                    raise _no_such(place, what, unknown_hint(name, version))
                yield f"{place}: {what}. {unknown_hint(name)}"
            elif (why := refusal(flag, value, channel)) is not None:
                what = f"jaxlib {version} does not accept {name}={value}"
                if here.sure:
                    next_ = f"{name}={why.meant}" if why.meant else None
                    raise place.wrong(what, why=f"it accepts {why.takes}", next=next_)
                yield f"{place}: {what}: it accepts {why.takes}"


def _no_such(place: ValuePlace, what: str, hint: str) -> CounterpointError:
    """Make the error for an unknown name; one that no release had gets no replacement."""
    if hint != UNKNOWN_TO_ALL:
        return place.wrong(what, next=hint)
    search = "remove it, or look it up with `counterpoint flags list --grep TEXT`"
    return place.wrong(what, why=hint.rstrip("."), next=search)
