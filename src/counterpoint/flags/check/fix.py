"""Fixes in the text of a source: the words of one setting change, and no other byte.

    text ── check ──► remarks with a safe fix ──► ways to write each ── read again ──► text

Readers know the line of a setting, so its words are looked for there (edits.py). A line may allow
several ways to write a fix; the first is taken with which the text, read again, has exactly the
settings that are wanted. A fix without such a way is refused, with the reason.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from counterpoint.core import InputError
from counterpoint.flags.check.edits import Rows, ways_to_fix
from counterpoint.flags.lint import Remark, Severity
from counterpoint.flags.parsed import Occurrence, ParsedSource, ValueOrigin, exclusive
from counterpoint.flags.settings import Channel, add_to_list, is_list, is_setting
from counterpoint.flags.text import Pairs

_ROUNDS: Final = 100
"""A fix may require another one, such as that of a new name with an old value. This many are only
made of hundreds of unknown flags, of which the checker looks up some at a time."""
_GRAVITY: Final = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.NOTE: 2}
_LINE: Final = re.compile(r"\blines? \d+\b")

_DEPENDS: Final = "the rest of its line depends on it"

Read = Callable[[str], ParsedSource]
Check = Callable[[ParsedSource], tuple[Remark, ...]]
_Given = tuple[Occurrence, ...]
_Setting = tuple[Channel, str, str]


@dataclass(frozen=True, slots=True)
class RefusedFix:
    """A safe fix that can't be made in place, and why."""

    remark: Remark
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FixResult:
    """The text with the fixes `made`, and how it reads; lines are those before the fixes."""

    text: str
    written: ParsedSource
    left: tuple[Remark, ...] = ()  # remarks on the text
    made: tuple[Remark, ...] = ()
    refused: tuple[RefusedFix, ...] = ()


def fix(text: str, read: Read, check: Check) -> FixResult:
    """Make all safe fixes that can be made in place, until nothing changes."""
    written = read(text)
    state = FixResult(text=text, written=written, left=check(written))
    for _ in range(_ROUNDS):
        made = state.made
        possible, refused = _possible(state.text, state.written, state.left)
        state = _make(replace(state, refused=tuple(refused)), possible, read, check)
        if state.made == made:
            break
    return replace(
        state,
        made=tuple(sorted(state.made, key=_line)),
        refused=tuple(sorted(state.refused, key=lambda one: _line(one.remark))),
    )


def _line(one: Remark) -> int:
    return one.place.line or 0


def _key(one: Remark | Occurrence) -> tuple[object, ...]:
    return one.place, one.channel, one.name, one.text


def _instead(one: Remark) -> Pairs:
    return one.fix.instead if one.fix else ()


def _possible(
    text: str, written: ParsedSource, remarks: tuple[Remark, ...]
) -> tuple[list[Remark], list[RefusedFix]]:
    """Return the safe fixes by line, and those that can't be made where the setting stands.

    Of several for a setting, that of the most severe remark counts. Of two that write the same new
    setting, one has to wait until the other is made.
    """
    chosen: dict[tuple[object, ...], Remark] = {}
    for remark in sorted(remarks, key=lambda one: _GRAVITY[one.severity]):
        if remark.fix and remark.fix.safe and remark.name:
            chosen.setdefault(_key(remark), remark)
    rows, programs, new = Rows(text, written.form), _programs(written), set[tuple[int, str]]()
    possible, refused = list[Remark](), list[RefusedFix]()
    for remark in sorted(chosen.values(), key=_line):
        having = programs.get(_key(remark), [])
        names = {name for name, _ in _instead(remark)} - {remark.name}
        written_new = {(id(given), name) for given in having for name in names}
        if why := next(_reasons(written, having, remark, rows), ""):
            refused.append(RefusedFix(remark, why))
        elif not written_new & new:
            possible.append(remark)
            new |= written_new
    return possible, refused


def _programs(written: ParsedSource) -> dict[tuple[object, ...], list[_Given]]:
    """Return the settings of the programs that have a setting, by its key."""
    programs: dict[tuple[object, ...], list[_Given]] = {}
    for program in written.programs:
        for key in {_key(one) for one in program.given}:
            programs.setdefault(key, []).append(program.given)
    return programs


def _reasons(
    written: ParsedSource, having: list[_Given], remark: Remark, rows: Rows
) -> Iterator[str]:
    """Yield why a setting can't be changed where it stands."""
    if remark.place.where != written.where:
        yield f"{remark.place.where} has it, and only {written.where} is edited"
    origins = {one.origin for given in having for one in given if _key(one) == _key(remark)}
    if ValueOrigin.COMPUTED in origins:
        yield "its value is known only when the program runs"
    if ValueOrigin.DEFAULT in origins:
        yield "it is a default, which whoever starts the program may have replaced"
    if remark.channel is Channel.ENVIRONMENT and (line := rows.use_of(remark.name)):
        yield f"line {line} reads it or hands it on, too"
    for others in having:
        for one in _in_the_way(others, remark):
            yield f"line {one.place.line} sets {one.name}, too: combine both"
        if not _instead(remark) and (earlier := _overridden(others, remark)):
            yield f"without it, the value of line {earlier.place.line} would count"


