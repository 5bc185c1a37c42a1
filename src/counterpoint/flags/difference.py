"""What changes from one Settings to another."""

from __future__ import annotations

from dataclasses import dataclass

from counterpoint.flags.channel import Channel
from counterpoint.flags.settings import Settings


@dataclass(frozen=True, slots=True)
class Changed:
    """One setting that differs; None where it is not given."""

    channel: Channel
    name: str
    before: str | None
    after: str | None


def difference(before: Settings, after: Settings) -> tuple[Changed, ...]:
    """All that differs, flags first, as XLA folds what is given twice; sorted by name."""
    raise NotImplementedError
