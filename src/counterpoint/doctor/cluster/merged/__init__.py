"""What can be said of hosts together only: one module each, documented as the checks are.

DOC6xx  several hosts
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Protocol

from counterpoint.core.rulebook import Documented
from counterpoint.doctor.cluster.gathering import Gathering
from counterpoint.doctor.cluster.merged import clocks_apart, hosts_differ, missing_ranks
from counterpoint.doctor.diagnosis import Verdict


class Comparison(Documented, Protocol):
    """A pure function of what all ranks sent."""

    def check(self, gathering: Gathering) -> Iterator[Verdict]:
        """What there is to say; at least one Verdict."""
        ...


COMPARISONS: Final[tuple[Comparison, ...]] = (hosts_differ, clocks_apart, missing_ranks)
"""All of them, by code."""
