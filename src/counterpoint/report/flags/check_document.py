"""`flags check` as plain lines: one per remark, in the format of compilers.

The command has to respond instantly, so no terminal library is loaded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from counterpoint.core.printable import counted_noun, printable, some
from counterpoint.flags.check.examination import NO_FLAGS, Examination
from counterpoint.flags.lint import Remark, Severity, advice_of
from counterpoint.flags.parsed import IssueKind, Location, ParsedSource
from counterpoint.flags.settings import Channel

if TYPE_CHECKING:
    from pathlib import Path

    from counterpoint.flags.check.fix import FixResult
    from counterpoint.flags.check.own_release import OwnRelease


_FLAGS: Final = (Channel.XLA_FLAGS, Channel.LIBTPU_INIT_ARGS, Channel.COMPILER_OPTIONS)
"""Channels that XLA reads when it starts or compiles."""

_LONGEST: Final = 200
_MANY: Final = {Severity.ERROR: 4, Severity.WARNING: 4, Severity.NOTE: 2}
"""From this number on, similar remarks share one line."""
_LISTED: Final = 40
"""Maximum number of notes, or of unread parts, that are printed."""
_NAMED: Final = 40
"""Maximum number of settings named in a shared line."""


def remark_line(one: Remark) -> str:
    """Format a remark: `file:line: CODE severity: setting: what is wrong; what to do`."""
    return printable(
        f"{one.place}: {one.code} {one.severity}: {_setting(one)}: {one.message}; {one.advice}"
    )


def check_lines(examination: Examination, *, every: bool = False) -> Iterator[str]:
    """Yield the remarks, minor ones only if `every` is wanted, and what an upgrade needs.

    Similar ones share a line, while the JSON lists each.
    """
    remarks = examination.remarks if every else examination.standing
    similar: dict[tuple[object, ...], list[Remark]] = {}
    for remark in remarks:
        similar.setdefault(_message_key(remark), []).append(remark)
    for remark in remarks:
        group = similar[_message_key(remark)]
        if len(group) < _MANY[remark.severity]:
            yield remark_line(remark)
        elif remark is group[0]:
            yield _line_of_all(group)

    if examination.upgrade:
        changes = counted_noun(len(examination.upgrade), "change")
        version = f"jaxlib {examination.installed}, which is installed"
        yield printable(f"{examination.written.where}: to run with {version}, it needs {changes}:")
    for remark in examination.upgrade:
        what = f"{_setting(remark)}: {remark.message}; {remark.advice}"
        own = remark.place.where == examination.written.where and remark.place.line
        place = f"line {remark.place.line}" if own else remark.place
        yield printable(f"  {place}: {remark.code}: {what}")


def _message_key(one: Remark) -> tuple[object, ...]:
    """Return the parts of a remark other than its setting and line."""
    return (one.place.where, one.code, one.severity, one.message, one.advice)


def _line_of_all(group: list[Remark]) -> str:
    """Format many remarks as one line: all settings by name, and where the last one is."""
    first, last = group[0], group[-1]
    names = list(dict.fromkeys(_setting(remark) for remark in group))
    to = f" (to line {last.place.line})" if last.place.line != first.place.line else ""
    return printable(
        f"{first.place}: {first.code} {first.severity}: {some(names, _NAMED)}{to}:"
        f" {first.message}; {first.advice}"
    )


def summary_lines(examination: Examination, next: str, *, every: bool = False) -> Iterator[str]:
    """Yield the context of the result: counts, the release, and how far it was confirmed."""
    yield from _reading_lines(examination)
    settings = counted_noun(examination.settings, "setting")
    yield printable(
        f"{_tally(examination)} on {settings} of {examination.written.where},"
        f" for {_release(examination)}"
    )
    if examination.own is not None:
        yield printable(_own(examination, examination.own))
    if not every and (minor := _minor(examination)):
        yield f"not shown: {minor}; --all lists them"
    yield from _confirmed_lines(examination)
    if examination.count(Severity.WARNING) and not examination.failed:
        yield "exit code 0: only errors make it 1"
    if next:
        yield printable(f"next: {next}")


def fix_lines(fixed: FixResult, examination: Examination, *, every: bool = False) -> Iterator[str]:
    """Yield a line for each fix that was made, and for each problem that is left, and why.

    Of minor ones only if it is `every`.
    """
    for remark in fixed.made:
        yield printable(
            f"fixed: {remark.place}: {remark.code}: {_short(remark.text)}: {_done(remark)}"
        )
    whys = {_identity(one.remark): one.why for one in fixed.refused}
    for remark in examination.remarks if every else examination.standing:
        why = whys.get(_identity(remark), "")
        if why or remark.severity is not Severity.NOTE:
            yield f"not fixed{printable(_reason(remark, why))}: {remark_line(remark)}"


def _identity(one: Remark) -> tuple[object, ...]:
    return one.code, one.place, one.channel, one.name, one.text


def _reason(one: Remark, why: str) -> str:
    if why:
        return f" ({why})"
    return " (the fix may change the program)" if one.fix and not one.fix.safe else ""


def fixed_summary_lines(
    fixed: FixResult, examination: Examination, path: Path | None
) -> Iterator[str]:
    """Yield how many fixes were made, where they were written, and how far that was confirmed."""
    yield from _reading_lines(examination)
    made = f"{counted_noun(len(fixed.made), 'problem')} fixed" if fixed.made else "nothing fixed"
    left = f", {len(fixed.refused)} not fixable in place" if fixed.refused else ""
    yield printable(f"{path or examination.written.where}: {made}{left}")
    yield from _confirmed_lines(examination)


def nothing_lines(examination: Examination) -> Iterator[str]:
    """Yield the lines for a source without settings, which does not mean that all is well."""
    yield printable(f"warning: no settings found in {examination.written.where}")
    yield from _reading_lines(examination)


def _reading_lines(examination: Examination) -> Iterator[str]:
    yield from limited_lines("note", examination.written.notes)
    yield from limited_lines("not read", examination.written.not_read)


def limited_lines(what: str, texts: Sequence[str]) -> Iterator[str]:
    """Yield a line each, up to a limit: a source may have as many notes as lines."""
    yield from (printable(f"{what}: {text}") for text in texts[:_LISTED])
    if len(texts) > _LISTED:
        yield f"{what}: {len(texts) - _LISTED} more, listed by --json"


def _setting(one: Remark) -> str:
    if not one.name:
        return _short(one.text)
    return (
        f"--{_short(one.name)}"
        if one.channel in (Channel.XLA_FLAGS, Channel.LIBTPU_INIT_ARGS)
        else _short(one.name)
    )


def _done(one: Remark) -> str:
    """Describe what a fix did to a setting."""
    if one.fix is None or not one.fix.instead:
        return "removed"
    return advice_of(one.fix.instead, one.channel).replace("write", "now", 1)


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _tally(examination: Examination) -> str:
    parts = [
        counted_noun(examination.count(severity), str(severity))
        for severity in Severity
        if examination.count(severity)
    ]
    return ", ".join(parts) or "no remarks"


def _minor(examination: Examination) -> str:
    """Return how many settings have minor remarks, by reason, the most frequent first."""
    reasons = Counter(remark.minor for remark in examination.remarks if remark.minor)
    parts = [f"{count} {reason}" for reason, count in reasons.most_common()]
    if not parts:
        return ""
    (reason, count), *_ = reasons.most_common(1)
    return ", ".join([f"{counted_noun(count, 'setting')} {reason}", *parts[1:]])


def _release(examination: Examination) -> str:
    near = (
        ""
        if examination.table == examination.asked
        else f" (tables of {examination.table}, the nearest release)"
    )
    return f"jaxlib {examination.asked}{near}{_chip(examination)}"


def _own(examination: Examination, own: OwnRelease) -> str:
    """Return why it is not the installed release, and how to check for that one."""
    if own.pinned:
        about = "" if own.exact else "about "
        return (
            f"jaxlib {own.version} is {about}that of {own.why};"
            f" --jaxlib {examination.installed} checks for the installed one"
        )
    return (
        f"all other settings are checked for jaxlib {own.version}, the nearest release that has"
        f" {own.why}"
    )


def _chip(examination: Examination) -> str:
    if examination.chip is None:
        return ""
    machine = examination.written.machine
    if machine is None or machine.chip != examination.chip:
        return f" on {examination.chip}"
    chip = "an AMD GPU" if examination.chip == "AMD" else examination.chip
    return f" on {chip} ({machine.text} in line {machine.place.line})"


def _confirmed_lines(examination: Examination) -> Iterator[str]:
    if examination.confirmation is None or examination.confirmation.note != NO_FLAGS:
        yield printable(_confirmed(examination))


def _confirmed(examination: Examination) -> str:
    answer = examination.confirmation
    if answer is None:
        return "the compiler was not queried: --no-probe"
    if answer.note is not None:
        return f"the compiler was not queried: {answer.note}"
    flags = counted_noun(answer.asked, "flag")
    if answer.refused:
        verdict = f"{answer.refused} rejected"
    else:
        doubts = list(_doubts(examination.written))
        verdict = "accepted"
        if not examination.failed:
            verdict += ", and XLA starts" + (" with the flags that were read" if doubts else "")
        verdict = "; ".join([verdict, *doubts])
    return f"the compiler of jaxlib {answer.version} checked {flags}: {verdict}"


def _doubts(written: ParsedSource) -> Iterator[str]:
    """Yield what the compiler was not asked about, and its verdict therefore does not cover."""
    if parts := len(written.not_read):
        were = "was" if parts == 1 else "were"
        yield f"{counted_noun(parts, 'part')} of the source {were} not read"
    holes: set[tuple[Location, str]] = set()
    for program in written.programs:
        issues = (issue for issue in program.issues if issue.kind is IssueKind.UNKNOWABLE)
        every = (*issues, *(given for given in program.given if not given.known))
        holes |= {(item.place, item.text) for item in every if item.channel in _FLAGS}
    if values := len(holes):
        are = "is" if values == 1 else "are"
        yield f"{counted_noun(values, 'value')} {are} known only when the program runs"
