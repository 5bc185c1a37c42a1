"""The ways to group ops: names that the command's help needs without the tables behind it."""

from __future__ import annotations

from typing import Final, Literal, get_args

Grouping = Literal["scope", "source", "category", "op"]

GROUPINGS: Final[tuple[Grouping, ...]] = get_args(Grouping)
