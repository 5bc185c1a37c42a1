"""What the chips' files say of kernels is complete: the cost model decodes all of it."""

from __future__ import annotations

import pytest

from counterpoint.cost.compute.gemm_price import rates
from counterpoint.cost.compute.kernels import kernels_of
from counterpoint.cost.scalars import default_scalars
from counterpoint.hardware.chip import Chip, chips


@pytest.mark.parametrize("chip", [it for it in chips() if it.kernels], ids=lambda chip: chip.name)
def test_a_chips_kernels_and_scalars_are_decoded(chip: Chip) -> None:
    measured_on, kernels = kernels_of(chip.name)
    assert measured_on is chip
    assert "bf16" in kernels.gemm  # all other types work like it
    assert 0.3 < kernels.gemm["bf16"].share < 1
    assert 0.3 < kernels.attention.backward <= kernels.attention.forward < 1
    if kernels.gemm_table:
        assert chip.gpu  # the table was measured on its cores
        assert "bf16" in rates(kernels.gemm_table)
    assert 0.5 < default_scalars(chip.name).matmul.value < 1


def test_each_scalar_of_a_file_is_used() -> None:
    for chip in chips():
        for name, written in chip.scalars.items():
            assert getattr(default_scalars(chip.name), name).value == written["value"]
