"""Drafts: dimensions as written in a file, before checking whether they exist and matter here.

dimensions.toml, a user's file ──► Drafts ──release, chip, program──► Dimensions, or why not

Both files have the same form:

    [dimension."pipelined all-gather"]
    why = "..."                     # why it may matter
    source = "https://..."          # who recommends it
    acts = "schedule"               # or "runtime"; left out: derived from its settings
    kinds = ["all-gather"]          # only if the program has them; "any" for any collective
    loop = true                     # ... in a loop
    needs = { "overlap limit" = "on" }
    excludes = ["PGLE"]
    since = "0.5.0"                 # also before, chips, not_chips, hosts: when it is worth a try

    [dimension."pipelined all-gather".choices]
    on = "--xla_gpu_enable_pipelined_all_gather=true"
    off = { xla_flags = { xla_gpu_enable_pipelined_all_gather = false }, undo = true }

A choice that is written differently from release to release is a list of tables with conditions.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, cast

from counterpoint.flags.observed import release_of
from counterpoint.flags.recipe import CHIP_GENERATIONS, NEEDED, Condition
from counterpoint.flags.settings import Settings
from counterpoint.tune.arm import Acts, Per
from counterpoint.tune.space.values import KEYS, ValuePlace, settings_of_line, settings_of_table

ANY = "any"
"""The kind that stands for any collective."""

_NONE: Mapping[str, str] = MappingProxyType({})
KINDS: Final = (
    *("all-gather", "all-reduce", "reduce-scatter", "all-to-all", "ragged-all-to-all"),
    *("collective-permute", "collective-broadcast", "send", "recv", ANY),
)
_CONDITION: Final = ("since", "before", "chips", "not_chips", "hosts", "needed")
_PICK: Final = (*KEYS, "undo", "profile", "per", "most_trips", *_CONDITION)
_DRAFT: Final = (
    *("why", "source", "acts", "kinds", "loop", "combine", "needs", "excludes", "choices"),
    *_CONDITION,
)
_EXAMPLE: Final = 'choices = { on = "--xla_gpu_enable_triton_gemm=false" }'
FILE: Final = "dimensions.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pick:
    """One way to write a choice: the first one whose condition holds is used.

    `undo` marks one that reverts what the base sets, and is a choice only if the base sets it. With
    `most_trips`, it is a choice only if no loop runs more often.
    """

    settings: Settings = field(default_factory=Settings)
    condition: Condition = field(default_factory=Condition)
    undo: bool = False
    profile: bool = False
    per: Per | None = None
    most_trips: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A dimension with all its choices, and the conditions under which it can matter.

    Args:
        name: Human-readable name.
        choices: By name, each in one or several ways of writing it.
        acts: Where its choices take effect; None to derive it from their settings.
        kinds: The collectives that it affects; `any` for all, none for no collectives.
        loop: Affects only what is in a loop.
        combine: The kind of collectives whose break points replace the choices.
        by_hand: True if a user wrote it.
    """

    name: str
    choices: Mapping[str, tuple[Pick, ...]]
    acts: Acts | None = None
    why: str = ""
    source: str = ""
    kinds: tuple[str, ...] = ()
    loop: bool = False
    combine: str = ""
    condition: Condition = field(default_factory=Condition)
    needs: Mapping[str, str] = field(default_factory=lambda: _NONE)
    excludes: tuple[str, ...] = ()
    by_hand: bool = False


def read_draft(name: str, value: object, place: ValuePlace, *, by_hand: bool = True) -> Draft:
    """Parse one dimension."""
    table = place.table(value, f'[dimension."{name}"]')
    place.keys_of(table, _DRAFT)
    if not name.strip() or " + " in name or name != name.strip():
        raise place.wrong(
            "not a valid name of a dimension",
            why="a name has no ` + ` in it",
        )
    acts = place.at("acts").word(table["acts"], list(Acts)) if "acts" in table else None
    return Draft(
        name=name,
        choices=_choices(table, place),
        acts=Acts(acts) if acts else None,
        why=_text(table, "why", place),
        source=_text(table, "source", place),
        kinds=_words(table, "kinds", place, KINDS),
        loop=place.at("loop").flag(table.get("loop", False)),
        combine=_text(table, "combine", place),
        condition=_condition(table, place),
        needs=_needs(table.get("needs", {}), place.at("needs")),
        excludes=place.at("excludes").texts(table.get("excludes", [])),
        by_hand=by_hand,
    )


