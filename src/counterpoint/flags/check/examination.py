"""`check`: run every rule on the settings of each program of a source."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from counterpoint.core import UsageError
from counterpoint.core.rules import found_by
from counterpoint.flags.catalogue.lookup import release
from counterpoint.flags.check.minor import with_reasons
from counterpoint.flags.check.own_release import OwnRelease, own_release
from counterpoint.flags.jaxlib import JaxlibInterpreter
from counterpoint.flags.lint import ALL_SETTINGS, LintContext, Remark, Severity
from counterpoint.flags.parsed import Location, Occurrence, ParsedSource
from counterpoint.flags.rules import RULES, LintRule, compiler_disagrees
from counterpoint.flags.settings import Channel

if TYPE_CHECKING:
    from counterpoint.flags.check.fix import FixResult
    from counterpoint.flags.probe import ProbeResult


NO_FLAGS: Final = "there are no flags to check"
"""Why no compiler was queried, if that says nothing about the settings."""
_ORDER: Final = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.NOTE: 2}


def check(
    written: ParsedSource, *, version: str | None, chip: str | None = None, profiling: bool = False
) -> tuple[Remark, ...]:
    """Return all remarks, by place, the most severe first at each place."""
    return judge(
        LintContext(written=written, release=release(version), chip=chip, profiling=profiling)
    )


def judge(case: LintContext) -> tuple[Remark, ...]:
    """Return all remarks on a case, in order.

    Alternatives are never combined: a remark has to hold for what some run of the program gets. It
    has to hold for all settings, too, since what one branch lacks another may add.
    """
    remarks = _judged(case)
    runs = _runs(case.written, {_key(remark) for remark in remarks})
    if runs:
        possible = {
            _kind(remark): remark
            for run in runs
            for remark in _judged(replace(case, written=replace(case.written, given=run)))
        }
        remarks = [possible[_kind(one)] for one in remarks if _kind(one) in possible]
    return in_order(remarks)


def _judged(case: LintContext) -> list[Remark]:
    return [remark for rule in RULES for remark in _remarks_of(rule, case)]


def _kind(one: Remark) -> tuple[object, ...]:
    return (one.code, *_key(one))


def _runs(written: ParsedSource, remarked: set[tuple[object, ...]]) -> list[tuple[Occurrence, ...]]:
    """Return the settings of a run through each branch with a remark: one alternative per choice.

    They are none if there are no alternatives, or too many.
    """
    arms: dict[str, str] = {}
    for one in reversed(written.given):
        for choice, arm in one.branch:
            arms.setdefault(choice, arm)
    if all(arms[choice] == arm for one in written.given for choice, arm in one.branch):
        return []
    branches = dict.fromkeys(one.branch for one in written.given if _key(one) in remarked)
    runs: list[tuple[Occurrence, ...]] = []
    for branch in (*branches, ()):  # and one for what is in no branch
        taken = {**arms, **dict(branch)}
        runs.append(
            tuple(it for it in written.given if all(taken[name] == arm for name, arm in it.branch))
        )
        if len(branches) * len(written.given) > _MOST_WORK:
            return []
    return runs


def _remarks_of(rule: LintRule, case: LintContext) -> Iterable[Remark]:
    """Return the remarks of one rule; of one that fails, a note on that."""
    remarks, failure = found_by(rule, rule.check, case)
    if failure is not None:
        told = Remark(
            code=rule.CODE,
            severity=Severity.NOTE,
            channel=Channel.XLA_FLAGS,
            name="",
            text=ALL_SETTINGS,
            place=Location(case.written.where),
            message=failure,
            advice="the other rules were checked",
        )
        remarks.append(told)
    return remarks


def in_order(remarks: Iterable[Remark]) -> tuple[Remark, ...]:
    """Sort by file, line and severity, then by code."""
    return tuple(
        sorted(
            remarks,
            key=lambda remark: (
                _natural(remark.place.where),
                remark.place.line or 0,
                _ORDER[remark.severity],
                remark.code,
            ),
        )
    )


def _natural(where: str) -> list[str | int]:
    """Return a sort key in which cell 2 of a notebook precedes cell 10."""
    return [int(part) if part.isdecimal() else part for part in re.split(r"([0-9]+)", where)]


_REFUSALS: Final = frozenset(
    {
        *("FLAG101", "FLAG102", "FLAG103", "FLAG104", "FLAG107", "FLAG108", "FLAG110"),
        *("FLAG201", "FLAG202", "FLAG204", "FLAG212"),
    }
)
"""Rules whose errors mean that the compiler does not accept a name or a value."""

_MOST_WORK: Final = 100_000
"""The most settings, counted again for each branch, that alternatives are looked for in."""
_FADING: Final = ("FLAG105", "FLAG106", "FLAG301")
"""Rules on flags that are old or idle, which is no news of one that the next release refuses."""

AskCompiler = Callable[[JaxlibInterpreter, Mapping[Channel, tuple[Occurrence, ...]]], "ProbeResult"]
"""Queries an interpreter about flags and options."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirmation:
    """The remarks, corrected by the compiler's answer; `note` says why it was not queried."""

    remarks: tuple[Remark, ...]
    version: str | None = None  # of the jaxlib that was queried
    asked: int = 0
    refused: int = 0
    note: str | None = None


