"""Fixes: corrected settings, written back into their file."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Final

from counterpoint.core.frozen import frozen
from counterpoint.flags import settings
from counterpoint.flags.catalogue.flag import Release
from counterpoint.flags.forms import SettingsForm, quoted, render
from counterpoint.flags.lint import Fix, Remark, Severity
from counterpoint.flags.parsed import (
    IssueKind,
    Occurrence,
    Origin,
    ParsedSource,
    SyntaxIssue,
    as_issue,
)
from counterpoint.flags.settings import Channel, Settings
from counterpoint.flags.text import join_xla_flags, render_xla_flags

_PLAIN: Final = re.compile(r"[\w=.,:/+-]*", re.ASCII)
"""Characters that mean the same in any Python literal."""


@frozen
class InPlaceFix:
    """The text, with the fixes that were applied to it and those that could not be."""

    text: str
    made: tuple[Remark, ...]
    undone: tuple[Remark, ...]


def in_place(
    made: tuple[Remark, ...], wanted: ParsedSource, read: Callable[[str], ParsedSource]
) -> InPlaceFix:
    """Apply fixes to the source, if reading the result yields the wanted settings.

    Expressions for what a program inherits or computes stay as they are. Only what occurs literally
    and once on its line is rewritten; the rest is left to the reader, in `undone`.
    """
    source = wanted.source
    rows: list[str | None] = [*source.split("\n")]
    done = [remark for remark in made if _rewrite(rows, remark)]
    undone = tuple(remark for remark in made if remark not in done)
    text = "\n".join(row for row in rows if row is not None)
    result = read(text)
    wrong = not undone and _flags_of(result) != _flags_of(wanted)
    if wrong or _issues(result) > _issues(wanted):
        return InPlaceFix(source, (), made)
    return InPlaceFix(text, tuple(done), undone)


def _issues(written: ParsedSource) -> int:
    return sum(len(program.issues) for program in written.programs)


def _flags_of(written: ParsedSource) -> set[frozenset[tuple[str, str]]]:
    """Return the flags of each program that has some; two programs may have the same ones."""
    flags = (program.settings.flags for program in written.programs)
    return {frozenset(found.items()) for found in flags if found}


def _rewrite(rows: list[str | None], one: Remark) -> bool:
    """Rewrite one setting, or remove the row that has nothing else; False if that can't be done."""
    line = one.place.line or 0
    row = rows[line - 1] if 0 < line <= len(rows) else None
    if one.fix is None or row is None:
        return False
    new = [f"{name}={value}" for name, value in one.fix.instead]
    old = one.text
    if one.text.startswith("--"):
        new = [f"--{word}" for word in new]
    elif one.channel is Channel.ENVIRONMENT:
        name, _, value = one.text.partition("=")
        if not new:
            return _remove(rows, one.place.line or 0, name, value)
        if len(new) > 1 or one.fix.instead[0][1] != value:
            return False
        old, new = name, [one.fix.instead[0][0]]
    else:
        return False
    found = [*re.finditer(rf"(?<![\w-]){re.escape(old)}(?![^\s\"'\\=:,;)\]}}])", row)]
    if len(found) != 1 or not all(_PLAIN.fullmatch(word) for word in (*new, old)):
        return False
    before, after = row[: found[0].start()], row[found[0].end() :]
    rows[(one.place.line or 0) - 1] = f"{before}{' '.join(new)}{after}"
    return True


def _remove(rows: list[str | None], line: int, name: str, value: str) -> bool:
    """Remove the row of a manifest or script that sets a variable, and nothing else."""
    either, quote = re.escape(name), "[\"']?"
    given = rf"{quote}{re.escape(value)}{quote}\s*"
    row, after = rows[line - 1] or "", (rows[line] if line < len(rows) else None) or ""
    if re.fullmatch(rf"\s*(?:- |export )?\s*{quote}{either}(?:=|{quote}:\s+){given}", row):
        rows[line - 1] = None
        return True
    if re.fullmatch(rf"\s*- name:\s+{quote}{either}{quote}\s*", row) and re.fullmatch(
        rf"\s*value:\s+{given}", after
    ):
        rows[line - 1 : line + 1] = [None, None]
        return True
    return False


