"""What changes from one Settings to another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
    return (
        *_changes(Channel.XLA_FLAGS, before.flags, after.flags),
        *_changes(Channel.COMPILER_OPTIONS, dict(before.options), dict(after.options)),
        *_changes(Channel.ENVIRONMENT, before.variables, after.variables),
    )


def _changes(
    channel: Channel, before: Mapping[str, str], after: Mapping[str, str]
) -> Iterator[Changed]:
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) != after.get(name):
            yield Changed(channel, name, before.get(name), after.get(name))
