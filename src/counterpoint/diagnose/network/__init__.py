"""Network analysis: slack, required and available bandwidth, demand, remote calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterpoint.core import lazy

if TYPE_CHECKING:
    from counterpoint.diagnose.network.analysis import NetworkAnalysis as NetworkAnalysis
    from counterpoint.diagnose.network.analysis import analyse as analyse
    from counterpoint.diagnose.network.calls import Calls as Calls
    from counterpoint.diagnose.network.calls import Pattern as Pattern
    from counterpoint.diagnose.network.demand import SATURATION as SATURATION
    from counterpoint.diagnose.network.demand import Demand as Demand

__getattr__ = lazy(
    __name__,
    {
        "Calls": "counterpoint.diagnose.network.calls",
        "Demand": "counterpoint.diagnose.network.demand",
        "NetworkAnalysis": "counterpoint.diagnose.network.analysis",
        "Pattern": "counterpoint.diagnose.network.calls",
        "SATURATION": "counterpoint.diagnose.network.demand",
        "analyse": "counterpoint.diagnose.network.analysis",
    },
)
