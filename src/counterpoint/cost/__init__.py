"""The cost of an instruction on a Target: measured, else from a table, else by a formula."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterpoint.core import lazy

if TYPE_CHECKING:
    from counterpoint.cost.build import build_model as build_model
    from counterpoint.cost.measured import MeasuredCosts as MeasuredCosts
    from counterpoint.cost.model import Contention as Contention
    from counterpoint.cost.model import CostModel as CostModel
    from counterpoint.cost.model import Price as Price
    from counterpoint.cost.model import PriceFamily as PriceFamily
    from counterpoint.cost.model import PriceSource as PriceSource
    from counterpoint.cost.model import price_around as price_around
    from counterpoint.cost.scalars import Scalar as Scalar
    from counterpoint.cost.scalars import Scalars as Scalars
    from counterpoint.cost.scalars import default_scalars as default_scalars
    from counterpoint.cost.scalars import read_scalars as read_scalars
    from counterpoint.cost.scalars import scalars_toml as scalars_toml
    from counterpoint.cost.what_if import WhatIf as WhatIf
    from counterpoint.cost.what_if import parse_what_if as parse_what_if

__getattr__ = lazy(__name__)
