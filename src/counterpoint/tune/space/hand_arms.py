"""Manual arms: from a user's file and the command line, as arms of a study.

A manual arm may be written as its label, the name under which a table shows it: it is parsed back
into what it sets.

    all-gather threshold 512 MiB + overlap limit 2 + NCCL_BUFFSIZE 1048576
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Final

from counterpoint.core import UsageError
from counterpoint.core.frozen import frozen
from counterpoint.flags import Settings
from counterpoint.flags.lines import OWN_PREFIX, is_flag, is_variable, load_settings
from counterpoint.flags.recipe import recipes
from counterpoint.tune.arm import Acts, Arm, ArmChange, ArmOrigin, Per
from counterpoint.tune.space.arms import RECOMMENDED, Seeds, changes_of, named_per, recommended
from counterpoint.tune.space.dimensions import Draft, Pick
from counterpoint.tune.space.situation import SpaceContext, fitted, size_of
from counterpoint.tune.space.space import Dimension, LeftOut, new_fault, same_as
from counterpoint.tune.space.space_file import HandArm
from counterpoint.tune.space.values import ValuePlace
from counterpoint.workflow import Variant, candidate, with_unique_names

AS_THE_BASE: Final = "it changes nothing: the base has it already"


def typed_arms(
    texts: Sequence[str], drafts: Mapping[str, Draft], here: SpaceContext
) -> tuple[HandArm, ...]:
    """Parse arms written as for `predict --candidate`, or as a study names its arms."""
    return tuple(_typed(text, drafts, here) for text in dict.fromkeys(texts))


def _typed(text: str, drafts: Mapping[str, Draft], here: SpaceContext) -> HandArm:
    place = ValuePlace(f"`arm={text}`", typed=True)
    if is_label(text, drafts):
        labeled = read_label(text, drafts, here)
        return HandArm(
            name=text,
            settings=labeled.settings,
            profile=labeled.profile,
            per=labeled.per,
            place=place,
        )
    variant = candidate(text, Settings(), version=here.version, chip=here.chip)
    return HandArm(name=variant.name, settings=variant.settings, place=place)


def hand_arms(
    arms: Sequence[HandArm], dimensions: Sequence[Dimension], here: SpaceContext
) -> Seeds:
    """Make an arm of each that changes the base, without duplicates."""
    variants = with_unique_names([_read(arm, here) for arm in arms])
    new_arms: list[Arm] = []
    left_out: list[LeftOut] = []
    for variant, arm in zip(variants, arms, strict=True):
        changes = (*changes_of(variant.settings, dimensions, here), *_own(arm))
        if not changes:
            left_out.append(LeftOut(variant.name, AS_THE_BASE, named=True))
            continue
        settings = here.base.merged(variant.settings)
        new_arm = Arm(name=variant.name, settings=settings, changes=changes, origin=ArmOrigin.HAND)
        same = same_as(here.base, new_arm, new_arms)
        if same is not None:
            why = f"equivalent to {same.name}"
            left_out.append(LeftOut(new_arm.name, why, named=True))
            continue
        new_arms.append(new_arm)
    return Seeds(tuple(new_arms), tuple(left_out))


def warnings(arms: Sequence[Arm], here: SpaceContext) -> tuple[str, ...]:
    """Warn of what is likely to crash an arm's process. The arm is tried all the same."""
    found: list[str] = []
    for arm in arms:
        settings = here.before.merged(arm.settings)
        fault = new_fault(here.before, settings, here.version, here.chip)
        if fault:
            found.append(f"arm {arm.name}: {fault}")
    return tuple(found)


def _read(arm: HandArm, here: SpaceContext) -> Variant:
    settings = Settings()
    for name in arm.recipes:
        if name not in recipes() and not Path(name).is_file():
            raise arm.place.at("recipe").unknown(name, recipes())
        loaded = load_settings(name, version=here.version, chip=here.chip)
        settings = settings.merged(loaded)
    return Variant(arm.name, settings.merged(arm.settings))


def _own(arm: HandArm) -> tuple[ArmChange, ...]:
    """Return the changes that are not settings: a profile, and the process layout."""
    found: list[ArmChange] = []
    if arm.profile:
        found.append(ArmChange(dimension="PGLE", choice="on", acts=Acts.SCHEDULE, profile=True))
    if arm.per:
        per = named_per(arm.per)
        found.append(ArmChange(dimension="processes", choice=per, acts=Acts.RUNTIME, per=arm.per))
    return tuple(found)


