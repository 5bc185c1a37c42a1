"""`flags check`, `check --fix`, `effective` and `render` as JSON.

Nothing is cut. The types can be imported without loading any terminal library.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

from counterpoint.flags.effective import Difference
from counterpoint.flags.lint import Fix
from counterpoint.flags.parsed import Location
from counterpoint.flags.settings import Layout, SettingDifference
from counterpoint.report.catalogue.flags_json import Versions
from counterpoint.report.flags.settings_document import counting, left_out
from counterpoint.report.json import At, CountOf, Pairs, Result, TextOrNull, fill, json_text

if TYPE_CHECKING:
    from counterpoint.flags.check.examination import Examination
    from counterpoint.flags.check.fix import FixResult
    from counterpoint.flags.parsed import ParsedSource
    from counterpoint.flags.settings import Settings
    from counterpoint.report.flags.settings_document import EffectiveFlags


class CompilerAnswerJson(Result):
    """The compiler that checked the settings, with its version; or why none did."""

    asked: bool
    jaxlib: str | None
    note: str | None


class RemarkJson(Result):
    """A remark of a rule on a setting; `minor` says why a summary counts it instead of a line."""

    code: str
    severity: str
    channel: str
    name: str
    text: str
    place: Location
    message: str
    advice: str
    mend: Annotated[Fix | None, At("fix")]
    minor: TextOrNull


class SettingRead(Result):
    """A setting of the source; the value is null if it is known only when the program runs.

    `origin` is literal, default (what applies if a variable is not set) or computed. `conditional`:
    a branch, a loop, a function or a heredoc has it. What is written but has no effect (set too
    late, or where XLA stops reading) is listed, too, and a remark says so.
    """

    variable: str
    name: str
    value: str | None
    line: Annotated[int | None, At("place.line")]
    origin: str
    conditional: bool


class OwnReleaseJson(Result):
    """The release that the source is for, and what says so: a pin, or flags that others lack.

    `exact` is false if the pin allows others, or is the image of a day between two.
    """

    version: str
    why: str
    pinned: bool
    exact: bool


class FlagsCheck(Result, tag_field="schema", tag="counterpoint.flags.check/1"):
    """The remarks on settings: `counterpoint flags check --json`.

    They are those for `own_release`, if it is not null, and `upgrade` those on what the installed
    release refuses; if flags tell the own release, what the installed one refuses is an error.
    """

    where: Annotated[str, At("written.where")]
    form: Annotated[str, At("written.form")]
    jaxlib: Versions
    own_release: Annotated[OwnReleaseJson | None, At("own")]
    chip: str | None
    compiler: CompilerAnswerJson
    programs: Annotated[int, CountOf("written.programs")]
    settings: tuple[SettingRead, ...]
    notes: Annotated[tuple[str, ...], At("written.notes")]
    unread: Annotated[tuple[str, ...], At("written.not_read")]
    remarks: tuple[RemarkJson, ...]
    upgrade: tuple[RemarkJson, ...]
    counts: dict[str, int]


def check_json(found: Examination) -> str:
    """Return `flags check` as text."""
    severities = [str(remark.severity) for remark in found.remarks]
    counts = {severity: severities.count(severity) for severity in ("error", "warning", "note")}
    programs = reversed(found.written.programs)
    given = dict.fromkeys(
        one
        for program in programs
        for one in (*program.given, *(it for issue in program.issues for it in issue.lost))
    )
    settings = [fill(SettingRead, one, value=one.meant if one.known else None) for one in given]
    own = {"counts": counts, "settings": settings}
    return json_text(fill(FlagsCheck, found, **_asked(found), **own))


def _asked(found: Examination) -> dict[str, Any]:
    answer = found.confirmation
    return {
        "jaxlib": found,
        "compiler": {
            "asked": answer is not None and answer.note is None,
            "jaxlib": answer.version if answer else None,
            "note": answer.note if answer else "not asked for",
        },
    }


class Refused(Result):
    """A problem whose fix can't be made in place, and why."""

    code: Annotated[str, At("remark.code")]
    text: Annotated[str, At("remark.text")]
    place: Annotated[str, At("remark.place")]
    why: str


