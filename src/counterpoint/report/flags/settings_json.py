"""`flags check`, `check --fix`, `effective` and `render` as JSON.

Nothing is cut. The types can be imported without loading any terminal library.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

from counterpoint.core.field import Field
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
    """The check by an installed compiler."""

    asked: Annotated[bool, Field("whether an installed compiler checked the settings")]
    jaxlib: Annotated[str | None, Field("its version; null: none was found")]
    note: Annotated[str | None, Field("why it did not check them; null: it did")]


class RemarkJson(Result):
    """A remark of a rule on a setting."""

    code: Annotated[str, Field("code of the rule")]
    severity: Annotated[
        str,
        Field(
            "`error`: the process ends, or the setting does the opposite of what it says; "
            "`warning`: it does nothing, or has an unexpected cost; `note`: worth knowing"
        ),
    ]
    channel: Annotated[
        str,
        Field(
            "`XLA_FLAGS`, `compiler_options`, `LIBTPU_INIT_ARGS`, `environment`, `jax.config` or "
            "`trainer`"
        ),
    ]
    name: Annotated[str, Field("the setting; empty: the text is none")]
    text: Annotated[str, Field("the setting as written")]
    place: Annotated[Location, Field("where it is written")]
    message: Annotated[str, Field("what is wrong, in one sentence")]
    advice: Annotated[str, Field("what to do, in one sentence")]
    mend: Annotated[
        Fix | None, At("fix"), Field("the change that mends it; null: there is no clear one")
    ]
    minor: Annotated[
        TextOrNull, Field("why a summary only counts it; null: it has a line of its own")
    ]


class SettingRead(Result):
    """A setting of the source.

    What is written but has no effect (set too late, or where XLA stops reading) is listed, too, and
    a remark says so.
    """

    variable: Annotated[
        str,
        Field(
            "the variable that holds it: `XLA_FLAGS`, or another channel; an environment "
            "variable's own name"
        ),
    ]
    name: Annotated[str, Field("its name")]
    value: Annotated[
        str | None,
        Field("its value, `true` of a flag without one; null: known only when the program runs"),
    ]
    line: Annotated[
        int | None, At("place.line"), Field("where it is written; null: the source has no lines")
    ]
    origin: Annotated[
        str, Field("`literal`, `default` (what applies if a variable is not set) or `computed`")
    ]
    conditional: Annotated[
        bool, Field("true if a branch, a loop, a function or a heredoc has it, which may not run")
    ]


class OwnReleaseJson(Result):
    """The release that the source is for, by a pin or by flags that others lack."""

    version: Annotated[str, Field("the release")]
    why: Annotated[str, Field("what names it")]
    pinned: Annotated[
        bool, Field("true if a pin names it; false: flags that other releases lack do")
    ]
    exact: Annotated[
        bool,
        Field("false if the pin allows other releases, too, or is the image of a day between two"),
    ]


class FlagsCheck(Result, tag_field="schema", tag="counterpoint.flags.check/1"):
    """The remarks on settings: `counterpoint flags check --json`.

    They are those for `own_release`, if it is not null, and `upgrade` those on what the installed
    release refuses; if flags tell the own release, what the installed one refuses is an error.
    """

    where: Annotated[str, At("written.where"), Field("the source")]
    form: Annotated[
        str,
        At("written.form"),
        Field("what it was read as: `flags`, `shell`, `python`, `slurm`, `kubernetes` and others"),
    ]
    jaxlib: Annotated[Versions, Field("the release that the remarks are for")]
    own_release: Annotated[
        OwnReleaseJson | None,
        At("own"),
        Field("the source's own release; null: the installed one, or unknown"),
    ]
    chip: Annotated[
        str | None, Field("the chip given with `--chip`, or named by the source; null: unknown")
    ]
    compiler: Annotated[CompilerAnswerJson, Field("the installed compiler's check of them")]
    programs: Annotated[
        int, CountOf("written.programs"), Field("the number of programs that the source starts")
    ]
    settings: Annotated[tuple[SettingRead, ...], Field("the settings of all of them, each once")]
    notes: Annotated[
        tuple[str, ...], At("written.notes"), Field("what the reader has to say about the source")
    ]
    unread: Annotated[
        tuple[str, ...],
        At("written.not_read"),
        Field("parts that may set something and were not read"),
    ]
    remarks: Annotated[tuple[RemarkJson, ...], Field("the remarks, by place")]
    upgrade: Annotated[
        tuple[RemarkJson, ...],
        Field("what the installed release refuses of a source with its own; empty without one"),
    ]
    counts: Annotated[dict[str, int], Field("`remarks` by severity: `error`, `warning`, `note`")]


def check_json(examination: Examination) -> str:
    """Return `flags check` as text."""
    severities = [str(remark.severity) for remark in examination.remarks]
    counts = {severity: severities.count(severity) for severity in ("error", "warning", "note")}
    programs = reversed(examination.written.programs)
    given = dict.fromkeys(
        one
        for program in programs
        for one in (*program.given, *(it for issue in program.issues for it in issue.lost))
    )
    settings = [fill(SettingRead, one, value=one.meant if one.known else None) for one in given]
    own = {"counts": counts, "settings": settings}
    return json_text(fill(FlagsCheck, examination, **_asked(examination), **own))


def _asked(examination: Examination) -> dict[str, Any]:
    answer = examination.confirmation
    return {
        "jaxlib": examination,
        "compiler": {
            "asked": answer is not None and answer.note is None,
            "jaxlib": answer.version if answer else None,
            "note": answer.note if answer else "not asked for",
        },
    }


class Refused(Result):
    """A problem whose fix can't be made in place, and why."""

    code: Annotated[str, At("remark.code"), Field("code of the rule")]
    text: Annotated[str, At("remark.text"), Field("the setting as written")]
    place: Annotated[str, At("remark.place"), Field("where it is written: `FILE:LINE`")]
    why: Annotated[str, Field("why it can't be mended in place")]