_OF_FLAGS: Final = (Channel.XLA_FLAGS, Channel.LIBTPU_INIT_ARGS)
_NEXT_LINE: Final = " \\\n"
_DOCKER: Final = str.maketrans({character: "\\" + character for character in '\\"$'})
Quote = Callable[[str], str]
_SETTERS: Final = {"shell": "export", "slurm": "export", "docker": "ENV"}
"""The forms that are scripts, each with the word before an assignment."""


def assignments(written: ParsedSource) -> str:
    """Write one assignment for each variable, with its whole value.

    The lines replace those that set the variable before. What only the shell can know is copied as
    written: between double quotes it means the same.
    """
    refused = [occurrence for occurrence, _ in written.refused]
    written = replace(
        written,
        given=tuple(occurrence for occurrence in written.given if occurrence not in refused),
    )
    setter = _SETTERS[written.form]
    quote = _for_docker if setter == "ENV" else quoted
    held = {str(channel): _words(written, channel, quote) for channel in _OF_FLAGS}
    held |= {
        occurrence.name: [quote(occurrence.meant) if occurrence.known else occurrence.meant]
        for occurrence in written.through(Channel.ENVIRONMENT)
    }
    return "".join(
        f'{setter} {name}="{_NEXT_LINE.join(words)}"\n' for name, words in held.items() if words
    )


def is_script(written: ParsedSource) -> bool:
    """Return whether the settings come from lines that assign."""
    return written.form in _SETTERS


def stays(written: ParsedSource, issue: SyntaxIssue) -> bool:
    """Return whether a script's line can hold it as written."""
    known_later = issue.kind is IssueKind.UNKNOWABLE and "\n" not in issue.text
    return known_later and is_script(written)


def _words(written: ParsedSource, channel: Channel, quote: Quote) -> list[str]:
    """Return a variable's flags, and what the shell is to put between them, line by line."""
    given = written.through(channel)
    texts = {(occurrence.place, occurrence.text) for occurrence in given}
    between = [
        issue
        for issue in written.issues
        if issue.channel is channel
        and stays(written, issue)
        and (issue.place, issue.text) not in texts
    ]
    return [_word(item, quote) for item in _by_line(given, between)]


def _by_line(
    given: tuple[Occurrence, ...], between: list[SyntaxIssue]
) -> Iterator[Occurrence | SyntaxIssue]:
    """Yield both by line; within a line the shell's words first, as `$XLA_FLAGS` often leads."""
    for occurrence in given:
        line = occurrence.place.line or 0
        while between and (between[0].place.line or 0) <= line:
            yield between.pop(0)
        yield occurrence
    yield from between


def _word(one: Occurrence | SyntaxIssue, quote: Quote) -> str:
    if isinstance(one, SyntaxIssue) or not one.known:
        return one.text
    return quote(join_xla_flags([f"--{one.name}={one.meant}"]))


def _for_docker(value: str) -> str:
    """Escape a value for double quotes in a Dockerfile, where no commands are run."""
    return value.translate(_DOCKER)


_FORMS: Final = {
    "python": SettingsForm.PYTHON,
    "yaml": SettingsForm.K8S,
    "kubernetes": SettingsForm.K8S,
    "env": SettingsForm.ENV,
    "environment": SettingsForm.ENV,
    "process": SettingsForm.ENV,
    "run": SettingsForm.ENV,
}


def left_out(written: ParsedSource) -> tuple[SyntaxIssue, ...]:
    """Return what the text omits because it is not a setting, or known only elsewhere."""
    issues = tuple(issue for issue in written.issues if not stays(written, issue))
    return (*issues, *(as_issue(occurrence, why) for occurrence, why in written.refused))


