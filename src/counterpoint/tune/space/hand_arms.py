"""Arms by hand: of a user's file, and of the command line, as arms of a study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from counterpoint.flags import Settings
from counterpoint.flags.advice import recipes
from counterpoint.flags.lines import load_settings
from counterpoint.tune.arm import Acts, Arm, Change, Origin
from counterpoint.tune.space.arms import Seeds, changes_of, named_per
from counterpoint.tune.space.dimensions import Draft
from counterpoint.tune.space.faults import new_fault
from counterpoint.tune.space.labels import is_label, read_label
from counterpoint.tune.space.place import Place
from counterpoint.tune.space.situation import Situation
from counterpoint.tune.space.space import Dimension, LeftOut, same_as
from counterpoint.tune.space.space_file import HandArm
from counterpoint.workflow.subject import Variant, candidate, named_apart

AS_THE_BASE: Final = "it changes nothing: the base has it already"


def typed_arms(
    texts: Sequence[str], drafts: Mapping[str, Draft], here: Situation
) -> tuple[HandArm, ...]:
    """Arms that are written as `predict --candidate` takes them, or as a study names its arms."""
    return tuple(_typed(it, drafts, here) for it in dict.fromkeys(texts))


def _typed(text: str, drafts: Mapping[str, Draft], here: Situation) -> HandArm:
    place = Place(f"--arm {text}", typed=True)
    if is_label(text, drafts):
        said = read_label(text, drafts, here)
        return HandArm(
            name=text, settings=said.settings, profile=said.profile, per=said.per, place=place
        )
    it = candidate(text, Settings(), version=here.version, chip=here.chip)
    return HandArm(name=it.name, settings=it.settings, place=place)


def hand_arms(arms: Sequence[HandArm], dimensions: Sequence[Dimension], here: Situation) -> Seeds:
    """All that change the base, each once."""
    variants = named_apart([_read(it, here) for it in arms])
    made: list[Arm] = []
    left_out: list[LeftOut] = []
    for variant, arm in zip(variants, arms, strict=True):
        changes = (*changes_of(variant.settings, dimensions, here), *_own(arm))
        if not changes:
            left_out.append(LeftOut(variant.name, AS_THE_BASE, named=True))
            continue
        settings = here.base.merged(variant.settings)
        one = Arm(name=variant.name, settings=settings, changes=changes, origin=Origin.HAND)
        same = same_as(here.base, one, made)
        if same is not None:
            why = f"comes to the same as {same.name}"
            left_out.append(LeftOut(one.name, why, named=True))
            continue
        made.append(one)
    return Seeds(tuple(made), tuple(left_out))


def warnings(arms: Sequence[Arm], here: Situation) -> tuple[str, ...]:
    """What is likely to end an arm's process. The user's word stands: it is tried."""
    found: list[str] = []
    for arm in arms:
        settings = here.before.merged(arm.settings)
        told = new_fault(here.before, settings, here.version, here.chip)
        if told:
            found.append(f"arm {arm.name}: {told}")
    return tuple(found)


def _read(arm: HandArm, here: Situation) -> Variant:
    settings = Settings()
    for name in arm.recipes:
        if name not in recipes() and not Path(name).is_file():
            raise arm.place.at("recipe").unknown(name, recipes())
        loaded = load_settings(name, version=here.version, chip=here.chip)
        settings = settings.merged(loaded)
    return Variant(arm.name, settings.merged(arm.settings))


def _own(arm: HandArm) -> tuple[Change, ...]:
    """A profile, and how processes are dealt out, which are no settings."""
    found: list[Change] = []
    if arm.profile:
        found.append(Change(dimension="PGLE", choice="on", acts=Acts.SCHEDULE, profile=True))
    if arm.per:
        per = named_per(arm.per)
        found.append(Change(dimension="processes", choice=per, acts=Acts.RUNTIME, per=arm.per))
    return tuple(found)
