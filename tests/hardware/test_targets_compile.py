"""XLA's compiler takes what we tell it of GPUs whose description it does not ship for CUDA."""

from __future__ import annotations

from pathlib import Path

import pytest

from counterpoint.compile.inputs.workload import load_workload
from counterpoint.hardware.targets import parse_target
from lowered import Lowered

pytestmark = pytest.mark.system


@pytest.mark.parametrize("target", ["8xL40S", "8xRTX-PRO-6000", "8xMI300X"])
def test_a_step_compiles_for_it(target: str, lowered: Lowered) -> None:
    compiled = lowered.ask(load_workload(lowered.ir), parse_target(target))
    assert compiled.program.is_scheduled
    assert compiled.program.num_partitions == 8


SCALED = """
module @scaled {
  func.func public @main(%x: tensor<256x256xf8E4M3FN>, %w: tensor<256x256xf8E4M3FN>,
      %sx: tensor<bf16>, %sw: tensor<bf16>) -> tensor<256x256xbf16> {
    %0 = stablehlo.convert %x : (tensor<256x256xf8E4M3FN>) -> tensor<256x256xbf16>
    %1 = stablehlo.broadcast_in_dim %sx, dims = [] : (tensor<bf16>) -> tensor<256x256xbf16>
    %2 = stablehlo.multiply %0, %1 : tensor<256x256xbf16>
    %3 = stablehlo.convert %w : (tensor<256x256xf8E4M3FN>) -> tensor<256x256xbf16>
    %4 = stablehlo.broadcast_in_dim %sw, dims = [] : (tensor<bf16>) -> tensor<256x256xbf16>
    %5 = stablehlo.multiply %3, %4 : tensor<256x256xbf16>
    %6 = stablehlo.dot_general %2, %5, contracting_dims = [1] x [0]
      : (tensor<256x256xbf16>, tensor<256x256xbf16>) -> tensor<256x256xbf16>
    return %6 : tensor<256x256xbf16>
  }
}
"""


@pytest.mark.parametrize("target", ["1xH100", "1xB200"])
def test_products_of_scaled_8_bit_floats_are_calls_of_their_own(
    target: str, lowered: Lowered, tmp_path: Path
) -> None:
    path = tmp_path / "scaled.mlir"
    path.write_text(SCALED)
    options = {"xla_gpu_enable_triton_gemm": "false"}
    compiled = lowered.ask(load_workload(path), parse_target(target), options)
    calls = {it.custom_call_target for it in compiled.program.instructions}
    assert "__cublas$lt$matmul$f8" in calls
