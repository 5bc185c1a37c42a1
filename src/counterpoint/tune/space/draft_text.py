"""Drafts as TOML has them: the package's own dimensions and a user's are written alike.

[dimension."pipelined all-gather"]
why = "..."                     # why it may matter
source = "https://..."          # who says so
acts = "schedule"               # or "runtime"; left out: what is known of its flags
kinds = ["all-gather"]          # only where the program has them; "any" for any collective
loop = true                     # ... in a loop
needs = { "overlap limit" = "on" }
excludes = ["PGLE"]
since = "0.5.0"                 # also before, chips, not_chips, hosts: when it is worth a try

[dimension."pipelined all-gather".choices]
on = "--xla_gpu_enable_pipelined_all_gather=true"
off = { xla_flags = { xla_gpu_enable_pipelined_all_gather = false }, undo = true }

A choice that is written differently from release to release is a list of tables, each with its
`since` and `before`: the first that holds is taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, cast

from counterpoint.flags.advice.condition import FAMILIES, NEEDED, Condition
from counterpoint.tune.arm import Acts, Per
from counterpoint.tune.space.draft import ANY, Draft, Pick
from counterpoint.tune.space.place import Place
from counterpoint.tune.space.settings_text import KEYS, settings_of_line, settings_of_table

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


def read_draft(name: str, value: object, place: Place, *, by_hand: bool = True) -> Draft:
    """One dimension."""
    table = place.table(value, f'[dimension."{name}"]')
    place.keys_of(table, _DRAFT)
    if not name.strip() or " + " in name or name != name.strip():
        raise place.wrong(
            "not a name for a dimension", why="names are words, without ` + ` in them"
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


def _choices(table: Mapping[str, Any], place: Place) -> Mapping[str, tuple[Pick, ...]]:
    if "choices" not in table:
        raise place.wrong("no choices", next=_EXAMPLE)
    here = place.at("choices")
    choices = here.table(table["choices"], _EXAMPLE)
    if not choices:
        raise here.wrong("no choices", next=_EXAMPLE)
    found: dict[str, tuple[Pick, ...]] = {}
    for name, value in choices.items():
        if not name.strip() or " + " in name:
            raise here.at(name).wrong("not a name for a choice")
        several = cast("list[object]", value) if isinstance(value, list) else [value]
        found[name] = tuple(_pick(it, here.at(name)) for it in several)
        if not found[name]:
            raise here.at(name).wrong("no settings in it", next=_EXAMPLE)
    return MappingProxyType(found)


def _pick(value: object, place: Place) -> Pick:
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
            "no settings in it", why=f"they are under {', '.join(KEYS)}", next=_EXAMPLE
        )
    return found


def _condition(table: Mapping[str, Any], place: Place) -> Condition:
    def word(key: str, known: tuple[str, ...]) -> str:
        return place.at(key).word(table[key], known) if key in table else ""

    for key in ("since", "before"):
        text = table.get(key, "0")
        if not isinstance(text, str) or not text.replace(".", "").isdigit():
            raise place.at(key).wrong("not a release of jaxlib", next=f'{key} = "0.10.2"')
    return Condition(
        since=table.get("since"),
        before=table.get("before"),
        chips=_words(table, "chips", place, tuple(FAMILIES)),
        not_chips=_words(table, "not_chips", place, tuple(FAMILIES)),
        hosts=word("hosts", ("one", "several")),
        needed=word("needed", NEEDED),
    )


def _words(
    table: Mapping[str, Any], key: str, place: Place, known: tuple[str, ...]
) -> tuple[str, ...]:
    here = place.at(key)
    return tuple(here.word(it, known) for it in here.texts(table.get(key, [])))


def _text(table: Mapping[str, Any], key: str, place: Place) -> str:
    return place.at(key).text(table.get(key, ""))


def _needs(value: object, place: Place) -> Mapping[str, str]:
    table = place.table(value, 'needs = { "overlap limit" = "on" }')
    return MappingProxyType({key: place.at(key).text(it) for key, it in table.items()})
