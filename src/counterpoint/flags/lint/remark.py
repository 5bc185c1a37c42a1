"""Remark: what a rule says about one setting."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from counterpoint.flags.channel import Channel
from counterpoint.flags.written import Given, Place, Slip
from counterpoint.flags.xla_flags import Pairs


class Severity(StrEnum):
    """How bad it is."""

    ERROR = "error"  # the process ends, or the setting does the opposite of what it says
    WARNING = "warning"  # it does nothing, or costs something unawares
    NOTE = "note"  # true, and worth knowing


@dataclass(frozen=True, slots=True)
class Mend:
    """What to write instead of a setting: other settings of its channel; none: drop it.

    `safe` where the program stays the same, or starts to run at all. Unsafe ones are said, not
    made, by `--fix`.
    """

    instead: Pairs = ()
    safe: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Remark:
    """One line of a check: what is wrong with the value, why, and what to do."""

    code: str
    severity: Severity
    channel: Channel
    name: str
    text: str  # as written
    place: Place
    message: str  # one sentence without the place and the code
    advice: str  # one sentence: what to write instead
    mend: Mend | None = None


def remark(
    code: str,
    severity: Severity,
    about: Given | Slip,
    message: str,
    advice: str,
    mend: Mend | None = None,
) -> Remark:
    """A remark on one setting, or on one slip, with its place and its text."""
    return Remark(
        code=code,
        severity=severity,
        channel=about.channel,
        name=about.name if isinstance(about, Given) else "",
        text=about.text,
        place=about.place,
        message=message,
        advice=advice,
        mend=mend,
    )


def advice_of(instead: Pairs, channel: Channel) -> str:
    """The advice to write something else."""
    dashes = "--" if channel in (Channel.XLA_FLAGS, Channel.LIBTPU_INIT_ARGS) else ""
    return "write " + " ".join(f"{dashes}{name}={value}" for name, value in instead)
