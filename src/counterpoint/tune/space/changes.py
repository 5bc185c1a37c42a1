"""Changes: settings taken apart into choices of dimensions, and what is no choice of any.

So an ablation can say which part of a recipe brings what, and equal parts are equal everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from counterpoint.flags import Settings
from counterpoint.flags.known import OWN, is_variable
from counterpoint.flags.layout import Layout
from counterpoint.tune.arm import Acts, Change, Per
from counterpoint.tune.space.break_points import name_of
from counterpoint.tune.space.situation import Situation
from counterpoint.tune.space.space import Dimension
from counterpoint.tune.space.standing import TWINS, says
from counterpoint.tune.space.table import known

_ON: Final = {"true": "on", "false": "off", "": "empty"}
_NEW: Final = {old: new for new, old in TWINS.items()}
_Name = tuple[str, str]


def changes_of(
    settings: Settings, dimensions: Sequence[Dimension], here: Situation
) -> tuple[Change, ...]:
    """All that settings change of the base, in the order of the dimensions, then as written."""
    left: dict[_Name, str] = {("xla", name): value for name, value in settings.flags.items()}
    left |= {("env", name): value for name, value in settings.variables.items()}
    left |= {("options", name): value for name, value in settings.options}
    found: dict[str, Change] = {}
    for change in _largest_first(dimensions):
        if change.dimension not in found and _within(change, left, here):
            found[change.dimension] = change
            for name in _pairs(change.settings):
                del left[name]
    chosen = (found[it.name] for it in dimensions if it.name in found)
    rest = (it for it in left.items() if not _is_idle(it[0], it[1], here))
    alone = (_alone(way, name, value) for (way, name), value in rest)
    return (*chosen, *alone, *_layout(settings.layout, here))


def _largest_first(dimensions: Sequence[Dimension]) -> list[Change]:
    """All choices: what sets several names goes before what sets one of them."""
    every = [change for it in dimensions for change in it.choices]
    return sorted(every, key=lambda it: -len(_pairs(it.settings)))


def named_per(per: Per) -> str:
    """As the dimension of processes names it."""
    return f"one per {'GPU' if per == 'gpu' else 'node'}"


def _layout(layout: Layout | None, here: Situation) -> tuple[Change, ...]:
    """One process for each GPU, where that is another way than the base's."""
    if layout is None:
        return ()
    per: Per | None = "gpu" if layout.gpus_per_process == 1 else None
    per = per if per != here.per and here.per is not None else None
    return (
        Change(
            dimension="processes",
            choice=named_per(per or "gpu"),
            settings=Settings(layout=layout),
            acts=Acts.RUNTIME,
            per=per,
        ),
    )


def _within(change: Change, left: dict[_Name, str], here: Situation) -> bool:
    pairs = _pairs(change.settings)
    same = all(_same(name, left.get(name), value, here) for name, value in pairs.items())
    return bool(pairs) and not (change.profile or change.per) and same


def _same(name: _Name, one: str | None, other: str, here: Situation) -> bool:
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


def _is_idle(name: _Name, value: str, here: Situation) -> bool:
    """Whether it says what holds anyhow; what is said of a compile always has its place."""
    return name[0] != "options" and says(name[1], value, here)


def _alone(way: str, name: str, value: str) -> Change:
    pair = ((name, value),)
    settings = Settings(
        xla=pair if way == "xla" else (),
        env=pair if way == "env" else (),
        options=pair if way == "options" else (),
    )
    dimension, choice = _spoken(name, value)
    if way == "env" and dimension == name and not is_variable(name):
        dimension = f"{OWN}{name}"
    acts = known().acts.get(name, Acts.RUNTIME)
    return Change(dimension=dimension, choice=choice, settings=settings, acts=acts)


def _spoken(name: str, value: str) -> tuple[str, str]:
    """As a dimension names it that is about this name alone, whether it is in the space or not."""
    new = _NEW.get(name, name)
    for draft in known().drafts.values():
        picks = [it.settings for several in draft.choices.values() for it in several]
        if any([_NEW.get(it, it) for it, _ in (*one.xla, *one.env)] != [new] for one in picks):
            continue
        if draft.combine and value.isdigit():
            return draft.name, name_of(int(value))
        named = (
            choice
            for choice, several in draft.choices.items()
            for it in several
            if value in dict((*it.settings.xla, *it.settings.env)).values()
        )
        return draft.name, next(named, value)
    return name, _ON.get(value, value)


def changes_something(settings: Settings, here: Situation) -> bool:
    """Whether any of it is not so already."""
    names = (*settings.flags.items(), *settings.variables.items())
    return bool(settings.options) or any(not says(name, value, here) for name, value in names)
