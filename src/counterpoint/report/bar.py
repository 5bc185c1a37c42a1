"""A bar of parts: how many characters each gets, and which sign it is drawn with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final

from counterpoint.report.document import Part, Slice

Pattern = Mapping[Part, str]

BLOCKS: Final[Pattern] = {
    Part.COMPUTE: "█",
    Part.HIDDEN: "▓",
    Part.COLLECTIVE: "▒",
    Part.COPY: "░",
    Part.IDLE: "·",
}
LETTERS: Final[Pattern] = {
    Part.COMPUTE: "#",
    Part.HIDDEN: "+",
    Part.COLLECTIVE: "=",
    Part.COPY: "-",
    Part.IDLE: ".",
}


def bar_cells(slices: Sequence[Slice], width: int) -> list[tuple[Part, int]]:
    """Each part with its number of characters, which together are the width.

    A slice within another takes its characters from that one.
    """
    inner = {item.within: item.fraction for item in slices if item.within is not None}
    own = [item.fraction - inner.get(item.part, 0.0) for item in slices]
    ends = [0.0]
    for fraction in own:
        ends.append(ends[-1] + max(fraction, 0.0))
    whole = ends[-1] or 1.0
    bounds = [round(end / whole * width) for end in ends]
    return [
        (item.part, last - first)
        for item, (first, last) in zip(slices, pairwise(bounds), strict=True)
    ]
