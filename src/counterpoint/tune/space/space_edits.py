"""Edits: what a user's file adds to the space, fixes and narrows, checked against what exists."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from counterpoint.core import CounterpointError
from counterpoint.flags.lifecycle import UNKNOWN_TO_ALL, unknown_hint
from counterpoint.flags.recipe import recipes
from counterpoint.flags.settings import Channel, Settings
from counterpoint.flags.values import refusal
from counterpoint.tune.space.context import SpaceContext
from counterpoint.tune.space.current_settings import adapted
from counterpoint.tune.space.dimensions import Draft, Pick, builtin_dimensions
from counterpoint.tune.space.recipe_arms import RECOMMENDED
from counterpoint.tune.space.space_file import HandArm, SpaceFile
from counterpoint.tune.space.thresholds import threshold_bytes, threshold_choices, threshold_name
from counterpoint.tune.space.values import (
    ValuePlace,
    settings_of_line,
)


def drafts_for(space_file: SpaceFile) -> Mapping[str, Draft]:
    """Return all dimensions with the user's own, narrowed as requested; reject unknown names."""
    drafts = {**builtin_dimensions().drafts, **{draft.name: draft for draft in space_file.drafts}}
    place = space_file.place
    arms = (*drafts, *recipes(), RECOMMENDED)
    neither = "it is neither a dimension nor a recipe"
    _require(space_file.drop, arms, place.at("drop"), neither)
    _require(space_file.only or (), arms, place.at("only"), neither)
    _require(space_file.fix, drafts, place.at("fix"))
    _require(space_file.choices, drafts, place.at("choices"))
    for draft in space_file.drafts:
        own = place.at("dimension").at(draft.name)
        _require(draft.needs, drafts, own.at("needs"))
        _require(draft.excludes, drafts, own.at("excludes"))
    return {name: _narrowed(draft, space_file) for name, draft in drafts.items()}


def _require(
    names: Iterable[str], known: Iterable[str], place: ValuePlace, why: str | None = None
) -> None:
    words = tuple(known)
    for name in names:
        if name not in words:
            raise place.unknown(name, words, why=why)


def wanted_choices(draft: Draft, space_file: SpaceFile) -> tuple[str, ...] | None:
    """Return the choices of the draft that the user selected; None for all."""
    names = space_file.choices.get(draft.name)
    if names is None or not draft.combine:
        return names
    return tuple(
        threshold_name(size) for name in names if (size := threshold_bytes(name)) is not None
    )


def _narrowed(draft: Draft, space_file: SpaceFile) -> Draft:
    """Apply the user's own thresholds; reject a choice that does not exist."""
    names = space_file.choices.get(draft.name)
    if names is None:
        return draft
    place = space_file.place.at("choices").at(draft.name)
    if draft.combine:
        sizes = [_size(name, place) for name in names]
        return replace(draft, choices=threshold_choices(_flag(draft), sizes))
    for name in names:
        if name not in draft.choices:
            raise place.unknown(name, draft.choices)
    return draft


def _flag(draft: Draft) -> str:
    """Return the flag of a threshold."""
    first = next(iter(draft.choices.values()))
    return first[0].settings.xla[0][0]


def _size(text: str, place: ValuePlace) -> int:
    size = threshold_bytes(text)
    if size is None:
        raise place.wrong(
            f"`{text}` is not a size", why="a threshold is in bytes", next='"512 MiB"'
        )
    return size


def with_fixed_settings(
    space_file: SpaceFile, drafts: Mapping[str, Draft], here: SpaceContext
) -> Settings:
    """Return the base with what the user fixed."""
    base = here.base
    for name, value in space_file.fix.items():
        place = space_file.place.at("fix").at(name)
        settings = _fixed(drafts[name], value, place, here)
        for _ in settings_hints(settings, place, here):
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
        return adapted(pick.settings, here)
    if draft.combine and (size := threshold_bytes(value)) is not None:
        return Settings(((_flag(draft), str(size)),))
    if "=" in value:
        return settings_of_line(value, place)
    raise place.unknown(value, draft.choices)


def _holding(several: tuple[Pick, ...], here: SpaceContext) -> Pick | None:
    return next((pick for pick in several if here.unmet(pick.condition) is None), None)


def flag_hints(
    space_file: SpaceFile, typed: Sequence[HandArm], here: SpaceContext
) -> tuple[str, ...]:
    """Return hints about flags that the user named; raise an error for one that does not exist."""
    found: list[str] = []
    for draft in space_file.drafts:
        place = space_file.place.at("dimension").at(draft.name).at("choices")
        for name, variants in draft.choices.items():
            pick = _holding(variants, here)
            if pick is not None:
                found += settings_hints(pick.settings, place.at(name), here)
    for name, value in space_file.fix.items():
        if "=" in value:
            place = space_file.place.at("fix").at(name)
            found += settings_hints(settings_of_line(value, place), place, here)
    for arm in (*space_file.arms, *typed):
        found += settings_hints(arm.settings, arm.place, here)
    return tuple(found)


def settings_hints(settings: Settings, place: ValuePlace, here: SpaceContext) -> Iterator[str]:
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
                    suggestion = f"{name}={why.meant}" if why.meant else None
                    raise place.wrong(what, why=f"it accepts {why.takes}", next=suggestion)
                yield f"{place}: {what}: it accepts {why.takes}"


def _no_such(place: ValuePlace, what: str, hint: str) -> CounterpointError:
    """Make the error for an unknown name; one that no release had gets no replacement."""
    if hint != UNKNOWN_TO_ALL:
        return place.wrong(what, next=hint)
    search = "remove it, or look it up with `counterpoint flags list --grep TEXT`"
    return place.wrong(what, why=hint.rstrip("."), next=search)
