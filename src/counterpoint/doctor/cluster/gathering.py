"""Gathering: the reports that came, the clocks, and who did not come."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from counterpoint.doctor.cluster.clock import Offset
from counterpoint.doctor.cluster.report import Report


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathering:
    """`size` ranks were to come within `seconds`. `offsets` by rank, against rank 0's clock.

    `left`: ranks that had connected and ended before they had said all.
    """

    size: int
    seconds: float
    reports: tuple[Report, ...]
    offsets: Mapping[int, Offset]
    left: tuple[int, ...] = ()

    @property
    def missing(self) -> tuple[int, ...]:
        """Ranks without a report."""
        came = {report.rank for report in self.reports}
        return tuple(rank for rank in range(self.size) if rank not in came)

    @property
    def offset_of_host(self) -> Mapping[str, Offset]:
        """By host: the surest of what was measured with its ranks."""
        best: dict[str, Offset] = {}
        for report in self.reports:
            one = self.offsets.get(report.rank)
            if one and (report.host not in best or one.within_ms < best[report.host].within_ms):
                best[report.host] = one
        return best