def _overridden(given: tuple[Occurrence, ...], remark: Remark) -> Occurrence | None:
    """Return an earlier value that a setting overrides; one that is equal may go."""
    at = next(at for at, one in enumerate(given) if _key(one) == _key(remark))
    own = given[at]
    earlier = (
        one
        for one in given[:at]
        if (one.channel, one.name) == (own.channel, own.name)
        and one.meant != own.meant
        and not exclusive(one.branch, own.branch)
    )
    return next(earlier, None)


def _in_the_way(given: tuple[Occurrence, ...], remark: Remark) -> Iterator[Occurrence]:
    """Yield a program's settings that contradict those that a fix would write."""
    at = next(at for at, one in enumerate(given) if _key(one) == _key(remark))
    for name, value in _instead(remark):
        for other, one in enumerate(given):
            apart = one.name == remark.name or exclusive(one.branch, given[at].branch)
            taken_over = is_list(name) and other < at and not one.conditional
            if one.name == name and not (apart or taken_over or one.meant == value):
                yield one


def _make(state: FixResult, fixes: list[Remark], read: Read, check: Check) -> FixResult:
    """Make these fixes.

    All are tried together, and if that reads wrong each half of them by itself. The later lines
    come first, so that the numbers of the earlier ones hold.
    """
    if not fixes:
        return state
    programs = _programs(state.written)
    given = [next(iter(programs.get(_key(remark), [])), ()) for remark in fixes]
    pairs = list(zip(fixes, given, strict=True))
    why: str | None = "its line does not spell it out"
    for new in _with_all(state.text, state.written.form, pairs):
        try:
            written = read(new)
        except InputError:
            why = _DEPENDS
            continue
        left = check(written)
        why = _objection(state, fixes, written, left)
        if why is None:
            made = (*state.made, *fixes)
            return replace(state, text=new, written=written, left=left, made=made)
    if not fixes[1:]:
        refused = RefusedFix(fixes[0], why or _DEPENDS)
        return replace(state, refused=(*state.refused, refused))
    half = len(fixes) // 2
    return _make(_make(state, fixes[half:], read, check), fixes[:half], read, check)


def _with_all(text: str, form: str, pairs: list[tuple[Remark, _Given]]) -> Iterator[str]:
    """Yield the text with several fixes, each made in the likeliest way, or with one in any."""
    if len(pairs) == 1:
        yield from _ways(text, form, *pairs[0])
        return
    for remark, given in reversed(pairs):
        way = next(_ways(text, form, remark, given), None)
        if way is None:
            return
        text = way
    yield text


def _ways(text: str, form: str, remark: Remark, given: _Given) -> Iterator[str]:
    """Yield the ways to write a fix."""
    own = next((one for one in given if _key(one) == _key(remark)), None)
    if own is not None:
        yield from ways_to_fix(Rows(text, form), remark, _heirs(remark, own, given))


def _heirs(remark: Remark, own: Occurrence, given: Sequence[Occurrence]) -> Pairs:
    """Return what to write instead of a setting where a program has others already.

    Of a list the last one counts, so that this one takes over the entries of an earlier one, which
    is then given twice.
    """
    had = {
        one.name: one.meant
        for one in given
        if one.name != own.name and (one.branch == own.branch or not one.conditional)
    }
    return tuple(
        (name, add_to_list(had[name], value) if name in had else value)
        for name, value in _instead(remark)
        if had.get(name) != value
    )


def _objection(
    state: FixResult, fixes: list[Remark], written: ParsedSource, left: tuple[Remark, ...]
) -> str | None:
    """Return why a text with the fixes is not what was wanted; None if it has just their settings.

    Nor may it have a fault or a remark that was not there before, except on the same setting or a
    new one: then the next round sees to that.
    """
    wanted = {_held(program.given, fixes) for program in state.written.programs}
    held = {_held(program.given, []) for program in written.programs}
    if held | {()} != wanted | {()} or _faults(written) - _faults(state.written):
        return _DEPENDS
    names = {name for one in fixes for name in (one.name, *(new for new, _ in _instead(one)))}
    before = Counter(one.code for one in state.left)
    worse = Counter(one.code for one in left if one.name not in names) - before
    return f"{next(iter(worse))} would apply without it" if worse else None


def _held(given: tuple[Occurrence, ...], fixes: list[Remark]) -> tuple[_Setting, ...]:
    """Return what a program has after the fixes; of two equal settings, the later one stays."""
    left = [*given]
    keys = {_key(one) for one in given}
    for remark in (one for one in fixes if _key(one) in keys):
        at = next((at for at, one in enumerate(left) if _key(one) == _key(remark)), None)
        if at is not None:
            heirs = _heirs(remark, left[at], left)
            left[at : at + 1] = [
                replace(left[at], name=name, value=value, text="") for name, value in heirs
            ]
    return tuple(sorted((one.channel, one.name, one.meant) for one in left if _counts(one)))


def _counts(one: Occurrence) -> bool:
    """Return whether it is a setting; a launcher's own variable may contain a whole script."""
    return one.channel is not Channel.ENVIRONMENT or is_setting(one.name)


def _faults(written: ParsedSource) -> Counter[str]:
    """Return what is wrong or not read, without the lines, which a fix may move."""
    faults = Counter[str]()
    for program in written.programs:
        faults.update(_LINE.sub("", f"{issue.kind} {issue.text}") for issue in program.issues)
        faults.update(_LINE.sub("", part) for part in program.unread)
    return faults
