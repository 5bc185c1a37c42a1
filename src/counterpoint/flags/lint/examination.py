"""Examination: settings as written, held to the rules and to the compiler, for one interpreter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from counterpoint.core.errors import UsageError
from counterpoint.flags.catalogue import release
from counterpoint.flags.lint.case import Case
from counterpoint.flags.lint.check import in_order, judge
from counterpoint.flags.lint.confirm import Ask, Confirmation, confirm, together
from counterpoint.flags.lint.remark import Remark, Severity
from counterpoint.flags.live.interpreter import Interpreter
from counterpoint.flags.rules import RULES
from counterpoint.flags.written import Written

if TYPE_CHECKING:
    from counterpoint.flags.lint.fix import Fixed


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

    written: Written
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


def examine(written: Written, question: Question) -> Examination:
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


def mend(written: Written, question: Question) -> tuple[Fixed, Examination]:
    """The settings with safe mends, and what is to be said of them then."""
    from counterpoint.flags.lint.fix import fix  # here, for checking does without it

    unasked = replace(question, ask=None)
    fixed = fix(written, lambda one: examine(one, unasked).remarks)
    return fixed, examine(fixed.written, question)


def codes(texts: Sequence[str], option: str) -> tuple[str, ...]:
    """Codes, or beginnings of codes, as `--select` takes them: with commas, or one by one."""
    found = tuple(one.strip().upper() for text in texts for one in text.split(",") if one.strip())
    for one in found:
        if not any(rule.CODE.startswith(one) for rule in RULES):
            from counterpoint.core.rulebook import near_codes

            near = near_codes(RULES, one)
            raise UsageError(
                f"{option} {one}: no such code",
                why="a code is FLAG and three digits, or how it begins: FLAG1",
                next=f"{option} {near[0]}" if near else "counterpoint explain-code",
            )
    return found


def _case(written: Written, question: Question) -> Case:
    return Case(
        written=written,
        release=release(question.jaxlib),
        chip=question.chip,
        profiling=question.profiling,
    )
