"""Make a Space: the dimensions that exist for this release and can matter for this program.

    dimensions.toml, the user's file ── select ──► Dimensions ──┐
    recipes, recommended, manual arms ───────────► seeds ───────┴──► Space

The same input makes the same space, in the same order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from counterpoint.flags.catalogue.lookup import release
from counterpoint.flags.recipe import recipes
from counterpoint.flags.settings import Settings
from counterpoint.hardware.target import Target
from counterpoint.hlo.model.program import Program
from counterpoint.tune.space.context import RunFacts, SpaceContext, space_context
from counterpoint.tune.space.dimensions import Draft
from counterpoint.tune.space.hand_arms import hand_arms, typed_arms, warnings
from counterpoint.tune.space.recipe_arms import RECOMMENDED, recipe_arms
from counterpoint.tune.space.selection import DraftSelection, select
from counterpoint.tune.space.space import Dimension, LeftOut, Space
from counterpoint.tune.space.space_edits import (
    drafts_for,
    flag_hints,
    wanted_choices,
    with_fixed_settings,
)
from counterpoint.tune.space.space_file import SpaceFile

_NO_FILE: Final = SpaceFile(file="")
_NOT_RUN: Final = RunFacts()


def hint_of(version: str | None) -> str | None:
    """Return a hint if the catalogue is of another release than the workload's."""
    found = release(version)
    if version is None:
        return f"the version of jaxlib is unknown: using the settings of {found.version}"
    if found.exact:
        return None
    return f"jaxlib {version} is not in the catalogue: using the settings of {found.version}"


def make_space(
    base: Settings,
    *,
    target: Target | None = None,
    program: Program | None = None,
    version: str | None = None,
    space_file: SpaceFile | None = None,
    run_facts: RunFacts = _NOT_RUN,
    arms: Sequence[str] = (),
) -> Space:
    """Make the space of everything that may be tried on top of the base.

    Args:
        base: The settings that all arms change.
        target: The GPUs; None if unknown.
        program: The compiled base; None if not compiled: it may then have any collective.
        version: The workload's jaxlib; None for the one installed here.
        space_file: The user's file.
        run_facts: What is known of the runs.
        arms: More manual arms, as `predict --candidate` takes them.
    """
    space_file = space_file or _NO_FILE
    here = space_context(
        base,
        version=version,
        target=target,
        program=program,
        run_facts=run_facts,
    )
    drafts = drafts_for(space_file)
    typed = typed_arms(arms, drafts, here)
    notes = flag_hints(space_file, typed, here)
    here = replace(here, base=with_fixed_settings(space_file, drafts, here))
    dimensions, left_out = _dimensions(drafts, space_file, here)
    by_hand = hand_arms((*space_file.arms, *typed), dimensions, here)
    unwanted = _unwanted(space_file, {arm.name for arm in by_hand.arms})
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


def refuse_wrong_names(
    version: str | None, target: Target | None, space_file: SpaceFile | None, arms: Sequence[str]
) -> None:
    """Raise the errors of the user's file and arms early, before the workload is lowered."""
    space_file = space_file or _NO_FILE
    here = space_context(
        Settings(), version=version, target=target, program=None, run_facts=_NOT_RUN
    )
    flag_hints(space_file, typed_arms(arms, drafts_for(space_file), here), here)


def _dimensions(
    drafts: Mapping[str, Draft], space_file: SpaceFile, here: SpaceContext
) -> tuple[tuple[Dimension, ...], tuple[LeftOut, ...]]:
    left_out: list[LeftOut] = []
    chosen: dict[str, DraftSelection] = {}
    for name, draft in drafts.items():
        why = _not_wanted(name, space_file)
        # The base may have a choice of a dimension that is not wanted, and others may need it.
        selection = select(draft, here, wanted_choices(draft, space_file))
        if why is not None:
            is_fixed = name in space_file.fix
            left = (LeftOut(name, why),)
            selection = replace(
                selection, dimension=None, left_out=left, met=selection.met or is_fixed
            )
        left_out += selection.left_out
        chosen[name] = selection
    dimensions = {
        name: selection.dimension
        for name, selection in chosen.items()
        if selection.dimension is not None
    }
    for name, why in _lacking(dimensions, chosen):
        del dimensions[name]
        left_out.append(LeftOut(name, why))
    return tuple(
        _closed(dimension, dimensions, chosen) for dimension in dimensions.values()
    ), tuple(left_out)


def _not_wanted(name: str, space_file: SpaceFile) -> str | None:
    if name in space_file.fix:
        return f"fixed to {space_file.fix[name]} by {space_file.file}"
    if name in space_file.drop:
        return f"dropped by {space_file.file}"
    own = name in {draft.name for draft in space_file.drafts}
    if space_file.only is not None and name not in space_file.only and not own:
        return f"not selected by {space_file.file}"
    return None


def _lacking(
    dimensions: Mapping[str, Dimension], chosen: Mapping[str, DraftSelection]
) -> list[tuple[str, str]]:
    """Return the dimensions with unmet `needs`, directly or indirectly, each with the reason."""
    left = dict(dimensions)
    found: list[tuple[str, str]] = []
    while True:
        lacking = [
            (name, f"needs {needed}, which is left out")
            for name, dimension in left.items()
            for needed in dimension.needs
            if needed not in left and not chosen[needed].met
        ]
        if not lacking:
            return found
        for name, why in dict(lacking).items():
            del left[name]
            found.append((name, why))


def _closed(
    one: Dimension, dimensions: Mapping[str, Dimension], chosen: Mapping[str, DraftSelection]
) -> Dimension:
    """Drop the `needs` that are met already, and make `excludes` symmetric."""
    needs = {name: choice for name, choice in one.needs.items() if not chosen[name].met}
    by_others = [
        dimension.name for dimension in dimensions.values() if one.name in dimension.excludes
    ]
    excludes = dict.fromkeys([*one.excludes, *by_others])
    apart = tuple(excluded for excluded in excludes if excluded in dimensions)
    choices = tuple(replace(change, excludes=apart) for change in one.choices)
    return replace(one, needs=needs, excludes=apart, choices=choices)


def _unwanted(space_file: SpaceFile, taken: set[str]) -> Mapping[str, str]:
    """Return the recipes that the user's file excludes as arms, each with the reason."""
    found: dict[str, str] = {}
    for name in (*recipes(), RECOMMENDED):
        if name in taken:
            found[name] = "one of your arms has this name"
        elif name in space_file.drop:
            found[name] = f"dropped by {space_file.file}"
        elif space_file.only is not None and name not in space_file.only:
            found[name] = f"not selected by {space_file.file}"
    return found
