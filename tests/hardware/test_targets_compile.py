"""XLA's compiler takes what we tell it of GPUs whose description it does not ship for CUDA."""

from __future__ import annotations

import pytest

from counterpoint.compile import compile_workload, load_workload, parse_target
from lowered import Lowered

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("target", ["8xL40S", "8xRTX-PRO-6000", "8xMI300X"])
def test_a_step_compiles_for_it(target: str, lowered: Lowered) -> None:
    compiled = compile_workload(load_workload(lowered.ir), parse_target(target))
    assert compiled.program.is_scheduled
    assert compiled.program.num_partitions == 8
