"""Changes: settings taken apart into choices of dimensions, and what no dimension has.

So an ablation shows what each part of a recipe gains, and equal parts of different recipes are the
same change.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from counterpoint.flags.catalogue.libtpu import libtpu_flag
from counterpoint.flags.lines.known import OWN_PREFIX, is_variable
from counterpoint.flags.settings import Layout, Settings
from counterpoint.tune.arm import Acts, ArmChange, Per
from counterpoint.tune.space.context import SpaceContext
from counterpoint.tune.space.current_settings import OLD_NAMES, is_in_effect
from counterpoint.tune.space.dimensions import builtin_dimensions
from counterpoint.tune.space.space import Dimension
from counterpoint.tune.space.thresholds import threshold_name

_CHOICE_NAMES: Final = {"true": "on", "false": "off", "": "empty"}
_NEW_NAMES: Final = {old: new for new, old in OLD_NAMES.items()}
_Name = tuple[str, str]


def changes_of(
    settings: Settings, dimensions: Sequence[Dimension], here: SpaceContext
) -> tuple[ArmChange, ...]:
    """Return every change that settings make to the base, in dimension order, then as written.

    This lets an ablation show what each part of a recipe gains, and makes equal parts of different
    recipes the same change.
    """
    left: dict[_Name, str] = {("xla", name): value for name, value in settings.flags.items()}
    left |= {("env", name): value for name, value in settings.variables.items()}
    left |= {("options", name): value for name, value in settings.options}
    found: dict[str, ArmChange] = {}
    for change in _largest_first(dimensions):
        if change.dimension not in found and _within(change, left, here):
            found[change.dimension] = change
            for name in _pairs(change.settings):
                del left[name]
    chosen = (found[dimension.name] for dimension in dimensions if dimension.name in found)
    rest = (pair for pair in left.items() if not _is_idle(pair[0], pair[1], here))
    alone = (_alone(way, name, value) for (way, name), value in rest)
    return (*chosen, *alone, *_layout(settings.layout, here))


def _largest_first(dimensions: Sequence[Dimension]) -> list[ArmChange]:
    """Return all choices, those that set several names before those that set one of them."""
    every = [change for dimension in dimensions for change in dimension.choices]
    return sorted(every, key=lambda change: -len(_pairs(change.settings)))


def named_per(per: Per) -> str:
    """Return the choice of the `processes` dimension for this layout."""
    return f"one per {'GPU' if per == 'gpu' else 'node'}"


def _layout(layout: Layout | None, here: SpaceContext) -> tuple[ArmChange, ...]:
    """Return the change to one process per GPU, if the base has another layout."""
    if layout is None:
        return ()
    per: Per | None = "gpu" if layout.gpus_per_process == 1 else None
    per = per if per != here.per and here.per is not None else None
    return (
        ArmChange(
            dimension="processes",
            choice=named_per(per or "gpu"),
            settings=Settings(layout=layout),
            acts=Acts.RUNTIME,
            per=per,
        ),
    )


def _within(change: ArmChange, left: dict[_Name, str], here: SpaceContext) -> bool:
    pairs = _pairs(change.settings)
    same = all(_same(name, left.get(name), value, here) for name, value in pairs.items())
    return bool(pairs) and not (change.profile or change.per) and same


def _same(name: _Name, one: str | None, other: str, here: SpaceContext) -> bool:
    if one is None:
        return False
    flag = here.release.flags.get(name[1])
    if flag is None or flag.meaning(one) is None:
        return one == other
    return flag.meaning(one) == flag.meaning(other)


def _pairs(settings: Settings) -> dict[_Name, str]:
    found = {("xla", name): value for name, value in settings.xla}
    found |= {("env", name): value for name, value in settings.env}
    return found | {("options", name): value for name, value in settings.options}


def _is_idle(name: _Name, value: str, here: SpaceContext) -> bool:
    """Return True if the setting repeats the current value; compile options never do."""
    return name[0] != "options" and is_in_effect(name[1], value, here)


def _alone(way: str, name: str, value: str) -> ArmChange:
    pair = ((name, value),)
    settings = Settings(
        xla=pair if way == "xla" else (),
        env=pair if way == "env" else (),
        options=pair if way == "options" else (),
    )
    dimension, choice = _dimension_and_choice(name, value)
    if way == "env" and dimension == name and not is_variable(name):
        dimension = f"{OWN_PREFIX}{name}"
    of_libtpu = way == "options" and libtpu_flag(name) is not None
    acts = Acts.SCHEDULE if of_libtpu else builtin_dimensions().acts.get(name, Acts.RUNTIME)
    return ArmChange(dimension=dimension, choice=choice, settings=settings, acts=acts)


def _dimension_and_choice(name: str, value: str) -> tuple[str, str]:
    """Return the dimension and choice that are about this name alone, or the name and value."""
    new = _NEW_NAMES.get(name, name)
    for draft in builtin_dimensions().drafts.values():
        picks = [pick.settings for variants in draft.choices.values() for pick in variants]
        if any(
            [_NEW_NAMES.get(key, key) for key, _ in (*pick.xla, *pick.env)] != [new]
            for pick in picks
        ):
            continue
        if draft.combine and value.isdigit():
            return draft.name, threshold_name(int(value))
        named = (
            choice
            for choice, variants in draft.choices.items()
            for pick in variants
            if value in dict((*pick.settings.xla, *pick.settings.env)).values()
        )
        return draft.name, next(named, value)
    return name, _CHOICE_NAMES.get(value, value)


def changes_something(settings: Settings, here: SpaceContext) -> bool:
    """Return True if any of the settings differs from what is in effect already."""
    names = (*settings.flags.items(), *settings.variables.items())
    return bool(settings.options) or any(
        not is_in_effect(name, value, here) for name, value in names
    )
