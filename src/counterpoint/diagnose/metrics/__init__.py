"""Metrics of a step: attribution of its time, and the op profile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterpoint.core import lazy

if TYPE_CHECKING:
    from counterpoint.diagnose.metrics.attribution import PHASES as PHASES
    from counterpoint.diagnose.metrics.ops import GROUPINGS as GROUPINGS
    from counterpoint.diagnose.metrics.ops import Grouping as Grouping
    from counterpoint.diagnose.metrics.ops import all_groups as all_groups
    from counterpoint.diagnose.metrics.ops import finest as finest
    from counterpoint.diagnose.metrics.ops import grouped as grouped

__getattr__ = lazy(
    __name__,
    {
        "Grouping": "counterpoint.diagnose.metrics.ops",
        "GROUPINGS": "counterpoint.diagnose.metrics.ops",
        "PHASES": "counterpoint.diagnose.metrics.attribution",
        "all_groups": "counterpoint.diagnose.metrics.ops",
        "finest": "counterpoint.diagnose.metrics.ops",
        "grouped": "counterpoint.diagnose.metrics.ops",
    },
)
