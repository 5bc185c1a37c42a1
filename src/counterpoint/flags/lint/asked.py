"""Asked: what a case asks for, and where it says nothing, what the release does by itself."""

from __future__ import annotations

from typing import Final

from counterpoint.flags.chips import Family, family
from counterpoint.flags.lint.case import Case
from counterpoint.flags.version import PROFILE, number
from counterpoint.flags.written import Given, Place

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


def pipelining(case: Case, kind: str) -> Given | None:
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
