"""LintContext: the settings under examination, with all that rules ask of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Final

from counterpoint.flags.catalogue.flag import Flag, Release
from counterpoint.flags.lifecycle.lifecycle import Fate, fate
from counterpoint.flags.parsed import Occurrence, ParsedSource, Place, SyntaxIssue
from counterpoint.flags.settings import Channel
from counterpoint.flags.text.xla_flags import Pairs
from counterpoint.flags.versions.version import PROFILE, Family, family, number


@dataclass(frozen=True, kw_only=True)
class Case:
    """One check. `chip` is as hardware names it (`H100`, `A100`, `MI300X`, `TPU v5p`) or None.

    `profiling` where the settings are for a run whose profile becomes a PGLE profile.

    What the compiler itself said, where it disagrees with the other rules: what it `refused`, with
    its reason, and what it has `taken`, with the code of the rule that said it would not.
    """

    written: ParsedSource
    release: Release
    chip: str | None = None
    profiling: bool = False
    refused: Mapping[Occurrence, str] = field(default_factory=dict[Occurrence, str])
    taken: Mapping[Occurrence, str] = field(default_factory=dict[Occurrence, str])

    @property
    def xla(self) -> tuple[Occurrence, ...]:
        """What stands in XLA_FLAGS, in order."""
        return self.written.through(Channel.XLA_FLAGS)

    @property
    def compiler(self) -> tuple[Occurrence, ...]:
        """What stands in XLA_FLAGS and compiler_options, in order."""
        both = (Channel.XLA_FLAGS, Channel.COMPILER_OPTIONS)
        return tuple(one for one in self.written.given if one.channel in both)

    def fate(self, one: Occurrence) -> Fate:
        """What became of a flag's name in this release and channel."""
        return fate(one.name, self.release, one.channel)

    def known(self, one: Occurrence) -> Flag | None:
        """The flag, where its channel takes the name."""
        flag = self.release.flags.get(one.name)
        if flag is None:
            return None
        option = one.channel is Channel.COMPILER_OPTIONS
        return flag if (flag.compile_option if option else flag.xla_flags) else None

    @cached_property
    def flags(self) -> Mapping[str, str]:
        """One value per flag, as XLA folds XLA_FLAGS; compiler options have the last word."""
        settings = self.written.settings
        return {**settings.flags, **dict(settings.options)}

    @cached_property
    def variables(self) -> Mapping[str, str]:
        """One value per environment variable; jax.config's names in capitals."""
        return self.written.settings.variables

    def last(self, name: str) -> Occurrence | None:
        """Where a flag, option or variable is given last, or jax.config under a variable's name."""
        config = name.lower() if name.startswith("JAX_") else name
        given = reversed(self.written.given)
        return next((one for one in given if one.name in (name, config)), None)


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
    about: Occurrence | SyntaxIssue,
    message: str,
    advice: str,
    mend: Mend | None = None,
) -> Remark:
    """A remark on one setting, or on one slip, with its place and its text."""
    return Remark(
        code=code,
        severity=severity,
        channel=about.channel,
        name=about.name if isinstance(about, Occurrence) else "",
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


TRUE: Final = frozenset({"true", "1"})
FALSE: Final = frozenset({"false", "0"})
"""What XLA's parser takes for a bool, in any case."""

PIPELINED: Final = ("all_gather", "all_reduce", "reduce_scatter")
"""The collectives that XLA can begin an iteration early."""


def asked_value(case: Case, name: str) -> str | None:
    """A flag's value, given or by default; None if the release does not know it."""
    given = case.flags.get(name)
    if given is not None:
        return given
    flag = case.release.flags.get(name)
    return flag.default if flag else None


def asked_on(case: Case, name: str) -> bool:
    """Whether a bool is given, and true."""
    return case.flags.get(name, "").lower() in TRUE


def asked_off(case: Case, name: str) -> bool:
    """Whether a bool is given, and false."""
    return case.flags.get(name, "").lower() in FALSE


def items(case: Case, name: str) -> tuple[str, ...]:
    """The entries of a list that is given."""
    return tuple(entry.strip() for entry in case.flags.get(name, "").split(",") if entry.strip())


def pipelining(case: Case, kind: str) -> Occurrence | None:
    """Where one kind of collective is asked to begin an iteration early, under either name."""
    newer, older = f"xla_gpu_pipeline_{kind}", f"xla_gpu_enable_pipelined_{kind}"
    if case.flags.get(newer, "").rpartition("_")[2].lower() in ("on", "explicit"):
        return case.last(newer)
    return case.last(older) if asked_on(case, older) else None


def has_profile(case: Case) -> bool:
    """Whether a PGLE profile is given by XLA's flag."""
    return bool(case.flags.get(PROFILE))


def since(case: Case, version: str) -> bool:
    """Whether the release is this one or newer."""
    return number(case.release.asked or None) >= number(version)


def chip_is(case: Case, *families: Family) -> bool:
    """Whether the chip is known to be of one of these."""
    return family(case.chip) in families


def threshold(case: Case, name: str) -> int | None:
    """A whole number that is given; None if it is none."""
    text = case.flags.get(name, "")
    return int(text) if text.lstrip("-").isdecimal() else None


def nowhere(case: Case) -> Place:
    """The place of what is not written: the source as a whole."""
    return Place(case.written.where)


_NAMED: Final = 6


def what_is_lost(slip: SyntaxIssue) -> str:
    """Why it is wrong, with the flags behind it: they are neither judged nor settings."""
    if not slip.lost:
        return slip.why
    named = ", ".join(f"--{one.name}" for one in slip.lost[:_NAMED])
    more = f" and {len(slip.lost) - _NAMED} more" if len(slip.lost) > _NAMED else ""
    return f"{slip.why} (not read: {named}{more})"
