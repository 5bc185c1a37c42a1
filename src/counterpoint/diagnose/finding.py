"""A finding: something that costs time, with its evidence, its price and its remedy."""

from __future__ import annotations

from dataclasses import dataclass

from counterpoint.core import Basis, Range, Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One diagnosis.

    `saves_ms` is what a median step could gain, from what is certain to what is possible; Unknown
    where it says nothing about time but about what can be believed of the profile. `basis` is that
    of `saves_ms`: measured where it is a sum of spans, predicted where the simulator told it.
    `evidence` names the ops or lines that show it, with rows of the Timeline's spans.
    """

    code: str
    title: str
    detail: str
    saves_ms: Range | Unknown
    basis: Basis
    evidence: tuple[Evidence, ...]
    remedy: Remedy
    doubt: str | None = None
    """What in this profile speaks for a false alarm."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What shows it: an op, its cost in a median step, and up to a few of its spans' rows."""

    what: str
    ms: float | None
    spans: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Remedy:
    """What to do: words, and the settings to add where settings do it.

    `flags` are XLA flags as name and value, without dashes; made by `advise`, so that none is
    named that the user's version lacks.
    """

    text: str
    flags: tuple[tuple[str, str], ...] = ()
    environment: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        return self.text