def _choices(table: Mapping[str, Any], place: ValuePlace) -> Mapping[str, tuple[Pick, ...]]:
    if "choices" not in table:
        raise place.wrong("no choices", next=_EXAMPLE)
    here = place.at("choices")
    choices = here.table(table["choices"], _EXAMPLE)
    if not choices:
        raise here.wrong("no choices", next=_EXAMPLE)
    found: dict[str, tuple[Pick, ...]] = {}
    for name, value in choices.items():
        if not name.strip() or " + " in name:
            raise here.at(name).wrong("not a valid name of a choice")
        variants = cast("list[object]", value) if isinstance(value, list) else [value]
        found[name] = tuple(_pick(item, here.at(name)) for item in variants)
        if not found[name]:
            raise here.at(name).wrong("no settings in it", next=_EXAMPLE)
    return MappingProxyType(found)


def _pick(value: object, place: ValuePlace) -> Pick:
    if isinstance(value, str):
        return Pick(settings=settings_of_line(value, place))
    table = place.table(value, "{ xla_flags = { xla_gpu_enable_triton_gemm = false } }")
    place.keys_of(table, _PICK)
    per = place.at("per").word(table["per"], ("gpu", "node")) if "per" in table else None
    trips = table.get("most_trips")
    found = Pick(
        settings=settings_of_table(table, place),
        condition=_condition(table, place),
        undo=place.at("undo").flag(table.get("undo", False)),
        profile=place.at("profile").flag(table.get("profile", False)),
        per=cast("Per | None", per),
        most_trips=None if trips is None else place.at("most_trips").count(trips),
    )
    holds = found.settings.xla or found.settings.env or found.settings.options
    if not (holds or found.profile or found.per):
        raise place.wrong(
            "no settings in it", why=f"settings are under {', '.join(KEYS)}", next=_EXAMPLE
        )
    return found


def _condition(table: Mapping[str, Any], place: ValuePlace) -> Condition:
    def word(key: str, known: tuple[str, ...]) -> str:
        return place.at(key).word(table[key], known) if key in table else ""

    def release(key: str) -> str | None:
        text = table.get(key, "0")
        named = release_of(text) if isinstance(text, str) else ""
        if not named.replace(".", "").isdigit():
            raise place.at(key).wrong("not a release of jaxlib", next=f'{key} = "0.10.2"')
        return named if key in table else None

    return Condition(
        since=release("since"),
        before=release("before"),
        chips=_words(table, "chips", place, tuple(CHIP_GENERATIONS)),
        not_chips=_words(table, "not_chips", place, tuple(CHIP_GENERATIONS)),
        hosts=word("hosts", ("one", "several")),
        needed=word("needed", NEEDED),
    )


def _words(
    table: Mapping[str, Any], key: str, place: ValuePlace, known: tuple[str, ...]
) -> tuple[str, ...]:
    here = place.at(key)
    return tuple(here.word(text, known) for text in here.texts(table.get(key, [])))


def _text(table: Mapping[str, Any], key: str, place: ValuePlace) -> str:
    return place.at(key).text(table.get(key, ""))


def _needs(value: object, place: ValuePlace) -> Mapping[str, str]:
    table = place.table(value, 'needs = { "overlap limit" = "on" }')
    return MappingProxyType({key: place.at(key).text(choice) for key, choice in table.items()})


@dataclass(frozen=True, slots=True)
class BuiltinDimensions:
    """All built-in drafts by name, and the recipes that make no arms, each with its reason."""

    drafts: Mapping[str, Draft]
    no_arms: Mapping[str, str]

    @property
    def acts(self) -> Mapping[str, Acts]:
        """The stage each flag or variable acts on; runtime if any dimension has it there."""
        found: dict[str, Acts] = {}
        for draft in self.drafts.values():
            for name in names_of(draft):
                acts = draft.acts or Acts.RUNTIME
                found[name] = Acts.RUNTIME if found.get(name) is Acts.RUNTIME else acts
        return MappingProxyType(found)


def names_of(draft: Draft) -> frozenset[str]:
    """Return all flags, variables and options that its choices set."""
    picks = (pick.settings for variants in draft.choices.values() for pick in variants)
    return frozenset(
        name for settings in picks for name, _ in (*settings.xla, *settings.env, *settings.options)
    )


@cache
def builtin_dimensions() -> BuiltinDimensions:
    """Load the dimensions that ship with Counterpoint."""
    document = tomllib.loads(Path(__file__).with_name(FILE).read_text("utf-8"))
    place = ValuePlace(FILE, ("dimension",))
    drafts = {
        name: read_draft(name, value, place.at(name), by_hand=False)
        for name, value in document["dimension"].items()
    }
    return BuiltinDimensions(MappingProxyType(drafts), MappingProxyType(document["no_arms"]))
