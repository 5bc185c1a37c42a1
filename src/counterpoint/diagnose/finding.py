"""A finding: something that costs time, with its evidence, its price and its remedy."""

from __future__ import annotations

from dataclasses import dataclass

from counterpoint.core.basis import Basis, Range


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One diagnosis.

    `saves_ms` is what a median step could gain, from what is certain to what is possible.
    `evidence` names the ops or lines that show it, with rows of the Timeline's spans.
    """

    code: str
    title: str
    detail: str
    saves_ms: Range
    basis: Basis
    evidence: tuple[Evidence, ...]
    remedy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What shows it: an op, its cost in a median step, and up to a few of its spans' rows."""

    what: str
    ms: float | None
    spans: tuple[int, ...] = ()
