"""A space with what its named arms change beside its dimensions.

A recipe may set what no dimension has, or another value of it, and owe its gain to that. What it
sets is worth a try together with the rest, and without.
"""

from __future__ import annotations

from dataclasses import replace

from counterpoint.tune.arm import Acts, Change
from counterpoint.tune.space.space import Dimension, Space


def widened(space: Space) -> Space:
    """The same, with these changes as choices: those that act on the schedule."""
    dimensions = {it.name: it for it in space.dimensions}
    for arm in space.seeds:
        for change in arm.changes:
            if change.acts is Acts.SCHEDULE:
                dimensions[change.dimension] = _with(
                    dimensions.get(change.dimension), change, arm.name
                )
    return replace(space, dimensions=tuple(dimensions.values()))


def _with(dimension: Dimension | None, change: Change, source: str) -> Dimension:
    if dimension is None:
        return Dimension(
            name=change.dimension,
            choices=(change,),
            acts=change.acts,
            why=f"{source} changes it",
            source=source,
        )
    known = any(
        it.choice == change.choice or it.settings == change.settings for it in dimension.choices
    )
    return dimension if known else replace(dimension, choices=(*dimension.choices, change))
