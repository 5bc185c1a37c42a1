"""Advise: a remedy whose settings exist in the version that made the profile."""

from __future__ import annotations

from collections.abc import Mapping

from counterpoint.diagnose.case import Case
from counterpoint.diagnose.finding import Remedy
from counterpoint.flags.catalogue.lookup import release


def advise(
    case: Case,
    text: str,
    flags: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Remedy:
    """A Remedy; flags that the version lacks, or that are given so already, are left out.

    Where no version is known, flags of the newest release in the catalogue are meant.
    """
    known = _known(case)
    given = case.context.flags or {}
    kept = tuple(
        (name, value)
        for name, value in (flags or {}).items()
        if name in known and given.get(name) != value
    )
    return Remedy(text, kept, tuple((environment or {}).items()))


def _known(case: Case) -> Mapping[str, object]:
    return release(case.context.jaxlib).flags
