"""LintContext: the settings under examination, with all that rules need to know about them.

Also remarks, the result of rules, and JAX's spellings of a bool in the environment.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Annotated, Final

from counterpoint.core.field import Field
from counterpoint.core.printable import some
from counterpoint.flags.catalogue.flag import Flag, Release
from counterpoint.flags.catalogue.libtpu import libtpu_flag
from counterpoint.flags.lifecycle import (
    FlagLifecycle,
    consequence_of_rejection,
    lifecycle_of,
    successors,
)
from counterpoint.flags.parsed import (
    NSYS_VARIABLES,
    IssueKind,
    Location,
    Occurrence,
    ParsedSource,
    SyntaxIssue,
)
from counterpoint.flags.settings import Channel
from counterpoint.flags.text import Pairs
from counterpoint.flags.versions import PROFILE, ChipFamily, chip_family, version_number

__all__ = ["Fix", "Remark", "Severity", "advice_of", "lost_flags_text"]


@dataclass(frozen=True, kw_only=True)
class LintContext:
    """One check. `chip` is as `hardware` names it (`H100`, `A100`, `MI300X`, `TPU v5p`) or None.

    `profiling`: the settings are for a run whose profile becomes a PGLE profile.

    `refused` and `taken` are the compiler's answers that contradict other rules: settings refused,
    with its reason, and accepted, with the code of the rule that expected a refusal.
    """

    written: ParsedSource
    release: Release
    chip: str | None = None
    profiling: bool = False
    refused: Mapping[Occurrence, str] = field(default_factory=dict[Occurrence, str])
    taken: Mapping[Occurrence, str] = field(default_factory=dict[Occurrence, str])

    @property
    def xla(self) -> tuple[Occurrence, ...]:
        """The settings in XLA_FLAGS, in order."""
        return self.written.through(Channel.XLA_FLAGS)

    @property
    def compiler(self) -> tuple[Occurrence, ...]:
        """The settings in XLA_FLAGS and compiler_options, in order."""
        channels = (Channel.XLA_FLAGS, Channel.COMPILER_OPTIONS)
        return tuple(
            occurrence for occurrence in self.written.given if occurrence.channel in channels
        )

    def lifecycle(self, one: Occurrence) -> FlagLifecycle:
        """Return the lifecycle of a flag's name in this release and channel."""
        return lifecycle_of(one.name, self.release, one.channel)

    def consequence(self, one: Occurrence) -> str:
        """Return what happens with a setting that its channel does not accept."""
        return consequence_of_rejection(one.channel, self.release)

    def known(self, one: Occurrence) -> Flag | None:
        """Return the flag, if its channel accepts the name."""
        flag = self.release.flags.get(one.name)
        if flag is None:
            return None
        option = one.channel is Channel.COMPILER_OPTIONS
        return flag if (flag.compile_option if option else flag.xla_flags) else None

    def is_for_libtpu(self, one: Occurrence) -> bool:
        """Return whether it is a compile option that only libtpu has, and the chip may be a TPU."""
        if one.channel is not Channel.COMPILER_OPTIONS or one.name in self.release.flags:
            return False
        on_tpu = self.chip is None or chip_is(self, ChipFamily.TPU)
        return on_tpu and libtpu_flag(one.name) is not None

    @cached_property
    def flags(self) -> Mapping[str, str]:
        """One value per flag, as XLA merges XLA_FLAGS; compiler options take precedence."""
        settings = self.written.settings
        return {**settings.flags, **dict(settings.options)}

    @cached_property
    def variables(self) -> Mapping[str, str]:
        """One value per environment variable; jax.config's names in upper case."""
        return self.written.settings.variables

    def inherits(self, channel: Channel) -> bool:
        """Return whether flags that are not known here come before those of a channel."""
        return any(part.endswith(f" {channel}") for part in self.written.inherited)

    def last(self, name: str) -> Occurrence | None:
        """Return the last occurrence of a flag, option or variable, or of its jax.config name."""
        config = name.lower() if name.startswith("JAX_") else name
        given = reversed(self.written.given)
        return next((occurrence for occurrence in given if occurrence.name in (name, config)), None)


