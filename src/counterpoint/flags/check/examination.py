"""`check`: every rule over every program's settings of a source."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from counterpoint.core import UsageError
from counterpoint.flags.catalogue.lookup import release
from counterpoint.flags.lint.context import Case, Remark, Severity
from counterpoint.flags.live.probe import Interpreter
from counterpoint.flags.parsed import Occurrence, ParsedSource
from counterpoint.flags.rules import RULES, compiler_disagrees
from counterpoint.flags.settings import Channel

if TYPE_CHECKING:
    from counterpoint.flags.check.fix import Fixed
    from counterpoint.flags.live.probe import Answer


_ORDER: Final = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.NOTE: 2}


def check(
    written: ParsedSource, *, version: str | None, chip: str | None = None, profiling: bool = False
) -> tuple[Remark, ...]:
    """All remarks, by place; at one place the gravest first."""
    return judge(Case(written=written, release=release(version), chip=chip, profiling=profiling))


def judge(case: Case) -> tuple[Remark, ...]:
    """The same of a case."""
    return in_order(remark for rule in RULES for remark in rule.check(case))


def in_order(remarks: Iterable[Remark]) -> tuple[Remark, ...]:
    """By file, line and severity, then by code."""
    return tuple(
        sorted(
            remarks,
            key=lambda one: (
                _natural(one.place.where),
                one.place.line or 0,
                _ORDER[one.severity],
                one.code,
            ),
        )
    )


def _natural(where: str) -> list[str | int]:
    """Cell 2 of a notebook stands before cell 10."""
    return [int(part) if part.isdecimal() else part for part in re.split(r"([0-9]+)", where)]


_REFUSALS: Final = frozenset(
    {
        *("FLAG101", "FLAG102", "FLAG103", "FLAG104", "FLAG107", "FLAG108", "FLAG110"),
        *("FLAG201", "FLAG202", "FLAG204"),
    }
)
"""Rules whose errors say that the compiler does not take a name or a value."""

Ask = Callable[[Interpreter, Mapping[Channel, tuple[Occurrence, ...]]], "Answer"]
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


def _askable(one: Occurrence) -> bool:
    """What can stand in XLA_FLAGS as it is meant."""
    return one.known and not any(c in one.name for c in " \t\r\n\0'\"=") and "\0" not in one.meant


def _held_to(
    case: Case, remarks: tuple[Remark, ...], given: list[Occurrence], answer: Answer
) -> tuple[Remark, ...]:
    rejected = {(flag.name, flag.value): flag.reason for flag in answer.rejected}
    errors = {_key(one): one.code for one in remarks if one.severity is Severity.ERROR}
    doubted = {
        _key(one): one.code
        for one in remarks
        if one.severity is Severity.ERROR and one.code in _REFUSALS
    }
    refused: dict[Occurrence, str] = {}
    taken: dict[Occurrence, str] = {}
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """For what settings are examined. `version` None: the interpreter's, else the newest known.

    `ask` None: the compiler is not asked. `select` and `ignore` are codes, or how they begin.
    """

    version: str | None = None
    interpreter: Interpreter | None = None
    chip: str | None = None
    profiling: bool = False
    ask: Ask | None = None
    select: tuple[str, ...] = field(default=())
    ignore: tuple[str, ...] = field(default=())

    @property
    def jaxlib(self) -> str | None:
        """The release that is meant."""
        return self.version or (self.interpreter.jaxlib if self.interpreter else None)

    def wants(self, code: str) -> bool:
        """Whether a rule's remarks are asked for."""
        chosen = not self.select or code.startswith(self.select)
        return chosen and not (self.ignore and code.startswith(self.ignore))


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """What was found. `table` is the release whose tables were used, `asked` the one meant."""

    written: ParsedSource
    remarks: tuple[Remark, ...]
    asked: str
    table: str
    chip: str | None
    confirmation: Confirmation | None  # None: nobody wanted it

    def count(self, severity: Severity) -> int:
        """How many remarks are that grave."""
        return sum(one.severity is severity for one in self.remarks)

    @property
    def settings(self) -> int:
        """How many settings there are."""
        return len({one for program in self.written.programs for one in program.given})

    @property
    def failed(self) -> bool:
        return self.count(Severity.ERROR) > 0


def examine(written: ParsedSource, question: Question) -> Examination:
    """All remarks on settings, in order; those of each program of a source."""
    case = _case(written, question)
    remarks: dict[tuple[object, ...], Remark] = {}
    heard: list[Confirmation] = []
    for program in written.programs:
        one = replace(case, written=program)
        found = judge(one)
        if question.ask is not None:
            heard.append(confirm(one, found, question.interpreter, question.ask))
            found = heard[-1].remarks
        remarks |= {(it.code, it.place, it.channel, it.text): it for it in found}
    return Examination(
        written=written,
        remarks=in_order(one for one in remarks.values() if question.wants(one.code)),
        asked=case.release.asked,
        table=case.release.version,
        chip=case.chip,
        confirmation=together(heard),
    )


def mend(written: ParsedSource, question: Question) -> tuple[Fixed, Examination]:
    """The settings with safe mends, and what is to be said of them then."""
    from counterpoint.flags.check.fix import fix  # here, for checking does without it

    unasked = replace(question, ask=None)
    fixed = fix(written, lambda one: examine(one, unasked).remarks)
    return fixed, examine(fixed.written, question)


def codes(texts: Sequence[str], option: str) -> tuple[str, ...]:
    """Codes, or beginnings of codes, as `--select` takes them: with commas, or one by one."""
    found = tuple(one.strip().upper() for text in texts for one in text.split(",") if one.strip())
    for one in found:
        if not any(rule.CODE.startswith(one) for rule in RULES):
            from counterpoint.core.rules import near_codes

            near = near_codes(RULES, one)
            raise UsageError(
                f"{option} {one}: no such code",
                why="a code is FLAG and three digits, or how it begins: FLAG1",
                next=f"{option} {near[0]}" if near else "counterpoint explain-code",
            )
    return found


def _case(written: ParsedSource, question: Question) -> Case:
    return Case(
        written=written,
        release=release(question.jaxlib),
        chip=question.chip,
        profiling=question.profiling,
    )
