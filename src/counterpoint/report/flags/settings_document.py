"""The reports of `flags render` and `flags effective`."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from counterpoint.core.printable import some
from counterpoint.flags.effective import Difference, EffectiveFlag, FlagOutcome
from counterpoint.flags.parsed import IssueKind, Location, ParsedSource
from counterpoint.flags.settings import Channel, SettingDifference, Settings, combine, is_combined
from counterpoint.report.document import (
    Document,
    Fact,
    FactList,
    Section,
    names,
    printable,
    table,
    words,
)
from counterpoint.runs.setting_history import SettingHistory

_LOST: Final = {
    IssueKind.STRAY: "not a flag",
    IssueKind.DASH: "not a flag",
    IssueKind.SINGLE_DASH: "not a flag",
    IssueKind.UNKNOWABLE: "known only when the program runs",
    IssueKind.NAMES_FILE: "names a file that was not read",
    IssueKind.MISSING_FILE: "no such file",
    IssueKind.TOO_LATE: "set too late",
}
_BEHIND: Final = "after the word at which XLA stops reading"
_TITLES: Final = {
    Channel.XLA_FLAGS: "XLA_FLAGS",
    Channel.COMPILER_OPTIONS: "Compiler options",
    Channel.ENVIRONMENT: "Environment",
}
_ORDER: Final = (
    FlagOutcome.IGNORED,
    FlagOutcome.ALTERED,
    FlagOutcome.UNSEEN,
    FlagOutcome.APPLIED,
    FlagOutcome.DEFAULT,
)
_MODULES: Final = 3
_DEFAULT: Final = "(default)"


def unread_lines(written: ParsedSource) -> Iterator[str]:
    """Yield a line for each part of a source that the settings read from it do not include."""
    for place, text, why in left_out(written):
        yield printable(f"left out: {place}: {text} ({why})")
    for part in written.not_read:
        yield printable(f"not read: {written.where}: {part}")
    for note in written.notes:
        yield printable(f"note: {written.where}: {note}")


def unwritten_lines(settings: Settings, form: str) -> Iterator[str]:
    """Yield a note on the settings that this form can hold only in comments."""
    if not settings.options or form == "compiler_options":
        return
    yield (
        f"note: compiler options ({len(settings.options)}) are in comments: they apply to one"
        " compile, XLA_FLAGS would apply to all; --as compiler_options writes them"
    )


def left_out(written: ParsedSource) -> Iterator[tuple[Location, str, str]]:
    """Yield the place, the text and, in a few words, the reason of each part that was left out."""
    for issue in written.issues:
        if issue.kind in _LOST:
            yield issue.place, issue.text, _LOST[issue.kind]
        if issue.kind is not IssueKind.TOO_LATE:
            yield from ((lost.place, lost.text, _BEHIND) for lost in issue.lost)
    yield from ((refused.place, refused.text, why) for refused, why in written.refused)
    if written.settings == Settings():  # then the options themselves are written
        return
    for option in written.through(Channel.TRAINER):
        yield option.place, option.text, "an option of the trainer, for its command line"


def difference_document(
    changes: Sequence[SettingDifference], before: Sequence[str], after: str
) -> Document:
    """Return the report of `flags render --diff`: the changes by channel."""
    compared = f"{' + '.join(before)} -> {after}"
    nothing = "" if changes else ": the same settings"
    sections = [Section("Compared", compared + nothing)]
    for channel, title in _TITLES.items():
        of_channel = [change for change in changes if change.channel is channel]
        if of_channel:
            values = table(
                words("name", [change.name for change in of_channel]),
                words("before", [_value(change.before) for change in of_channel]),
                words("after", [_value(change.after) for change in of_channel]),
            )
            sections.append(Section(title, f"{len(of_channel)}", (values,)))
    return Document(
        sections=tuple(sections),
        legend="- stands for a setting that is not given" if changes else "",
        next=f"counterpoint flags check {after}",
    )


def _value(value: str | None) -> str:
    return "-" if value is None else value or '""'


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectiveFlags:
    """The flags that a Run or a dump used, beside those that were requested.

    `asked` is the source of the requested flags, None if it is unknown. `histories` say who set
    each flag and variable, which is known of a Run.
    """

    where: str
    module: str
    modules: tuple[str, ...]
    jaxlib: str
    asked: str | None
    used: tuple[EffectiveFlag, ...]
    differences: tuple[Difference, ...]
    histories: tuple[SettingHistory, ...] = ()

    def set_by(self, flag: str) -> str | None:
        """Return who set the value of a flag that took effect, if that is known."""
        return next((it.last.by for it in self.histories if it.name == flag), None)

    @property
    def lost(self) -> tuple[EffectiveFlag, ...]:
        """The flags that were requested but not applied."""
        lost = (FlagOutcome.IGNORED, FlagOutcome.ALTERED)
        return tuple(flag for flag in self.used if flag.outcome in lost)


def effective_document(effective: EffectiveFlags) -> Document:
    """Return the report of `flags effective`."""
    sections = [
        _head(effective),
        *_requested(effective),
        *_elsewhere(effective),
        *_repeated(effective),
    ]
    sections += _differences(effective)
    return Document(sections=tuple(sections), legend="", next=next_command(effective))


def _head(effective: EffectiveFlags) -> Section:
    others = len(effective.modules) - 1
    which = effective.module + (f" (and {others} more: --module)" if others else "")
    rows = [
        Fact("module", which),
        Fact("requested", effective.asked or "unknown; give the source with --asked"),
        Fact("jaxlib", effective.jaxlib),
    ]
    return Section("Flags", _counted(effective), (FactList(tuple(rows)),))


def _counted(effective: EffectiveFlags) -> str:
    counts = Counter(flag.outcome for flag in effective.used)
    order = (*_ORDER, FlagOutcome.ELSEWHERE)
    counted = [f"{counts[outcome]} {outcome}" for outcome in order if counts[outcome]]
    return ", ".join(counted) or "defaults only"


def _requested(effective: EffectiveFlags) -> list[Section]:
    requested = [flag for flag in effective.used if flag.outcome is not FlagOutcome.ELSEWHERE]
    if not requested:
        return []
    rows = sorted(requested, key=lambda flag: _ORDER.index(flag.outcome))
    setters = [effective.set_by(flag.name) for flag in rows]
    set_by = [words("set by", [by or "" for by in setters])] if any(setters) else []
    flags = table(
        words("flag", [flag.name for flag in rows]),
        words("requested", [_shown_value(flag.asked) for flag in rows]),
        words("used", [_shown_value(flag.used) for flag in rows]),
        words("outcome", [str(flag.outcome) for flag in rows]),
        *set_by,
        words("why", [flag.note for flag in rows], 1),
    )
    return [Section("Requested", "", (flags,))]


def _elsewhere(effective: EffectiveFlags) -> list[Section]:
    flags = [flag for flag in effective.used if flag.outcome is FlagOutcome.ELSEWHERE]
    if not flags:
        return []
    title, summary = ("Set elsewhere", "not requested, but in effect")
    if effective.asked is None:
        title, summary = ("In effect", "values that differ from the defaults")
    values = table(
        words("flag", [flag.name for flag in flags]),
        words("used", [_shown_value(flag.used) for flag in flags]),
        words("by", [flag.note for flag in flags], 1),
    )
    return [Section(title, summary, (values,))]


def _repeated(effective: EffectiveFlags) -> list[Section]:
    """List the settings that were set more than once, in order."""
    repeated = [history for history in effective.histories if len(history.writes) > 1]
    rows = [
        (history.name, write, counts)
        for history in repeated
        for write, counts in zip(history.writes, counting(history), strict=True)
    ]
    if not rows:
        return []
    values = table(
        words("setting", [name for name, _, _ in rows]),
        words("value", ["(removed)" if it.value is None else it.value for _, it, _ in rows]),
        words("set by", [write.by for _, write, _ in rows]),
        words("", ["counts" if counts else "" for _, _, counts in rows]),
    )
    lists = any(is_combined(history.name) for history in repeated)
    summary = "the last one counts" + ("; XLA may combine several values of a list" * lists)
    return [Section("Set more than once", summary, (values,))]


def counting(history: SettingHistory) -> list[bool]:
    """Return for each write whether it counts: the last one does, and those combined with it."""
    *earlier, last = history.writes
    counts, value = [True], last.value
    for write in reversed(earlier):
        if value is None or write.value is None or not is_combined(history.name):
            break
        combined = combine(history.name, write.value, value)
        counts.append(combined != value)
        value = combined
    return [*([False] * (len(history.writes) - len(counts))), *reversed(counts)]


def _differences(effective: EffectiveFlags) -> list[Section]:
    if not effective.differences:
        return []
    rows = [
        (difference.name, value, modules)
        for difference in effective.differences
        for value, modules in _by_value(difference.by_module)
    ]
    values = table(
        words("flag", [name for name, _, _ in rows]),
        words("used", [_DEFAULT if it is None else _shown_value(it) for _, it, _ in rows]),
        names("in", [modules for _, _, modules in rows]),
    )
    summary = f"flags that differ between the {len(effective.modules)} modules"
    return [Section("Between modules", summary, (values,))]


def _by_value(by_module: Mapping[str, str | None]) -> list[tuple[str | None, str]]:
    values = dict.fromkeys(by_module.values())
    users_of_value: list[tuple[str | None, str]] = []
    for value in values:
        modules = [name for name, used in by_module.items() if used == value]
        users_of_value.append((value, some(modules, _MODULES)))
    return users_of_value


def _shown_value(value: str | None) -> str:
    if value is None:
        return "?"
    return value or "(empty)"


def next_command(effective: EffectiveFlags) -> str:
    """Return the command that shows a flag that was lost, or else checks or lists flags."""
    if effective.lost:
        return shlex.join(["counterpoint", "flags", "show", effective.lost[0].name])
    if effective.asked is None:
        shown = [effective.used[0].name] if effective.used else []
        return shlex.join(["counterpoint", "flags", *(["show", *shown] if shown else ["list"])])
    return shlex.join(["counterpoint", "flags", "check", effective.asked])
