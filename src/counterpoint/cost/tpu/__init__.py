"""Prices on TPUs: XLA's own estimates where it wrote them, else bytes, FLOPs, and links of a slice.

pricing.py has the cost model, and ici.py the formulas of collectives.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterpoint.core import lazy

if TYPE_CHECKING:
    from counterpoint.cost.tpu.pricing import TpuPrices as TpuPrices
    from counterpoint.cost.tpu.pricing import estimated_cycles as estimated_cycles

__getattr__ = lazy(__name__)