class FlagsFix(Result, tag_field="schema", tag="counterpoint.flags.fix/1"):
    """The mended text: `counterpoint flags check --fix --json`."""

    where: Annotated[str, At("written.where")]
    form: Annotated[str, At("written.form")]
    jaxlib: Versions
    chip: str | None
    compiler: CompilerAnswerJson
    fixed: str
    mended: tuple[RemarkJson, ...]
    refused: tuple[Refused, ...]
    left: tuple[RemarkJson, ...]


def fix_json(fixed: FixResult, found: Examination) -> str:
    """Return `flags check --fix` as text: the mended text and the changes."""
    own = {"fixed": fixed.text, "mended": fixed.made, "refused": fixed.refused}
    return json_text(fill(FlagsFix, found, **_asked(found), **own, left=found.remarks))


class UsedFlag(Result):
    """The outcome of a flag in a module."""

    name: str
    outcome: str
    asked: str | None
    used: str | None
    note: str
    set_by: str | None


class SettingWritten(Result):
    """A value of a flag or variable, who set it, and whether it counts; null removes it."""

    name: str
    variable: str
    value: str | None
    by: str
    counts: bool


class FlagsEffective(Result, tag_field="schema", tag="counterpoint.flags.effective/1"):
    """The flags that a compiler used: `counterpoint flags effective --json`."""

    source: Annotated[str, At("where")]
    module: str
    modules: tuple[str, ...]
    jaxlib: str
    asked_by: Annotated[str | None, At("asked")]
    flags: tuple[UsedFlag, ...]
    differences: tuple[Difference, ...]
    writes: tuple[SettingWritten, ...]
    next: str


def effective_json(found: EffectiveFlags, next: str) -> str:
    """Return `flags effective` as text."""
    flags = [
        fill(UsedFlag, flag, outcome=flag.outcome.name.lower(), set_by=found.set_by(flag.name))
        for flag in found.used
    ]
    writes = [
        SettingWritten(
            name=origin.name,
            variable=origin.variable,
            value=write.value,
            by=write.by,
            counts=counts,
        )
        for origin in found.origins
        for write, counts in zip(origin.writes, counting(origin), strict=True)
    ]
    return json_text(fill(FlagsEffective, found, flags=flags, writes=writes, next=next))


class SourceRead(Result):
    """A source of settings, and the form it was read as."""

    where: str
    form: str


class LeftOutJson(Result):
    """Text of a source that is not part of the settings."""

    where: str
    line: int | None
    text: str
    why: str


class PartUnread(Result):
    """A part of a source that was not read."""

    where: str
    part: str


class SourceNote(Result):
    """A note on a source."""

    where: str
    note: str


class FlagsRender(Result, tag_field="schema", tag="counterpoint.flags.render/1"):
    """Settings in another form: `counterpoint flags render --json`."""

    sources: tuple[SourceRead, ...]
    xla_flags: Annotated[Pairs, At("xla")]
    compiler_options: Annotated[dict[str, str], At("options")]
    environment: Annotated[dict[str, str], At("variables")]
    layout: Layout | None
    form: str
    text: str
    left_out: tuple[LeftOutJson, ...]
    unread: tuple[PartUnread, ...]
    notes: tuple[SourceNote, ...]


def render_json(
    settings: Settings,
    form: str,
    text: str,
    sources: Sequence[ParsedSource],
) -> str:
    """Return `flags render` as text: settings, form, and what was left out of each source."""
    return json_text(
        fill(
            FlagsRender,
            settings,
            sources=sources,
            form=form,
            text=text,
            left_out=[
                LeftOutJson(where=at.where, line=at.line, text=text, why=why)
                for source in sources
                for at, text, why in left_out(source)
            ],
            unread=[(source.where, part) for source in sources for part in source.not_read],
            notes=[(source.where, note) for source in sources for note in source.notes],
        )
    )


class FlagsRenderDiff(Result, tag_field="schema", tag="counterpoint.flags.render-diff/1"):
    """The differences of two settings: `counterpoint flags render --diff --json`."""

    before: tuple[str, ...]
    after: str
    changes: tuple[SettingDifference, ...]


def difference_json(changes: Sequence[SettingDifference], before: Sequence[str], after: str) -> str:
    """Return `flags render --diff` as text."""
    own = {"before": before, "after": after, "changes": changes}
    return json_text(fill(FlagsRenderDiff, None, **own))