class FlagsFix(Result, tag_field="schema", tag="counterpoint.flags.fix/1"):
    """The mended text: `counterpoint flags check --fix --json`."""

    where: Annotated[str, At("written.where"), Field("the source")]
    form: Annotated[str, At("written.form"), Field("what it was read as, as in `flags check`")]
    jaxlib: Annotated[Versions, Field("the release that the remarks are for")]
    chip: Annotated[
        str | None, Field("the chip given with `--chip`, or named by the source; null: unknown")
    ]
    compiler: Annotated[
        CompilerAnswerJson, Field("the installed compiler's check of the mended text")
    ]
    fixed: Annotated[str, Field("the mended text")]
    mended: Annotated[tuple[RemarkJson, ...], Field("the remarks that were acted on")]
    refused: Annotated[tuple[Refused, ...], Field("the problems that can't be mended in place")]
    left: Annotated[tuple[RemarkJson, ...], Field("the remarks on the mended text")]


def fix_json(fixed: FixResult, examination: Examination) -> str:
    """Return `flags check --fix` as text: the mended text and the changes."""
    own = {"fixed": fixed.text, "mended": fixed.made, "refused": fixed.refused}
    return json_text(
        fill(FlagsFix, examination, **_asked(examination), **own, left=examination.remarks)
    )


class UsedFlag(Result):
    """The outcome of a flag in a module."""

    name: Annotated[str, Field("the flag")]
    outcome: Annotated[
        str,
        Field(
            "`applied`, `altered` (another value was used), `ignored` (the default was used), "
            "`default` (asked for what is the default), `elsewhere` (not requested, and in "
            "effect) or `unseen` (unknown)"
        ),
    ]
    asked: Annotated[str | None, Field("the requested value; null: none was")]
    used: Annotated[str | None, Field("the value in effect; null: unknown")]
    note: Annotated[str, Field("why, or who may have set it; may be empty")]
    set_by: Annotated[str | None, Field("who set the value that counts; null: unknown")]


class SettingWritten(Result):
    """A value that something gave to a flag or variable."""

    name: Annotated[str, Field("the flag or variable")]
    variable: Annotated[str, Field("the variable that holds it, or its own name")]
    value: Annotated[str | None, Field("the value; null: it was removed")]
    by: Annotated[
        str,
        Field(
            "who set it: `requested`, `your environment`, `the launch script`, or a place in the "
            "program"
        ),
    ]
    counts: Annotated[bool, Field("whether the value counts, alone or with others of a list")]


