"""Collectives of a step: exposure, slack, links, and the bound of each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterpoint.core import lazy

if TYPE_CHECKING:
    from counterpoint.diagnose.collectives.bound import Bound as Bound
    from counterpoint.diagnose.collectives.wire import Link as Link

__getattr__ = lazy(
    __name__,
    {
        "Bound": "counterpoint.diagnose.collectives.bound",
        "Link": "counterpoint.diagnose.collectives.wire",
    },
)
