"""Prices compute: GEMMs, attention, memory-bound fusions, copies, custom calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterpoint.core import lazy

if TYPE_CHECKING:
    from counterpoint.cost.compute.attention import attention_of as attention_of
    from counterpoint.cost.compute.gemm import Gemm as Gemm
    from counterpoint.cost.compute.gemm import gemms as gemms
    from counterpoint.cost.compute.gemm_price import price_gemm as price_gemm
    from counterpoint.cost.compute.machine import ComputeDevice as ComputeDevice
    from counterpoint.cost.compute.machine import machine_of as machine_of
    from counterpoint.cost.compute.pricing import price_compute as price_compute
    from counterpoint.cost.compute.user_kernel import register as register

__getattr__ = lazy(__name__)
