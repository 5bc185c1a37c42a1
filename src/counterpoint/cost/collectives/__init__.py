"""The cost of communication: by a user's table, a shipped table, or NCCL's own model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterpoint.core import lazy

if TYPE_CHECKING:
    from counterpoint.cost.collectives.group_price import price_within as price_within
    from counterpoint.cost.collectives.measured_table import table_notes as table_notes
    from counterpoint.cost.collectives.nccl import steps as steps
    from counterpoint.cost.collectives.placement import Placement as Placement
    from counterpoint.cost.collectives.placement import pair_placement as pair_placement
    from counterpoint.cost.collectives.placement import pairs_of as pairs_of
    from counterpoint.cost.collectives.placement import placements as placements
    from counterpoint.cost.collectives.pricing import price_collective as price_collective

__getattr__ = lazy(__name__)
