"""Faults: settings that, taken as a whole, are known to crash a process or a compilation."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from counterpoint.flags import Channel, Settings
from counterpoint.flags.check import check
from counterpoint.flags.lint import Severity
from counterpoint.flags.parse import Location, Occurrence, ParsedSource
from counterpoint.flags.text import Pairs

_CRASHES: Final = frozenset({"FLAG405"})
"""Rules that only warn, because some programs survive; a search skips what may crash."""

_PLACE: Final = Location("arm")


def new_fault(base: Settings, settings: Settings, version: str | None, chip: str | None) -> str:
    """Return the first fault of the settings that the base lacks, or an empty string."""
    old = {(code, name) for code, name, _ in _faults(base, version, chip)}
    found = (
        f"{name}: {message}"
        for code, name, message in _faults(settings, version, chip)
        if (code, name) not in old
    )
    return next(found, "")


@lru_cache(maxsize=4096)
def _faults(
    settings: Settings, version: str | None, chip: str | None
) -> tuple[tuple[str, str, str], ...]:
    given = (
        *_given(settings.xla, Channel.XLA_FLAGS, "--"),
        *_given(settings.env, Channel.ENVIRONMENT, ""),
        *_given(settings.options, Channel.COMPILER_OPTIONS, ""),
    )
    written = ParsedSource(where=str(_PLACE), form="flags", given=given)
    return tuple(
        (remark.code, remark.name, remark.message)
        for remark in check(written, version=version, chip=chip)
        if remark.severity is Severity.ERROR or remark.code in _CRASHES
    )


def _given(pairs: Pairs, channel: Channel, dashes: str) -> Iterator[Occurrence]:
    for name, value in pairs:
        text = f"{dashes}{name}={value}"
        yield Occurrence(channel=channel, name=name, value=value, place=_PLACE, text=text)
