"""Variant: a name and the Settings it stands for, from what a user writes as a candidate.

base        --recipe R --set FLAG=V --env K=V       the later has the last word
candidate   a flag line, a file, a recipe's name    on top of the base
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from counterpoint.flags import Settings


@dataclass(frozen=True, slots=True)
class Variant:
    """Settings to try, and what to call them."""

    name: str
    settings: Settings


def base_settings(
    recipes: Sequence[str] = (),
    flags: Sequence[str] = (),
    variables: Sequence[str] = (),
    *,
    version: str | None = None,
    chip: str | None = None,
) -> Settings:
    """Recipes and files in their order, then what is written out."""
    raise NotImplementedError


def candidate(
    text: str, base: Settings, *, version: str | None = None, chip: str | None = None
) -> Variant:
    """What `--candidate` names, on top of the base."""
    raise NotImplementedError