def confirm(
    case: LintContext,
    remarks: tuple[Remark, ...],
    interpreter: JaxlibInterpreter | None,
    ask: AskCompiler,
) -> Confirmation:
    """Correct the remarks by what the interpreter's XLA accepts: its parser has the last word.

    A flag that XLA refuses, but no rule reports, gets an error of `compiler_disagrees`. If XLA
    accepts a flag that a rule calls refused, a warning of `compiler_disagrees` replaces that error.
    """
    note = _why_not(case, interpreter)
    if note or interpreter is None:
        return Confirmation(remarks=remarks, note=note)
    queried = {
        channel: tuple(
            occurrence
            for occurrence in case.written.through(channel)
            if _askable(occurrence) and not case.is_for_libtpu(occurrence)
        )
        for channel in (Channel.XLA_FLAGS, Channel.COMPILER_OPTIONS)
    }
    if not any(queried.values()):
        return Confirmation(remarks=remarks, note="its compile options are those of libtpu")
    answer = ask(interpreter, queried)
    if answer.note is not None or answer.version is None:
        return Confirmation(remarks=remarks, note=answer.note or "it did not report its version")
    if answer.version != case.release.asked:
        note = f"{interpreter.python} has jaxlib {answer.version}, not {case.release.asked}"
        return Confirmation(remarks=remarks, note=note)
    given = [occurrence for group in queried.values() for occurrence in group]
    return Confirmation(
        remarks=_held_to(case, remarks, given, answer),
        version=answer.version,
        asked=len(given),
        refused=len(answer.rejected),
    )


def merge_confirmations(heard: Sequence[Confirmation]) -> Confirmation | None:
    """Merge the confirmations of several programs; None if there are none."""
    answered = [confirmation for confirmation in heard if confirmation.note is None]
    if not answered:
        return heard[0] if heard else None
    return Confirmation(
        remarks=tuple(remark for confirmation in heard for remark in confirmation.remarks),
        version=answered[0].version,
        asked=sum(confirmation.asked for confirmation in answered),
        refused=sum(confirmation.refused for confirmation in answered),
    )


def _why_not(case: LintContext, interpreter: JaxlibInterpreter | None) -> str | None:
    wanted = case.release.asked
    if not any(_askable(occurrence) for occurrence in case.compiler):
        return NO_FLAGS
    if interpreter is not None and interpreter.jaxlib is None:
        return f"{interpreter.python} has no jaxlib (choose another with --python)"
    if interpreter is None:
        return f"no interpreter with jaxlib {wanted} found (choose one with --python)"
    if interpreter.jaxlib != wanted:
        return (
            f"the installed jaxlib is {interpreter.jaxlib}, not {wanted}"
            " (choose another with --python)"
        )
    return None


def _askable(one: Occurrence) -> bool:
    """Return whether it can be written in XLA_FLAGS with its meaning unchanged."""
    return one.known and not any(c in one.name for c in " \t\r\n\0'\"=") and "\0" not in one.meant