class Severity(StrEnum):
    """The severity of a remark."""

    ERROR = "error"  # the process ends, or the setting does the opposite of what it says
    WARNING = "warning"  # it does nothing, or has an unexpected cost
    NOTE = "note"  # not a problem, but worth knowing


@dataclass(frozen=True, slots=True)
class Fix:
    """A fix of a setting: the settings to write instead in its channel; empty: remove it.

    `safe`: the program stays the same, or starts to run at all. `--fix` only reports unsafe ones.
    """

    instead: Annotated[
        Pairs, Field("pairs of name and value to write in its place; empty: remove it")
    ] = ()
    safe: Annotated[
        bool,
        Field(
            "true if the program stays the same, or starts to run at all; `--fix` makes only these"
        ),
    ] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Remark:
    """One line of a check: what is wrong with the value, why, and what to do."""

    code: str
    severity: Severity
    channel: Channel
    name: str
    text: str  # as written
    place: Location
    message: str  # one sentence without the place and the code
    advice: str  # one sentence: what to write instead
    fix: Fix | None = None
    minor: str = ""  # why nobody would act on it: a summary counts it with others


ALL_SETTINGS: Final = "all settings"
"""The text of a remark that a rule failed, so that nothing was checked by it."""


def remark(
    code: str,
    severity: Severity,
    about: Occurrence | SyntaxIssue,
    message: str,
    advice: str,
    fix: Fix | None = None,
) -> Remark:
    """Build a remark on one setting or one syntax issue, with its place and its text."""
    return Remark(
        code=code,
        severity=severity,
        channel=about.channel,
        name=about.name if isinstance(about, Occurrence) else "",
        text=about.text,
        place=about.place,
        message=message,
        advice=advice,
        fix=fix,
    )


def advice_of(instead: Pairs, channel: Channel) -> str:
    """Return the advice to write something else."""
    dashes = "--" if channel in (Channel.XLA_FLAGS, Channel.LIBTPU_INIT_ARGS) else ""
    return "write " + " ".join(f"{dashes}{name}={value}" for name, value in instead)


_INNER: Final = re.compile(r"(?<=\S)(?=--(?:xla|megascale)_\w)")


def run_together(one: Occurrence) -> tuple[str, ...]:
    """Return the flags that are one for want of a blank; nothing if it is a single one."""
    parts = tuple(_INNER.split(one.text)) if one.text.startswith("--") else ()
    return parts if parts[1:] else ()


def jax_setting(like: Occurrence, name: str, value: str) -> str:
    """Write one of JAX's settings in the form in which another one is given.

    A variable beside `jax.config.update` would be overridden: the code itself has to change.
    """
    if like.channel is not Channel.JAX_CONFIG:
        return f"{name}={value}"
    function, opening, _ = like.text.partition("(")
    if not opening:  # an entry of a file
        return f"{name.lower()}: {value}"
    before, here, _ = function.rpartition(like.name.removeprefix("jax_"))
    if here:  # `with config.pgle_profiling_runs(3)`
        return f"{before}{name.lower().removeprefix('jax_')}({value.capitalize()})"
    return f'{function}("{name.lower()}", {value.capitalize()})'


def jax_name(like: Occurrence, name: str) -> str:
    """Return the name of one of JAX's settings where another one is given."""
    return name.lower() if like.channel is Channel.JAX_CONFIG else name


def quoted_for_jax(one: Occurrence) -> bool:
    """Return whether a program gives `jax.config` a text: no number, and no bool but true."""
    ends = one.text.removesuffix(")").rstrip(", ")
    return one.channel is Channel.JAX_CONFIG and ends.endswith(("'", '"'))


TRUE: Final = frozenset({"true", "1"})
FALSE: Final = frozenset({"false", "0"})
"""Spellings of a bool that XLA's parser accepts, in any case."""

