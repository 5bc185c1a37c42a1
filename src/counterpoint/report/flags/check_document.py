"""`flags check` as plain lines and as JSON. One line per remark, as compilers write theirs.

Nothing that draws on a terminal is loaded: the command is to answer in a blink.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from counterpoint.flags import Channel
from counterpoint.flags.check import Examination
from counterpoint.flags.lint import Remark, Severity, advice_of, what_is_lost
from counterpoint.flags.parse import IssueKind, ParsedSource, Place
from counterpoint.report.units import printable

if TYPE_CHECKING:
    from counterpoint.flags.check import Fixed


_FLAGS: Final = (Channel.XLA_FLAGS, Channel.LIBTPU_INIT_ARGS, Channel.COMPILER_OPTIONS)
"""What XLA reads when it starts, or compiles."""

_LONGEST: Final = 200
_MANY: Final = {Severity.ERROR: 4, Severity.WARNING: 4, Severity.NOTE: 2}
"""So many alike remarks are one line."""
_LISTED: Final = 40
"""So many notes, or parts that were not read, are printed."""
_NAMED: Final = 40
"""So many of their settings are named in it."""


def remark_line(one: Remark) -> str:
    """`file:line: CODE severity: setting: what is wrong; what to do`."""
    return printable(
        f"{one.place}: {one.code} {one.severity}: {_setting(one)}: {one.message}; {one.advice}"
    )


def check_lines(found: Examination) -> Iterator[str]:
    """The result. What is said of many settings alike is one line; JSON has each by itself."""
    alike: dict[tuple[object, ...], list[Remark]] = {}
    for one in found.remarks:
        alike.setdefault(_said(one), []).append(one)
    for one in found.remarks:
        group = alike[_said(one)]
        if len(group) < _MANY[one.severity]:
            yield remark_line(one)
        elif one is group[0]:
            yield _line_of_all(group)


def _said(one: Remark) -> tuple[object, ...]:
    """All of a remark but the setting and its line."""
    return (one.place.where, one.code, one.severity, one.message, one.advice)


def _line_of_all(group: list[Remark]) -> str:
    """The line of many remarks: all settings by name, and where the last one is."""
    one, last = group[0], group[-1]
    names = list(dict.fromkeys(_setting(it) for it in group))
    shown = ", ".join(names[:_NAMED])
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    to = f" (to line {last.place.line})" if last.place.line != one.place.line else ""
    return printable(
        f"{one.place}: {one.code} {one.severity}: {shown}{more}{to}: {one.message}; {one.advice}"
    )


def summary_lines(found: Examination, next: str) -> Iterator[str]:
    """What there is to say beside the result: how much of what, for which release, how sure."""
    yield from _said_of_reading(found)
    settings = _counted(found.settings, "setting")
    yield printable(
        f"{_tally(found)} on {settings} of {found.written.where}, for {_release(found)}"
    )
    yield printable(_confirmed(found))
    if found.count(Severity.WARNING) and not found.failed:
        yield "exit code 0: only errors make it 1"
    if next:
        yield printable(f"next: {next}")


def fix_lines(fixed: Fixed, found: Examination, undone: tuple[Remark, ...] = ()) -> Iterator[str]:
    """What was mended, and what was left to the reader; `undone` can't be written in its place."""
    for one in undone:
        yield f"left as it is: {remark_line(one)}"
    for one in fixed.made:
        yield printable(f"mended: {one.place}: {one.code}: {_short(one.text)}: {_done(one)}")
    omitted = {(slip.place, slip.text) for slip in fixed.omitted}
    for slip in fixed.omitted:
        yield printable(f"left out: {slip.place}: {_short(slip.text)}: {what_is_lost(slip)}")
    for one in found.remarks:
        if (one.place, one.text) not in omitted and one.severity is not Severity.NOTE:
            unsafe = " (its mend may change the program)" if one.mend else ""
            yield f"left as it is{unsafe}: {remark_line(one)}"
    if found.written.others:
        those = _counted(len(found.written.others), "other program")
        yield f"not written: the flags of {those} of this source; only the last one's are"
    yield from _said_of_reading(found)
    yield printable(_confirmed(found))


def nothing_lines(found: Examination) -> Iterator[str]:
    """What there is to say where no setting was found: not that all is well."""
    yield printable(f"warning: no settings found in {found.written.where}")
    yield from _said_of_reading(found)


def _said_of_reading(found: Examination) -> Iterator[str]:
    yield from some("note", found.written.notes)
    yield from some("not read", found.written.not_read)


def some(what: str, said: Sequence[str]) -> Iterator[str]:
    """A line each, and not all of very many: a source may have as many as it has lines."""
    yield from (printable(f"{what}: {one}") for one in said[:_LISTED])
    if len(said) > _LISTED:
        yield f"{what}: {len(said) - _LISTED} more, which --json lists"


def _setting(one: Remark) -> str:
    if not one.name:
        return _short(one.text)
    return (
        f"--{_short(one.name)}"
        if one.channel in (Channel.XLA_FLAGS, Channel.LIBTPU_INIT_ARGS)
        else _short(one.name)
    )


def _done(one: Remark) -> str:
    """What a mend has made of a setting."""
    if one.mend is None or not one.mend.instead:
        return "dropped"
    return advice_of(one.mend.instead, one.channel).replace("write", "now", 1)


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _tally(found: Examination) -> str:
    parts = [_counted(found.count(one), str(one)) for one in Severity if found.count(one)]
    return ", ".join(parts) or "nothing to say"


def _release(found: Examination) -> str:
    chip = f" on {found.chip}" if found.chip else ""
    near = "" if found.table == found.asked else f" (by the tables of {found.table}, the nearest)"
    return f"jaxlib {found.asked}{near}{chip}"


def _confirmed(found: Examination) -> str:
    told = found.confirmation
    if told is None:
        return "the compiler was not asked: --no-probe"
    if told.note is not None:
        return f"the compiler was not asked: {told.note}"
    those = _counted(told.asked, "flag")
    if told.refused:
        verdict = f"it refuses {told.refused}"
    else:
        doubts = list(_doubts(found.written))
        verdict = "it takes them"
        if not found.failed:
            verdict += ", and XLA starts" + (" with the flags that were read" if doubts else "")
        verdict = "; ".join([verdict, *doubts])
    return f"the compiler of jaxlib {told.version} was asked about {those}: {verdict}"


def _doubts(written: ParsedSource) -> Iterator[str]:
    """What may stand beside the flags that were asked about, so that no verdict holds for all."""
    if parts := len(written.not_read):
        were = "was" if parts == 1 else "were"
        yield f"{_counted(parts, 'part')} of the source {were} not read"
    holes: set[tuple[Place, str]] = set()
    for one in written.programs:
        slips = (it for it in one.slips if it.kind is IssueKind.UNKNOWABLE)
        every = (*slips, *(it for it in one.given if not it.known))
        holes |= {(it.place, it.text) for it in every if it.channel in _FLAGS}
    if values := len(holes):
        are = "is" if values == 1 else "are"
        yield f"{_counted(values, 'value')} {are} known only when it runs"


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
