"""Values of settings: their types, and common misspellings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterpoint.core import lazy

if TYPE_CHECKING:
    from counterpoint.flags.values.values import refusal as refusal

__getattr__ = lazy(
    __name__,
    {
        "refusal": "counterpoint.flags.values.values",
    },
)