PIPELINED: Final = ("all_gather", "all_reduce", "reduce_scatter")
"""The collectives that XLA can start one iteration early."""


def flag_value(case: LintContext, name: str) -> str | None:
    """Return a flag's value, given or by default; None if the release does not know it.

    Another flag gives it, too, which the release no longer has and which this one replaces: that
    is a mistake for another rule, and what was meant is known.
    """
    given = case.flags.get(name)
    if given is not None:
        return given
    for former, value in case.flags.items():
        meant = {} if former in case.release.flags else dict(successors(former, value))
        if name in meant:
            return meant[name]
    flag = case.release.flags.get(name)
    return flag.default if flag else None


def flag_on(case: LintContext, name: str) -> bool:
    """Return whether a bool is given and true."""
    return case.flags.get(name, "").lower() in TRUE


def flag_off(case: LintContext, name: str) -> bool:
    """Return whether a bool is given and false."""
    return case.flags.get(name, "").lower() in FALSE


def items(case: LintContext, name: str) -> tuple[str, ...]:
    """Return the entries of a list that is given."""
    return tuple(entry.strip() for entry in case.flags.get(name, "").split(",") if entry.strip())


def pipelining(case: LintContext, kind: str) -> Occurrence | None:
    """Return where one kind of collective is set to start an iteration early, by either name."""
    newer, older = f"xla_gpu_pipeline_{kind}", f"xla_gpu_enable_pipelined_{kind}"
    if case.flags.get(newer, "").rpartition("_")[2].lower() in ("on", "explicit"):
        return case.last(newer)
    return case.last(older) if flag_on(case, older) else None


def has_profile(case: LintContext) -> bool:
    """Return whether XLA's flag gives a PGLE profile."""
    return bool(case.flags.get(PROFILE))


def since(case: LintContext, version: str) -> bool:
    """Return whether the release is this one or newer."""
    return version_number(case.release.asked or None) >= version_number(version)


def may_be_amd(case: LintContext) -> bool:
    """Return whether RCCL, with defaults of its own, may be in the place of NCCL."""
    return chip_family(case.chip) in (None, ChipFamily.AMD)


def chip_is(case: LintContext, *families: ChipFamily) -> bool:
    """Return whether the chip is known to be of one of these families."""
    return chip_family(case.chip) in families


_WHOLE: Final = re.compile(r"-?\d{1,20}", re.ASCII)  # more digits than any flag holds


def threshold(case: LintContext, name: str) -> int | None:
    """Return a whole number that is given; None if it is not one."""
    text = case.flags.get(name, "")
    return int(text) if _WHOLE.fullmatch(text) else None


def whole_source(case: LintContext) -> Location:
    """Return the place of something missing: the source as a whole."""
    return Location(case.written.where)


_NAMED: Final = 6


def lost_flags_text(issue: SyntaxIssue) -> str:
    """Return why an issue is wrong, with the flags lost behind it, which are not checked."""
    if not issue.lost or issue.kind is IssueKind.TOO_LATE:
        return issue.why
    return f"{issue.why} (not read: {some([f'--{flag.name}' for flag in issue.lost], _NAMED)})"


YES: Final = frozenset({"y", "yes", "t", "true", "on", "1"})
NO: Final = frozenset({"n", "no", "f", "false", "off", "0"})
"""Spellings of a bool that JAX accepts, in any case; it fails on anything else."""


def is_yes(text: str | None) -> bool:
    """Return whether JAX reads a variable as true; None, unset, is not."""
    return (text or "").lower() in YES


def is_no(text: str | None) -> bool:
    """Return whether JAX reads a variable as false; None, unset, is not."""
    return (text or "").lower() in NO


def under_nsys(case: LintContext) -> bool:
    """Return whether Nsight Systems records this process, as far as the source shows."""
    return case.written.nsys or any(case.variables.get(name) for name in NSYS_VARIABLES)
