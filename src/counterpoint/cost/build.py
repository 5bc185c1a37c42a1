"""The cost model of a Target: per instruction the first source that knows it.

Measured in a profile of this workload; else in a table that the user gave; else in a table that
Counterpoint ships; else by a formula; else a bound. Never free where work is launched.
"""

from __future__ import annotations

from collections.abc import Sequence

from counterpoint.cost.measured import Measured
from counterpoint.cost.model import CostModel
from counterpoint.cost.scalars import Scalars
from counterpoint.cost.tables import GemmTable
from counterpoint.cost.what_if import WhatIf
from counterpoint.hardware import Target


def build_model(
    target: Target,
    *,
    scalars: Scalars | None = None,
    measured: Measured | None = None,
    tables: Sequence[GemmTable] = (),
    what_if: WhatIf | None = None,
) -> CostModel:
    """What every instruction costs on the target.

    `tables` are a user's own (nccl-tests logs, GEMM benchmarks) and go before ours; `scalars` are
    the chip's default ones where none are given.
    """
    raise NotImplementedError
