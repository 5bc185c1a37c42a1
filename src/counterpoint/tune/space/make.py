"""Make a Space: which dimensions exist for this release, and can matter for this program.

    dimensions.toml, the user's file ── select ──► Dimensions ──┐
    recipes, recommended, arms by hand ──────────► seeds ───────┴──► Space

The same input makes the same space, in the same order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from counterpoint.flags import Settings, recipes
from counterpoint.hardware import Target
from counterpoint.hlo import Program
from counterpoint.tune.space.asked_of import checked, drafts_for, fixed, wanted
from counterpoint.tune.space.draft import Draft
from counterpoint.tune.space.hand_arms import hand_arms, typed_arms, warnings
from counterpoint.tune.space.recipe_arms import RECOMMENDED, recipe_arms
from counterpoint.tune.space.select import Selected, hint_of, selected
from counterpoint.tune.space.situation import Running, Situation, situation_of
from counterpoint.tune.space.space import Dimension, LeftOut, Space
from counterpoint.tune.space.space_file import SpaceFile

_NOTHING: Final = SpaceFile(file="")
_NOT_RUN: Final = Running()


def make_space(
    base: Settings,
    *,
    target: Target | None = None,
    program: Program | None = None,
    version: str | None = None,
    asked: SpaceFile | None = None,
    running: Running = _NOT_RUN,
    arms: Sequence[str] = (),
) -> Space:
    """All that may be tried on top of the base.

    Args:
        base: The settings that all arms change.
        target: The GPUs; None where none are known.
        program: The base, compiled; None where nobody compiled it: all kinds may be there then.
        version: Of the workload's jaxlib; None for the one that is installed here.
        asked: The user's file.
        running: What is known of the runs.
        arms: More arms by hand, as `predict --candidate` takes them.
    """
    said = asked or _NOTHING
    here = situation_of(
        base,
        version=version,
        target=target,
        program=program,
        running=running,
    )
    drafts = drafts_for(said)
    typed = typed_arms(arms, drafts, here)
    notes = checked(said, typed, here)
    here = replace(here, base=fixed(said, drafts, here))
    dimensions, left_out = _dimensions(drafts, said, here)
    by_hand = hand_arms((*said.arms, *typed), dimensions, here)
    unwanted = _unwanted(said, {it.name for it in by_hand.arms})
    found = recipe_arms(dimensions, here, unwanted, by_hand.arms)
    hint = hint_of(here.version)
    return Space(
        base=here.base,
        dimensions=dimensions,
        seeds=(*by_hand.arms, *found.arms),
        left_out=(*left_out, *by_hand.left_out, *found.left_out),
        version=here.version,
        chip=here.chip,
        notes=(*((hint,) if hint else ()), *notes, *warnings(by_hand.arms, here)),
    )


def refuse_odd(
    version: str | None, target: Target | None, asked: SpaceFile | None, arms: Sequence[str]
) -> None:
    """What making the space refuses of what the user named, before anything is lowered for it."""
    said = asked or _NOTHING
    here = situation_of(Settings(), version=version, target=target, program=None, running=_NOT_RUN)
    checked(said, typed_arms(arms, drafts_for(said), here), here)


def _dimensions(
    drafts: Mapping[str, Draft], said: SpaceFile, here: Situation
) -> tuple[tuple[Dimension, ...], tuple[LeftOut, ...]]:
    left_out: list[LeftOut] = []
    chosen: dict[str, Selected] = {}
    for name, draft in drafts.items():
        why = _not_wanted(name, said)
        # What is not wanted may hold anyhow, and others may need it.
        one = selected(draft, here, wanted(draft, said))
        if why is not None:
            fixed_ = name in said.fix
            left = (LeftOut(name, why),)
            one = replace(one, dimension=None, left_out=left, met=one.met or fixed_)
        left_out += one.left_out
        chosen[name] = one
    dimensions = {name: it.dimension for name, it in chosen.items() if it.dimension is not None}
    for name, why in _lacking(dimensions, chosen):
        del dimensions[name]
        left_out.append(LeftOut(name, why))
    return tuple(_closed(it, dimensions, chosen) for it in dimensions.values()), tuple(left_out)


def _not_wanted(name: str, said: SpaceFile) -> str | None:
    if name in said.fix:
        return f"fixed to {said.fix[name]} by {said.file}"
    if name in said.drop:
        return f"dropped by {said.file}"
    own = name in {it.name for it in said.drafts}
    if said.only is not None and name not in said.only and not own:
        return f"not one of those that {said.file} names"
    return None


def _lacking(
    dimensions: Mapping[str, Dimension], chosen: Mapping[str, Selected]
) -> list[tuple[str, str]]:
    """Those that need what is not there, and those that need these; each with why."""
    left = dict(dimensions)
    found: list[tuple[str, str]] = []
    while True:
        lacking = [
            (name, f"needs {needed}, which is left out")
            for name, it in left.items()
            for needed in it.needs
            if needed not in left and not chosen[needed].met
        ]
        if not lacking:
            return found
        for name, why in dict(lacking).items():
            del left[name]
            found.append((name, why))


def _closed(
    one: Dimension, dimensions: Mapping[str, Dimension], chosen: Mapping[str, Selected]
) -> Dimension:
    """Without conditions that hold anyhow; what excludes another is excluded by it, too."""
    needs = {name: it for name, it in one.needs.items() if not chosen[name].met}
    by_others = [it.name for it in dimensions.values() if one.name in it.excludes]
    excludes = dict.fromkeys([*one.excludes, *by_others])
    apart = tuple(it for it in excludes if it in dimensions)
    choices = tuple(replace(it, excludes=apart) for it in one.choices)
    return replace(one, needs=needs, excludes=apart, choices=choices)


def _unwanted(said: SpaceFile, taken: set[str]) -> Mapping[str, str]:
    """Recipes that are no arms because of what the user says, each with why."""
    found: dict[str, str] = {}
    for name in (*recipes(), RECOMMENDED):
        if name in taken:
            found[name] = "an arm by hand has its name"
        elif name in said.drop:
            found[name] = f"dropped by {said.file}"
        elif said.only is not None and name not in said.only:
            found[name] = f"not one of those that {said.file} names"
    return found
