"""Manual arms: from a user's file and the command line, as arms of a study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from counterpoint.flags.lines.source import load_settings
from counterpoint.flags.recipe import recipes
from counterpoint.flags.settings import Settings
from counterpoint.tune.arm import Acts, Arm, ArmChange, ArmOrigin
from counterpoint.tune.command_options import is_of_command, options_in, with_options
from counterpoint.tune.space.changes import changes_of, named_per
from counterpoint.tune.space.context import SpaceContext
from counterpoint.tune.space.dimensions import Draft
from counterpoint.tune.space.labels import is_label, read_label
from counterpoint.tune.space.recipe_arms import Seeds
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
    place = ValuePlace(f"--arm {text}", typed=True)
    if is_of_command(text):
        return HandArm(name=text, settings=Settings(), options=options_in(text), place=place)
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
        changes = (*changes_of(variant.settings, dimensions, here), *_own(arm, here))
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


def _own(arm: HandArm, here: SpaceContext) -> tuple[ArmChange, ...]:
    """Return the changes that are not settings: a profile, the layout, the command's options."""
    found: list[ArmChange] = []
    if arm.profile:
        found.append(ArmChange(dimension="PGLE", choice="on", acts=Acts.SCHEDULE, profile=True))
    if arm.per:
        per = named_per(arm.per)
        found.append(ArmChange(dimension="processes", choice=per, acts=Acts.RUNTIME, per=arm.per))
    for words in arm.options:
        if with_options(here.command, [words]) == here.command:
            continue  # the base has it
        name, equals, value = words[0].partition("=")
        choice = " ".join([value] if equals else words[1:]) or "on"
        found.append(ArmChange(dimension=name, choice=choice, acts=Acts.RUNTIME, words=words))
    return tuple(found)
