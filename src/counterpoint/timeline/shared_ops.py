"""One row for ops that are the same on several hosts.

Hosts of one run execute the same program: with a row for each host, a table of ops would grow with
the hosts, and everything that looks at ops one by one with it. A row is shared where all that is
known of the op is the same and the hosts hold the very same HLO of its program, so that whoever
asks an op's program for more gets the same answer for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counterpoint.timeline.model import OPS

_Key = tuple[Hashable, ...]
Describe = Callable[[], pl.DataFrame]
BuildOf = Callable[[int], Hashable]

_NAMES = ("module", "program_key")
"""What a host calls the op's program: the program itself is known better."""


class SharedOps:
    """Rows of the Timeline's ops, and which of them each host's ops are."""

    def __init__(self) -> None:
        self._as_read: dict[_Key, int] = {}
        self._described: dict[_Key, int] = {}
        self._rows: list[pl.DataFrame] = []

    def rows(
        self, ops: pl.DataFrame, programs: Sequence[int], build_of: BuildOf, describe: Describe
    ) -> NDArray[np.uint32]:
        """The row of each of a host's ops; `describe` is called where some are not known yet.

        `build_of` tells builds of a program apart: hosts may have compiled it differently.
        """
        builds = {program: (program, build_of(program)) for program in set(programs)}
        keys = list(zip(ops.drop(_NAMES).rows(), map(builds.get, programs), strict=True))
        known = [self._as_read.get(key) for key in keys]
        if None in known:
            known = self._add(describe().select(*OPS), [key[1] for key in keys])
            self._as_read.update(zip(keys, known, strict=True))
        return np.array(known, np.uint32)

    def _add(self, described: pl.DataFrame, builds: Sequence[Hashable]) -> list[int]:
        rows: list[int] = []
        new: list[int] = []
        for at, key in enumerate(zip(described.rows(), builds, strict=True)):
            if key not in self._described:
                self._described[key] = len(self._described)
                new.append(at)
            rows.append(self._described[key])
        self._rows.append(described[new])
        return rows

    def frame(self) -> pl.DataFrame:
        """All rows."""
        return pl.concat([pl.DataFrame(schema=OPS), *self._rows])
