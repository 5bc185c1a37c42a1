"""XLA_FLAGS as text: its syntax, parsed and rendered as XLA does it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterpoint.core import lazy

if TYPE_CHECKING:
    from counterpoint.flags.text.xla_flags import Pairs as Pairs
    from counterpoint.flags.text.xla_flags import parse_xla_flags as parse_xla_flags
    from counterpoint.flags.text.xla_flags import render_xla_flags as render_xla_flags

__getattr__ = lazy(
    __name__,
    {
        "Pairs": "counterpoint.flags.text.xla_flags",
        "parse_xla_flags": "counterpoint.flags.text.xla_flags",
        "render_xla_flags": "counterpoint.flags.text.xla_flags",
    },
)
