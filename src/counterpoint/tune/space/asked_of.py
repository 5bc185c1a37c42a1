"""What a user asks of the space, held to what there is: names, choices, and flags that exist."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from counterpoint.core.errors import CounterpointError
from counterpoint.flags import Settings, recipes
from counterpoint.flags.channel import Channel
from counterpoint.flags.gone import unknown_hint
from counterpoint.flags.lint.spelling import refusal
from counterpoint.tune.space.break_points import name_of, picks, size_of
from counterpoint.tune.space.draft import Draft, Pick
from counterpoint.tune.space.place import Place
from counterpoint.tune.space.recipe_arms import RECOMMENDED
from counterpoint.tune.space.settings_text import settings_of_line
from counterpoint.tune.space.situation import Situation
from counterpoint.tune.space.space_file import HandArm, SpaceFile
from counterpoint.tune.space.standing import fitted
from counterpoint.tune.space.table import known


def drafts_for(asked: SpaceFile) -> Mapping[str, Draft]:
    """All dimensions, the user's own among them, narrowed as asked; a name that is none ends it."""
    drafts = {**known().drafts, **{it.name: it for it in asked.drafts}}
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
    names: Iterable[str], known_: Iterable[str], place: Place, why: str | None = None
) -> None:
    words = tuple(known_)
    for name in names:
        if name not in words:
            raise place.unknown(name, words, why=why)


def wanted(draft: Draft, asked: SpaceFile) -> tuple[str, ...] | None:
    """The choices that the user wants of it; None for all."""
    names = asked.choices.get(draft.name)
    if names is None or not draft.combine:
        return names
    return tuple(name_of(size) for it in names if (size := size_of(it)) is not None)


def _narrowed(draft: Draft, asked: SpaceFile) -> Draft:
    """With the user's own thresholds; a choice that is none ends it."""
    names = asked.choices.get(draft.name)
    if names is None:
        return draft
    place = asked.place.at("choices").at(draft.name)
    if draft.combine:
        sizes = [_size(it, place) for it in names]
        return replace(draft, choices=picks(_flag(draft), sizes))
    for name in names:
        if name not in draft.choices:
            raise place.unknown(name, draft.choices)
    return draft


def _flag(draft: Draft) -> str:
    """The flag of a threshold."""
    first = next(iter(draft.choices.values()))
    return first[0].settings.xla[0][0]


def _size(text: str, place: Place) -> int:
    size = size_of(text)
    if size is None:
        raise place.wrong(f"`{text}` is no size", why="a threshold is bytes", next='"512 MiB"')
    return size


def fixed(asked: SpaceFile, drafts: Mapping[str, Draft], here: Situation) -> Settings:
    """The base with what the user fixed."""
    base = here.base
    for name, value in asked.fix.items():
        place = asked.place.at("fix").at(name)
        settings = _fixed(drafts[name], value, place, here)
        for _ in hints(settings, place, here):
            pass  # a hint is given where the space is made; here only what ends it counts
        base = base.merged(settings)
    return base


def _fixed(draft: Draft, value: str, place: Place, here: Situation) -> Settings:
    if value in draft.choices:
        pick = _holding(draft.choices[value], here)
        if pick is None:
            raise place.wrong(
                f"`{value}` is not to be had here",
                why=next(filter(None, (here.unmet(it.condition) for it in draft.choices[value]))),
            )
        if pick.profile or pick.per:
            raise place.wrong(
                "can't be a part of the base",
                why="the base is settings; processes and profiles are the study's",
                next=f'drop = ["{draft.name}"], and say it to `counterpoint tune` itself',
            )
        return fitted(pick.settings, here)
    if draft.combine and (size := size_of(value)) is not None:
        return Settings(((_flag(draft), str(size)),))
    if "=" in value:
        return settings_of_line(value, place)
    raise place.unknown(value, draft.choices)


def _holding(several: tuple[Pick, ...], here: Situation) -> Pick | None:
    return next((it for it in several if here.unmet(it.condition) is None), None)


def checked(asked: SpaceFile, typed: Sequence[HandArm], here: Situation) -> tuple[str, ...]:
    """Hints about flags that the user named; one that does not exist ends it."""
    found: list[str] = []
    for draft in asked.drafts:
        place = asked.place.at("dimension").at(draft.name).at("choices")
        for name, several in draft.choices.items():
            pick = _holding(several, here)
            if pick is not None:
                found += hints(pick.settings, place.at(name), here)
    for name, value in asked.fix.items():
        if "=" in value:
            place = asked.place.at("fix").at(name)
            found += hints(settings_of_line(value, place), place, here)
    for arm in (*asked.arms, *typed):
        found += hints(arm.settings, arm.place, here)
    return tuple(found)


def hints(settings: Settings, place: Place, here: Situation) -> Iterator[str]:
    """What is odd about a user's flags. Where the release is known for sure, that ends it."""
    version = here.release.version
    ways = ((settings.xla, Channel.XLA_FLAGS), (settings.options, Channel.COMPILER_OPTIONS))
    for pairs, channel in ways:
        for name, value in pairs:
            flag = here.release.flags.get(name)
            option = channel is Channel.COMPILER_OPTIONS
            taken = flag is not None and (flag.compile_option if option else flag.xla_flags)
            if flag is None or not taken:
                if option and flag is None:
                    continue  # levels and efforts are options, and no flags
                what = f"jaxlib {version} does not know {name}"
                if here.sure:
                    raise _no_such(place, what, unknown_hint(name, version))
                yield f"{place}: {what}. {unknown_hint(name)}"
            elif (why := refusal(flag, value, channel)) is not None:
                what = f"jaxlib {version} does not take {name}={value}"
                if here.sure:
                    next_ = f"{name}={why.meant}" if why.meant else None
                    raise place.wrong(what, why=f"it takes {why.takes}", next=next_)
                yield f"{place}: {what}: it takes {why.takes}"


def _no_such(place: Place, what: str, hint: str) -> CounterpointError:
    """Of a name that nobody ever knew there is nothing to write instead."""
    if not hint.startswith("No release"):
        return place.wrong(what, next=hint)
    search = "leave it out, or look for what it is called: counterpoint flags list --grep TEXT"
    return place.wrong(what, why=hint.rstrip("."), next=search)