def corrected(written: ParsedSource, release: Release) -> str:
    """Render the settings: plain flags as a line of flags, a script's as a script's lines.

    Of a script these are the assignments alone: they replace the old ones, and the rest stays.
    """
    settings = written.settings
    if written.form in ("flags", "text") and not settings.env and not settings.options:
        return render_xla_flags(settings.xla) + "\n"
    parts: list[str] = []
    if is_script(written):
        parts.append(assignments(written))
    elif settings.xla or settings.env:
        form = _FORMS.get(written.form, SettingsForm.BASH)
        parts.append(render(replace(settings, options=()), form, release))
    if settings.options:
        options = Settings(options=settings.options)
        parts.append(render(options, SettingsForm.COMPILER_OPTIONS, release))
    return "".join(parts)


_ROUNDS: Final = 5
_GRAVITY: Final = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.NOTE: 2}

Check = Callable[[ParsedSource], tuple[Remark, ...]]


@frozen
class FixResult:
    """`made`: the remarks that were fixed; `left`: those that still apply to the result.

    `omitted` is what the result omits because it is not a setting, or not known.
    """

    written: ParsedSource
    made: tuple[Remark, ...]
    left: tuple[Remark, ...]
    omitted: tuple[SyntaxIssue, ...]


def fix(written: ParsedSource, check: Check) -> FixResult:
    """Fix what can be fixed safely.

    A fix may require another one (a new name with an old value), so this is repeated until nothing
    changes. In a source that is fixed in place, these are the fixes of all its programs.
    """
    applied: dict[Remark, None] = {}
    for _ in range(_ROUNDS):
        remarks = check(written)
        programs = written.programs if written.source else (written,)
        chosen = [dict(_chosen(program, remarks)) for program in programs]
        if not any(chosen):
            break
        applied |= dict.fromkeys(remark for fixes in chosen for remark in fixes.values())
        fixed = [
            replace(program, given=tuple(_rewritten(program.given, fixes)))
            for program, fixes in zip(programs, chosen, strict=True)
        ]
        written = replace(fixed[0], others=tuple(fixed[1:]) or written.others)
    return FixResult(written, tuple(applied), check(written), left_out(written))


def _chosen(written: ParsedSource, remarks: Iterable[Remark]) -> Iterator[tuple[int, Remark]]:
    """Yield for each setting the safe fix of the most severe remark."""
    by_place: dict[tuple[object, ...], list[Remark]] = {}
    for remark in remarks:
        by_place.setdefault((remark.place, remark.channel, remark.name, remark.text), []).append(
            remark
        )
    taken: set[tuple[object, ...]] = set()
    for number, given in enumerate(written.given):
        key = (given.place, given.channel, given.name, given.text)
        if key in taken:  # of two equal ones, the later one stays
            continue
        taken.add(key)
        safe = [remark for remark in by_place.get(key, ()) if remark.fix and remark.fix.safe]
        if safe and given.origin is Origin.LITERAL:
            yield number, min(safe, key=lambda remark: _GRAVITY[remark.severity])


def _rewritten(given: tuple[Occurrence, ...], chosen: dict[int, Remark]) -> Iterator[Occurrence]:
    merged: dict[tuple[Channel, str], Occurrence] = {}
    out: list[Occurrence] = []
    for number, occurrence in enumerate(given):
        replacement = chosen[number].fix if number in chosen else None
        if replacement is None:
            out.append(occurrence)
            continue
        for heir in _heirs(occurrence, replacement):
            earlier = merged.get((heir.channel, heir.name))
            if earlier is not None and earlier in out and settings.is_list(heir.name):
                out.remove(earlier)
                heir = _valued(heir, settings.add_to_list(earlier.meant, heir.meant))  # noqa: PLW2901
            merged[heir.channel, heir.name] = heir
            out.append(heir)
    yield from out


def _heirs(one: Occurrence, replacement: Fix) -> Iterator[Occurrence]:
    for name, value in replacement.instead:
        yield _valued(replace(one, name=name), value)


def _valued(one: Occurrence, value: str) -> Occurrence:
    dashes = "" if one.channel in (Channel.COMPILER_OPTIONS, Channel.ENVIRONMENT) else "--"
    return replace(one, value=value, text=f"{dashes}{one.name}={value}")