_SHORTENED: Final = "\N{HORIZONTAL ELLIPSIS}"
_VALUES: Final = {"on": "true", "off": "false", "empty": ""}


@frozen
class LabelSettings:
    """The settings, profile and process layout that a label stands for."""

    settings: Settings = field(default_factory=Settings)
    profile: bool = False
    per: Per | None = None


def is_label(text: str, drafts: Mapping[str, Draft]) -> bool:
    """Return True if the text names choices of dimensions, and nothing unknown."""
    if _SHORTENED in text:
        return True
    parts = text.split(" + ")
    known = [_dimension(part, drafts) is not None or part == RECOMMENDED for part in parts]
    return any(known) and all(
        is_known or part in recipes() or _is_setting(part)
        for is_known, part in zip(known, parts, strict=True)
    )


def read_label(text: str, drafts: Mapping[str, Draft], here: SpaceContext) -> LabelSettings:
    """Resolve a label here; raise a UsageError for a choice that is not available."""
    if _SHORTENED in text:
        raise UsageError(
            f"`arm={text}`: this is a shortened name of an arm",
            why="it does not contain all settings of the arm",
            next=f"counterpoint tune show STUDY --arm {shlex.quote(text)} -o arm.env",
        )
    found = LabelSettings()
    for part in text.split(" + "):
        labeled = _part(part, drafts, here)
        settings = found.settings.merged(labeled.settings)
        found = LabelSettings(settings, found.profile or labeled.profile, labeled.per or found.per)
    return found


def _part(part: str, drafts: Mapping[str, Draft], here: SpaceContext) -> LabelSettings:
    if part == RECOMMENDED:
        return LabelSettings(recommended(here))
    if part in recipes():
        return LabelSettings(load_settings(part, version=here.version, chip=here.chip))
    draft = _dimension(part, drafts)
    if draft is None:
        return LabelSettings(_setting(part))
    choice = part.removeprefix(draft.name).strip() or "on"
    picks = draft.choices.get(choice, ())
    pick = next((candidate for candidate in picks if here.unmet(candidate.condition) is None), None)
    if pick is not None:
        return LabelSettings(fitted(pick.settings, here), pick.profile, pick.per)
    return LabelSettings(_value(draft, choice, here))


def _value(draft: Draft, choice: str, here: SpaceContext) -> Settings:
    """Parse a value that the dimension does not offer, allowed if it sets only one name."""
    picks: list[Pick] = [pick for variants in draft.choices.values() for pick in variants]
    names = {(way, name) for pick in picks for way, name, _ in _pairs(pick.settings)}
    if len(names) != 1 or choice in draft.choices:
        choices = ", ".join(draft.choices)
        raise ValuePlace("`arm=`", typed=True).wrong(
            f"{draft.name} has no choice {choice} here", why=f"its choices are {choices}"
        )
    ((way, name),) = names
    size = size_of(choice) if draft.combine else None
    value = str(size) if size is not None else _VALUES.get(choice, choice)
    pair = ((name, value),)
    return fitted(Settings(pair) if way == "xla" else Settings(env=pair), here)


def _pairs(settings: Settings) -> list[tuple[str, str, str]]:
    found = [("xla", *pair) for pair in settings.xla]
    return found + [("env", *pair) for pair in settings.env]


def _dimension(part: str, drafts: Mapping[str, Draft]) -> Draft | None:
    """Return the dimension with the longest name that the part begins with."""
    names = [name for name in drafts if part == name or part.startswith(f"{name} ")]
    return drafts[max(names, key=len)] if names else None


def _is_setting(part: str) -> bool:
    name, _, value = part.partition(" ")
    is_set = bool(value) and (name.startswith(OWN_PREFIX) or is_variable(name))
    return is_set or name.startswith("xla_")  # a change that turns a flag on is its name alone


def _setting(part: str) -> Settings:
    """Parse a flag or variable that belongs to no dimension."""
    name, _, value = part.partition(" ")
    pair = ((name.removeprefix(OWN_PREFIX), _VALUES.get(value or "on", value)),)
    return Settings(pair) if is_flag(name) else Settings(env=pair)
