"""Confirm: the compiler's own parser has the last word on what the rules say.

remarks of the rules, flags as written ── the interpreter's XLA is started with them ──►
refused by XLA, and no rule says so          FLAG199, an error
an error of a rule, and XLA takes the flag   FLAG199, a warning, in its place
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from counterpoint.flags.channel import Channel
from counterpoint.flags.lint.case import Case
from counterpoint.flags.lint.remark import Remark, Severity
from counterpoint.flags.live.interpreter import Interpreter
from counterpoint.flags.rules import compiler_disagrees
from counterpoint.flags.written import Given

if TYPE_CHECKING:
    from counterpoint.flags.live.probe import Answer

_REFUSALS: Final = frozenset(
    {
        *("FLAG101", "FLAG102", "FLAG103", "FLAG104", "FLAG107", "FLAG108", "FLAG110"),
        *("FLAG201", "FLAG202", "FLAG204"),
    }
)
"""Rules whose errors say that the compiler does not take a name or a value."""

Ask = Callable[[Interpreter, Mapping[Channel, tuple[Given, ...]]], "Answer"]
"""Asks an interpreter about flags and options."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirmation:
    """The remarks after the compiler was heard. `note` tells why it was not asked."""

    remarks: tuple[Remark, ...]
    version: str | None = None  # of the jaxlib that was asked
    asked: int = 0
    refused: int = 0
    note: str | None = None


def confirm(
    case: Case, remarks: tuple[Remark, ...], interpreter: Interpreter | None, ask: Ask
) -> Confirmation:
    """Hold the remarks to what the interpreter's XLA does."""
    note = _why_not(case, interpreter)
    if note or interpreter is None:
        return Confirmation(remarks=remarks, note=note)
    asked = {
        channel: tuple(one for one in case.written.through(channel) if _askable(one))
        for channel in (Channel.XLA_FLAGS, Channel.COMPILER_OPTIONS)
    }
    answer = ask(interpreter, asked)
    if answer.note is not None or answer.version is None:
        return Confirmation(remarks=remarks, note=answer.note or "it did not tell its version")
    if answer.version != case.release.asked:
        note = f"{interpreter.python} has jaxlib {answer.version}, not {case.release.asked}"
        return Confirmation(remarks=remarks, note=note)
    given = [one for group in asked.values() for one in group]
    return Confirmation(
        remarks=_held_to(case, remarks, given, answer),
        version=answer.version,
        asked=len(given),
        refused=len(answer.rejected),
    )


def together(heard: Sequence[Confirmation]) -> Confirmation | None:
    """What was heard about several programs, as one; None where nobody asked."""
    told = [one for one in heard if one.note is None]
    if not told:
        return heard[0] if heard else None
    return Confirmation(
        remarks=tuple(remark for one in heard for remark in one.remarks),
        version=told[0].version,
        asked=sum(one.asked for one in told),
        refused=sum(one.refused for one in told),
    )


def _why_not(case: Case, interpreter: Interpreter | None) -> str | None:
    wanted = case.release.asked
    if not any(_askable(one) for one in case.compiler):
        return "there is no flag to ask about"
    if interpreter is not None and interpreter.jaxlib is None:
        return f"{interpreter.python} has no jaxlib (--python names another)"
    if interpreter is None:
        return f"no interpreter with jaxlib {wanted} is here (--python names one)"
    if interpreter.jaxlib != wanted:
        return f"the jaxlib here is {interpreter.jaxlib}, not {wanted} (--python names another)"
    return None


def _askable(one: Given) -> bool:
    """What can stand in XLA_FLAGS as it is meant."""
    return one.known and not any(c in one.name for c in " \t\r\n\0'\"=") and "\0" not in one.meant


def _held_to(
    case: Case, remarks: tuple[Remark, ...], given: list[Given], answer: Answer
) -> tuple[Remark, ...]:
    rejected = {(flag.name, flag.value): flag.reason for flag in answer.rejected}
    errors = {_key(one): one.code for one in remarks if one.severity is Severity.ERROR}
    doubted = {
        _key(one): one.code
        for one in remarks
        if one.severity is Severity.ERROR and one.code in _REFUSALS
    }
    refused: dict[Given, str] = {}
    taken: dict[Given, str] = {}
    for one in given:
        key = (one.place, one.channel, one.text)
        reason = rejected.get((one.name, one.value))
        if reason is not None and key not in errors:
            refused[one] = reason
        elif reason is None and key in doubted:
            taken[one] = doubted[key]
    dropped = {(one.place, one.channel, one.text) for one in taken}
    kept = [one for one in remarks if one.code not in _REFUSALS or _key(one) not in dropped]
    said = compiler_disagrees.check(replace(case, refused=refused, taken=taken))
    return (*kept, *said)


def _key(one: Remark) -> tuple[object, ...]:
    return (one.place, one.channel, one.text)
