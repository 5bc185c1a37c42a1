"""Network analysis: slack, required and available bandwidth, demand, remote calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterpoint.core import lazy

if TYPE_CHECKING:
    from counterpoint.diagnose.collectives.bound import Bound as Bound
    from counterpoint.diagnose.collectives.links import Link as Link
    from counterpoint.diagnose.network.analysis import NetworkAnalysis as NetworkAnalysis
    from counterpoint.diagnose.network.analysis import analyze_network as analyze_network
    from counterpoint.diagnose.network.calls import LatencyPattern as LatencyPattern
    from counterpoint.diagnose.network.calls import RemoteCalls as RemoteCalls
    from counterpoint.diagnose.network.demand import SATURATION as SATURATION
    from counterpoint.diagnose.network.demand import Demand as Demand

__getattr__ = lazy(__name__)
