"""Plan: a program's schedule as blocks of work and the steps in which they are launched.

A block is work that runs in one go on one stream: what lies on the main stream between two
launches, or one asynchronous unit. Laid out once, a plan is run with any number of prices: what
hundreds of instructions cost becomes one number per block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from counterpoint.hlo import Instruction
from counterpoint.simulate.streams import Load

Seconds = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Block:
    """Instructions `first` to `last` (excluded) of the plan, one after the other on a stream."""

    index: int
    stream: int
    load: Load
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Work:
    """The main stream runs a block."""

    block: Block


@dataclass(frozen=True, slots=True)
class Launch:
    """Another stream gets a block, which waits for all work of the main stream before it."""

    block: Block
    start: str  # the instruction that launches it


@dataclass(frozen=True, slots=True)
class Join:
    """The main stream waits for what a start launched: of those named, the oldest."""

    starts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Loop:
    """A body run `trips` times; None: nobody knows, it is run once and so said."""

    name: str
    body: Steps
    trips: int | None
    condition: Steps = ()


@dataclass(frozen=True, slots=True)
class Choice:
    """Branches of which one runs."""

    name: str
    branches: tuple[Steps, ...]


Step = Work | Launch | Join | Loop | Choice
Steps = Sequence[Step]


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """What to run; `instructions` are those that have a price, in order of launch."""

    instructions: tuple[Instruction, ...]
    weights: Seconds  # how often each runs in one execution of its block
    blocks: tuple[Block, ...]
    steps: Steps
    streams: tuple[str, ...]
    loops: tuple[Loop, ...]
    choices: tuple[Choice, ...]

    def block_sums(self, costs: Seconds) -> Seconds:
        """Of something per instruction, the sum of each block."""
        return np.add.reduceat(costs * self.weights, [block.first for block in self.blocks])
