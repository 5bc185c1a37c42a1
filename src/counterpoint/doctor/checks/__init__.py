"""The checks: one module each, listed here by code. A check's docstring is its documentation.

    DOC1xx  software: versions, driver, flags
    DOC2xx  profiling: who else holds the profiler
    DOC3xx  memory, files and limits
    DOC4xx  network
    DOC5xx  the machine: clock, processor, GPUs
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Protocol

from counterpoint.core.rulebook import Documented
from counterpoint.doctor.facts import Facts
from counterpoint.doctor.verdict import Verdict


class Check(Documented, Protocol):
    """What a check's module has: documentation, and a pure function of Facts."""

    def check(self, facts: Facts) -> Iterator[Verdict]:
        """What there is to say; at least one Verdict."""
        ...


CHECKS: Final[tuple[Check, ...]] = ()
"""All checks, by code."""