def _held_to(
    case: LintContext, remarks: tuple[Remark, ...], given: list[Occurrence], answer: ProbeResult
) -> tuple[Remark, ...]:
    rejected = {(flag.name, flag.value): flag.reason for flag in answer.rejected}
    errors = {_key(remark): remark.code for remark in remarks if remark.severity is Severity.ERROR}
    doubted = {
        _key(remark): remark.code
        for remark in remarks
        if remark.severity is Severity.ERROR and remark.code in _REFUSALS
    }
    refused: dict[Occurrence, str] = {}
    taken: dict[Occurrence, str] = {}
    for occurrence in given:
        key = (occurrence.place, occurrence.channel, occurrence.text)
        reason = rejected.get((occurrence.name, occurrence.value))
        if reason is not None and key not in errors:
            refused[occurrence] = reason
        elif reason is None and key in doubted:
            taken[occurrence] = doubted[key]
    dropped = {(occurrence.place, occurrence.channel, occurrence.text) for occurrence in taken}
    remaining = [
        remark for remark in remarks if remark.code not in _REFUSALS or _key(remark) not in dropped
    ]
    disagreements = _remarks_of(compiler_disagrees, replace(case, refused=refused, taken=taken))
    return (*remaining, *disagreements)


def _key(one: Remark | Occurrence) -> tuple[object, ...]:
    return (one.place, one.channel, one.text)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRequest:
    """The conditions of an examination. `version` None: the interpreter's, else the newest known.

    `ask` None: the compiler is not queried. `select` and `ignore` are codes or code prefixes.
    """

    version: str | None = None
    interpreter: JaxlibInterpreter | None = None
    chip: str | None = None
    profiling: bool = False
    ask: AskCompiler | None = None
    select: tuple[str, ...] = field(default=())
    ignore: tuple[str, ...] = field(default=())

    @property
    def jaxlib(self) -> str | None:
        """The release to examine for."""
        return self.version or (self.interpreter.jaxlib if self.interpreter else None)

    def wants(self, code: str) -> bool:
        """Return whether a rule's remarks are selected."""
        chosen = not self.select or code.startswith(self.select)
        return chosen and not (self.ignore and code.startswith(self.ignore))


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """The result. `table` is the release whose tables were used, `asked` the requested one.

    `own` says why that is not the installed one, which refuses what `upgrade` lists. If flags tell
    the own release, it is the installed one, and only what it does not refuse is checked for `own`.
    """

    written: ParsedSource
    remarks: tuple[Remark, ...]
    asked: str
    table: str
    chip: str | None
    confirmation: Confirmation | None  # None: not requested
    own: OwnRelease | None = None
    installed: str = ""
    upgrade: tuple[Remark, ...] = ()

    @property
    def standing(self) -> tuple[Remark, ...]:
        """The remarks that stand alone; a summary counts the others."""
        return tuple(remark for remark in self.remarks if not remark.minor)

    def count(self, severity: Severity) -> int:
        """Return the number of remarks of one severity that stand alone."""
        return sum(remark.severity is severity for remark in self.standing)

    @property
    def settings(self) -> int:
        """The number of settings."""
        return len(
            {occurrence for program in self.written.programs for occurrence in program.given}
        )

    @property
    def failed(self) -> bool:
        return self.count(Severity.ERROR) > 0


def examine(written: ParsedSource, question: CheckRequest) -> Examination:
    """Return all remarks on the settings of each program of a source, in order.

    They are those for the source's own release; flags that the installed one refuses are errors, or
    what an upgrade needs if the source installs its own.
    """
    installed = release(question.jaxlib)
    own = None if question.version else own_release(written, installed)
    chip = question.chip or (written.machine.chip if written.machine else None)
    case = LintContext(
        written=written,
        release=release(own.version) if own else installed,
        chip=chip,
        profiling=question.profiling,
    )
    remarks, confirmation = _examined(case, question)
    upgrade: tuple[Remark, ...] = ()
    if own is not None:
        asking = replace(question, ask=None) if own.pinned else question
        asked, answer = _examined(replace(case, release=installed), asking)
        refused = {_key(one): one for one in asked if is_refusal(one)}
        sure = _refused_by_all(own.witnesses, case, asking)
        remarks = tuple(
            one
            for one in remarks
            if (not is_refusal(one) or _key(one) in sure)
            and not (one.code in _FADING and _key(one) in refused)
        )
        if own.pinned:
            upgrade = tuple(one for key, one in refused.items() if key not in sure)
        else:
            remarks, confirmation = in_order([*remarks, *refused.values()]), answer
    checked = case.release if own is not None and own.pinned else installed
    return Examination(
        written=written,
        remarks=with_reasons(remarks, written, selected=question.select, chip=question.chip),
        asked=checked.asked,
        table=checked.version,
        chip=chip,
        confirmation=confirmation,
        own=own,
        installed=installed.asked,
        upgrade=upgrade,
    )


