"""What a compile left, before it is read: what is kept in the cache, and read again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from counterpoint.compile.workers.job import Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """The scheduled module, the compiler's log, how it went, and the options that were taken."""

    module: bytes
    log: str
    outcome: Outcome
    taken: Mapping[str, str]