class FlagsEffective(Result, tag_field="schema", tag="counterpoint.flags.effective/1"):
    """The flags that a compiler used: `counterpoint flags effective --json`."""

    source: Annotated[str, At("where"), Field("the Run, the dump or the file")]
    module: Annotated[str, Field("the module whose flags these are")]
    modules: Annotated[tuple[str, ...], Field("all modules of which the flags are known")]
    jaxlib: Annotated[str, Field("the known release whose table was used")]
    asked_by: Annotated[
        str | None, At("asked"), Field("the source of the requested flags; null: unknown")
    ]
    flags: Annotated[
        tuple[UsedFlag, ...],
        Field("the requested flags in their order, then those that something else set"),
    ]
    differences: Annotated[tuple[Difference, ...], Field("the flags that differ between modules")]
    writes: Annotated[
        tuple[SettingWritten, ...],
        Field("every value that was set, in order; empty where that is not known"),
    ]
    next: Annotated[str, Field("the command to run next")]


def effective_json(effective: EffectiveFlags, next: str) -> str:
    """Return `flags effective` as text."""
    flags = [
        fill(UsedFlag, flag, outcome=flag.outcome.name.lower(), set_by=effective.set_by(flag.name))
        for flag in effective.used
    ]
    writes = [
        SettingWritten(
            name=history.name,
            variable=history.variable,
            value=write.value,
            by=write.by,
            counts=counts,
        )
        for history in effective.histories
        for write, counts in zip(history.writes, counting(history), strict=True)
    ]
    return json_text(fill(FlagsEffective, effective, flags=flags, writes=writes, next=next))


class SourceRead(Result):
    """A source of settings, and the form it was read as."""

    where: Annotated[str, Field("the source")]
    form: Annotated[str, Field("what it was read as")]


class LeftOutJson(Result):
    """Text of a source that is not part of the settings."""

    where: Annotated[str, Field("the source")]
    line: Annotated[int | None, Field("the line in it; null: it has no lines")]
    text: Annotated[str, Field("the text")]
    why: Annotated[str, Field("why, in a few words")]


class PartUnread(Result):
    """A part of a source that was not read."""

    where: Annotated[str, Field("the source")]
    part: Annotated[str, Field("what was not read, and why")]


class SourceNote(Result):
    """A note on a source."""

    where: Annotated[str, Field("the source")]
    note: Annotated[str, Field("what the reader has to say about it")]


class FlagsRender(Result, tag_field="schema", tag="counterpoint.flags.render/1"):
    """Settings in another form: `counterpoint flags render --json`."""

    sources: Annotated[
        tuple[SourceRead, ...], Field("the sources, the later ones taking precedence")
    ]
    xla_flags: Annotated[
        Pairs, At("xla"), Field("pairs of name and value, in order; a name may occur twice")
    ]
    compiler_options: Annotated[dict[str, str], At("options"), Field("compiler options, by name")]
    environment: Annotated[dict[str, str], At("variables"), Field("environment variables, by name")]
    layout: Annotated[Layout | None, Field("the processes; null: unspecified")]
    form: Annotated[str, Field("the form that they are written in, as `--as` names it")]
    text: Annotated[str, Field("the settings in that form")]
    left_out: Annotated[
        tuple[LeftOutJson, ...], Field("text of the sources that is no setting, or no known one")
    ]
    unread: Annotated[tuple[PartUnread, ...], Field("parts of the sources that were not read")]
    notes: Annotated[tuple[SourceNote, ...], Field("notes on the sources")]


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

    before: Annotated[
        tuple[str, ...], Field("the sources before, the later ones taking precedence")
    ]
    after: Annotated[str, Field("the source after")]
    changes: Annotated[
        tuple[SettingDifference, ...],
        Field("the settings that differ: flags, compiler options, variables"),
    ]


def difference_json(changes: Sequence[SettingDifference], before: Sequence[str], after: str) -> str:
    """Return `flags render --diff` as text."""
    own = {"before": before, "after": after, "changes": changes}
    return json_text(fill(FlagsRenderDiff, None, **own))