def _examined(
    case: LintContext, question: CheckRequest
) -> tuple[tuple[Remark, ...], Confirmation | None]:
    """Return the remarks on all programs for one release, and what its compiler says of them."""
    remarks: dict[tuple[object, ...], Remark] = {}
    confirmations: list[Confirmation] = []
    lacking = _lacking(case)
    for program in case.written.programs:
        program_case = replace(case, written=program)
        judged = judge(program_case)
        if lacking is not None:
            judged = tuple(
                one for one in judged if one.code not in _LACKING or (one.code, one.name) in lacking
            )
        if question.ask is not None:
            confirmations.append(confirm(program_case, judged, question.interpreter, question.ask))
            judged = confirmations[-1].remarks
        remarks |= {_kind(remark): remark for remark in judged}
    wanted = in_order(remark for remark in remarks.values() if question.wants(remark.code))
    return wanted, merge_confirmations(confirmations)


def _refused_by_all(
    versions: Sequence[str], case: LintContext, question: CheckRequest
) -> set[tuple[object, ...]]:
    """Return the keys of the settings that each of these releases refuses; none without any."""
    unasked = replace(question, ask=None)
    common: set[tuple[object, ...]] | None = None
    for version in versions:
        remarks, _ = _examined(replace(case, release=release(version)), unasked)
        keys = {_key(one) for one in remarks if is_refusal(one)}
        common = keys if common is None else common & keys
    return common or set()


_LACKING: Final = ("FLAG303", "FLAG408")


def _lacking(case: LintContext) -> set[tuple[str, str]] | None:
    """Return what all blocks of a page together lack, by code and name; None if it is no page.

    A block is a program of its own, but its reader has followed the others.
    """
    if case.written.form != "markdown" or not case.written.others:
        return None
    given = tuple(one for program in case.written.programs for one in program.given)
    together = replace(case, written=replace(case.written, given=given))
    return {(one.code, one.name) for one in _judged(together) if one.code in _LACKING}


def is_refusal(one: Remark) -> bool:
    """Return whether the compiler does not accept a name or a value."""
    return one.severity is Severity.ERROR and (
        one.code in _REFUSALS or one.code == compiler_disagrees.CODE
    )


def fix_and_examine(
    text: str, read: Callable[[str], ParsedSource], question: CheckRequest, *, every: bool = False
) -> tuple[FixResult, Examination]:
    """Apply the safe fixes to a text, those of minor remarks if it is `every`; examine the result.

    What is not shown is not changed.
    """
    from counterpoint.flags.check.fix import fix  # only fixing needs it

    unasked = replace(question, ask=None)

    def check(source: ParsedSource) -> tuple[Remark, ...]:
        examination = examine(source, unasked)
        return examination.remarks if every else examination.standing

    fixed = fix(text, read, check)
    return fixed, examine(fixed.written, question)


def codes(texts: Sequence[str], argument: str) -> tuple[str, ...]:
    """Parse the codes or code prefixes of an argument, comma-separated or repeated."""
    chosen = tuple(
        code.strip().upper() for text in texts for code in text.split(",") if code.strip()
    )
    for code in chosen:
        if not any(rule.CODE.startswith(code) for rule in RULES):
            from counterpoint.core.rules import similar_codes

            near = similar_codes(RULES, code)
            raise UsageError(
                f"--{argument} {code}: no such code",
                why="a code is FLAG and three digits, or a prefix such as FLAG1",
                next=f"use --{argument} {near[0]}" if near else "counterpoint explain-code",
            )
    return chosen
