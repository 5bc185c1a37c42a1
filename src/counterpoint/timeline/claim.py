"""Give ops whose program the profiler does not name to the programs in whose runs they execute."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counterpoint.timeline.runs import NO_PROGRAM, NO_RUN, FoundRuns, Programs


@dataclass(frozen=True, slots=True, eq=False)
class Claimed:
    """The recording's ops with their programs, and the op of each span.

    An op that executes in runs of several programs has become a row for each.
    """

    ops: pl.DataFrame
    programs: Programs
    op_of_span: NDArray[np.uint32]


def claim_ops(
    ops: pl.DataFrame, programs: Programs, op_of_span: NDArray[np.uint32], found: FoundRuns
) -> Claimed:
    """Settle the program of every op that has none but executes in a run."""
    loose = (programs[op_of_span] == NO_PROGRAM) & (found.run_of != NO_RUN)
    if not loose.any():
        return Claimed(ops, programs, op_of_span)
    run_program = found.runs["program"].to_numpy().astype(np.int64)
    factor = int(run_program.max()) + 1
    pair = op_of_span[loose].astype(np.int64) * factor + run_program[found.run_of[loose]]
    kinds, code = np.unique(pair, return_inverse=True)
    op, program = kinds // factor, (kinds % factor).astype(np.int32)
    rows = len(ops) + np.arange(len(kinds))
    claimed = op_of_span.copy()
    claimed[loose] = rows[code].astype(np.uint32)
    return Claimed(pl.concat([ops, ops[op]]), np.concatenate([programs, program]), claimed)
