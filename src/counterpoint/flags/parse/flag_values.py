"""Values of variables as settings: flags split up, each with its place; faults are issues.

Reading stops where XLA stops: the flags after that are in the issue, and not settings. A value that
does not start with a dash names a file, as for XLA: an issue, until `read_named_files` puts the
flags of the file in its place. A variable other than XLA_FLAGS and LIBTPU_INIT_ARGS is one setting,
and its last value counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import takewhile
from pathlib import Path
from typing import Final

from counterpoint.flags.named_files import ANYWHERE, AllowedFiles, read_regular
from counterpoint.flags.parse.traced import HOLE, Piece, TracedText, known
from counterpoint.flags.parsed import (
    COMMAND_LINE,
    Branch,
    IssueKind,
    Location,
    Occurrence,
    ParsedSource,
    SyntaxIssue,
    ValueOrigin,
)
from counterpoint.flags.settings import FLAG_VARIABLES, Channel, is_setting
from counterpoint.flags.text import (
    DASHES,
    LOOKS_LIKE_FLAG,
    SPACE,
    FlagWord,
    looks_like_file,
    scan_unread,
    scan_xla_flags,
)

AS_TEXT: Final = "use --form text: finds flags in any text"
"""The next step for a file that is not of the form that its name promises."""
_LOOKS_LIKE_NAME: Final = re.compile(r"(xla|megascale|tpu|tf)_\w+")
_QUOTES: Final = "'\"`"
_HIDDEN: Final = "(a word that is not shown)"
_STOPS: Final = "XLA silently stops reading there; the flags after it are lost"
_IS_NO_FILE: Final = (
    "XLA reads a value that does not start with `-` as a file name, and aborts if there is no"
    " such file"
)

_OF_ONE_RUN: Final = re.compile(
    r"COORDINATOR|ADDRESS|_PORT$|_IP$|PROCESS|VISIBLE|RANK|IFNAME|_DIR$|_PATH$|_IDS?$|IMAGE"
)
"""Names of places, known only when a script runs; no remark is made on them."""

_WITH_DOTS: Final = re.compile(r"[-._A-Za-z][-._A-Za-z0-9]*")
_NAME: Final = re.compile(r"\b[A-Z][A-Z0-9]+_[A-Z0-9_]+|--(?:xla|megascale)_\w+")
_LOOKS_ASSIGNED: Final = re.compile(r"\b([A-Z][A-Z0-9_]+)\+?=")
_LOOKS_SET: Final = re.compile(r"\b([A-Z][A-Z0-9_]+)\+?[=:]|\bname: *[\"']?([A-Z][A-Z0-9_]+)")
_HEAD: Final = re.compile(r"\s*(?:export\s+)?(XLA_FLAGS|LIBTPU_INIT_ARGS)\s*=\s*")
_CONTINUED: Final = re.compile(r"[ \t]*\\\r?\n")


@dataclass(slots=True)
class ParsedValues:
    """The results so far, in order."""

    given: list[Occurrence] = field(default_factory=list[Occurrence])
    issues: list[SyntaxIssue] = field(default_factory=list[SyntaxIssue])
    inherited: list[str] = field(default_factory=list[str])  # sentences on what is not read


@dataclass(frozen=True, slots=True)
class ValueSource:
    """The source of a value: its channel and the name of the file.

    `in_file`: the content of a file of flags, which names no other file. `hidden`: words that are
    not flags are not shown, only their place.
    """

    where: str
    channel: Channel = Channel.XLA_FLAGS
    via: str = ""
    in_file: bool = False
    hidden: bool = False


def read_flags(value: TracedText, variable: ValueSource) -> ParsedValues:
    """Read all flags of a value."""
    parsed = ParsedValues()
    start = value.text.lstrip(SPACE)
    if not start:
        return parsed
    if (
        variable.channel is Channel.XLA_FLAGS
        and start[0] not in ("-", HOLE)
        and not variable.in_file
    ):
        return _names_file(value, variable)
    return _read_words(value, variable)


def _read_words(value: TracedText, variable: ValueSource) -> ParsedValues:
    parsed = ParsedValues()
    stray: list[FlagWord] = []
    for word in scan_xla_flags(value.text, where=str(value.place_at(0, variable.where))):
        if word.flag or word.text.startswith(HOLE):
            parsed.issues += _strays(value, stray, variable)
            stray = []
            _read_word(value, word, variable, parsed)
        elif variable.channel is Channel.XLA_FLAGS:
            parsed.issues.append(_stop(value, word, variable))
            return parsed
        else:
            stray.append(word)
    parsed.issues += _strays(value, stray, variable)
    return parsed


def _names_file(value: TracedText, variable: ValueSource) -> ParsedValues:
    """Handle a value that XLA takes for a file name; whatever looks like a flag is meant as one."""
    name, place = value.text.strip(SPACE), value.place_at(0, variable.where)
    if not value.known:
        return ParsedValues(issues=[_needs_shell(value.shown.strip(SPACE), place, variable)])
    meant = not looks_like_file(value.text) or _LOOKS_LIKE_NAME.fullmatch(name)
    issue = SyntaxIssue(
        kind=IssueKind.NAMES_FILE,
        channel=variable.channel,
        text=name,
        why="a value without `--` names a file",
        place=place,
        otherwise=tuple(_read_words(value, variable).issues) if meant else (),
    )
    return ParsedValues(issues=[issue])


def _read_word(
    value: TracedText, word: FlagWord, variable: ValueSource, parsed: ParsedValues
) -> None:
    shown = value.shown_between(word.at, word.end)
    place = value.place_at(word.at, variable.where)
    name, equals, inner = word.text.partition("=")
    pieces = value.pieces_between(word.at, word.end)
    if issue := _issue(name, shown, place, variable):
        parsed.issues.append(issue)
        return
    whole = HOLE not in word.text
    if not whole:
        parsed.issues.append(_needs_shell(shown, place, variable))
        inner = shown.partition("=")[2]
    parsed.given.append(
        Occurrence(
            channel=variable.channel,
            name=name[2:],
            value=inner if equals else None,
            place=place,
            text=shown,
            via=variable.via,
            origin=value_origin(pieces),
            branch=next((piece.branch for piece in pieces if piece.branch), ()),
            joined=value.inherited_at(word.at),
        )
    )


def value_origin(pieces: Iterable[Piece]) -> ValueOrigin:
    """Return where a value of these pieces comes from."""
    origin = ValueOrigin.LITERAL
    for piece in pieces:
        if not piece.known:
            return ValueOrigin.COMPUTED
        origin = ValueOrigin.DEFAULT if piece.default else origin
    return origin


def _issue(name: str, shown: str, place: Location, variable: ValueSource) -> SyntaxIssue | None:
    """Return what is wrong with a word before its equals sign, or None."""
    if HOLE in name:
        return _needs_shell(shown, place, variable)
    if name == "--" or not name.startswith("--") or name.startswith("---"):
        bare = shown.lstrip("-")
        return SyntaxIssue(
            kind=IssueKind.SINGLE_DASH,
            channel=variable.channel,
            text=_HIDDEN if variable.hidden else shown,
            why="a flag starts with two dashes; XLA aborts on this one",
            place=place,
            suggestion=f"--{bare}" if bare and not variable.hidden else None,
        )
    return None


def _needs_shell(shown: str, place: Location, variable: ValueSource) -> SyntaxIssue:
    return SyntaxIssue(
        kind=IssueKind.UNKNOWABLE,
        channel=variable.channel,
        text=shown,
        why="its value is known only when the program runs",
        place=place,
    )


def _stop(value: TracedText, word: FlagWord, variable: ValueSource) -> SyntaxIssue:
    """Return the issue where XLA stops, with adjacent words that are no flags, and lost flags."""
    rest = list(scan_unread(value.text, word.end))
    dash = word.text[0] in DASHES
    words = [word] if dash else [word, *takewhile(_is_plain, rest)]
    shown = _shown(value, words, variable)
    unread = ParsedValues()
    for lost_word in rest:
        if lost_word.flag:
            _read_word(value, lost_word, variable, unread)
    return SyntaxIssue(
        kind=IssueKind.DASH if dash else IssueKind.STRAY,
        channel=variable.channel,
        text=shown,
        why=_why_stopped(value, word, variable),
        place=value.place_at(word.at, variable.where),
        suggestion=None if variable.hidden else _meant(shown, words),
        lost=tuple(unread.given),
    )


def _is_plain(word: FlagWord) -> bool:
    return not word.flag and word.text[0] not in (*DASHES, HOLE)


def _why_stopped(value: TracedText, word: FlagWord, variable: ValueSource) -> str:
    first = not value.text[: word.at].strip(SPACE) and not variable.in_file
    ends = _IS_NO_FILE if first else _STOPS
    return f"{_looks(word.text)}: {ends}"


def _looks(word: str) -> str:
    if word[0] in DASHES:
        return f"it starts with U+{ord(word[0]):04X}, which only looks like a dash"
    if word[0] in _QUOTES:
        return "it starts with a quote, not with `--`"
    if word[0] == "#":
        return "XLA has no comments"
    return "it does not start with `--`"


def _shown(value: TracedText, words: list[FlagWord], variable: ValueSource) -> str:
    if variable.hidden:
        return _HIDDEN
    return value.shown_between(words[0].at, words[-1].end)


def _meant(shown: str, words: list[FlagWord]) -> str | None:
    """Return what words that are not flags were meant to be, if that is clear."""
    if words[0].text[0] in DASHES:
        return "--" + shown.lstrip("-" + DASHES)
    bare = words[0].text.strip(_QUOTES)
    if len(words) > 1:
        return None
    if LOOKS_LIKE_FLAG.match(bare) or _LOOKS_LIKE_NAME.fullmatch(bare):
        return f"--{bare}"
    return bare if bare.startswith("--") else None


def _strays(
    value: TracedText, words: list[FlagWord], variable: ValueSource
) -> Iterator[SyntaxIssue]:
    """Yield one issue for adjacent words that are not flags, in another channel than XLA_FLAGS."""
    if not words:
        return
    shown = _shown(value, words, variable)
    dash = words[0].text[0] in DASHES
    yield SyntaxIssue(
        kind=IssueKind.DASH if dash else IssueKind.STRAY,
        channel=variable.channel,
        text=shown,
        why=_looks(words[0].text) + ": not a flag",
        place=value.place_at(words[0].at, variable.where),
        suggestion=None if variable.hidden else _meant(shown, words),
    )


def is_foreign_name(name: str) -> bool:
    """Return whether a name such as `http.proxy` is meant for others; Kubernetes accepts it."""
    plain = name.replace("-", "_").replace(".", "_")
    return plain != name and bool(_WITH_DOTS.fullmatch(name)) and not is_setting(plain)


@dataclass(frozen=True, slots=True)
class Assignment:
    """One variable with its final value."""

    name: str
    value: TracedText
    via: str = ""
    line: int | None = None  # used if the value is empty
    branch: Branch = ()
    program: int = 0  # how many programs were started before


def names_any(text: str) -> bool:
    """Return whether a text names a variable that is a setting, or a flag."""
    return any(name[0] == "-" or is_setting(name) for name in _NAME.findall(text))


def may_set(text: str, *, colon: bool = True) -> bool:
    """Return whether an unread text contains something that looks like a setting."""
    pattern = _LOOKS_SET if colon else _LOOKS_ASSIGNED
    return any(is_setting(next(filter(None, match.groups()))) for match in pattern.finditer(text))


def parse_assignments(assigned: Iterable[Assignment], where: str) -> ParsedValues:
    """Collect settings and issues of variables; unknown values of non-settings are left out."""
    parsed = ParsedValues()
    for variable in assigned:
        channel = FLAG_VARIABLES.get(variable.name)
        if channel:
            inner = read_flags(variable.value, ValueSource(where, channel, variable.via))
            parsed.given += inner.given
            parsed.issues += inner.issues
            parsed.inherited += map(_inherited, variable.value.inherits)
        elif variable.value.known:
            parsed.given.append(_variable(variable, where))
        elif is_setting(variable.name):
            parsed.given.append(_variable(variable, where))
            inherited = variable.value.shown in (f"${variable.name}", f"${{{variable.name}}}")
            parsed.issues += (
                []
                if inherited or _OF_ONE_RUN.search(variable.name)
                else [_known_later(variable, where)]
            )
    return parsed


def _inherited(one: tuple[str, int | None]) -> str:
    name, line = one
    place = f"line {line}: " if line else ""
    return f"{place}the previous value of {name}"


def _variable(one: Assignment, where: str) -> Occurrence:
    shown = one.value.shown
    return Occurrence(
        channel=Channel.ENVIRONMENT,
        name=one.name,
        value=shown,
        place=_place(one, where),
        text=f"{one.name}={shown}",
        via=one.via,
        origin=value_origin(one.value.pieces),
        branch=one.branch or next((piece.branch for piece in one.value.pieces), ()),
    )


def _known_later(one: Assignment, where: str) -> SyntaxIssue:
    return SyntaxIssue(
        kind=IssueKind.UNKNOWABLE,
        channel=Channel.ENVIRONMENT,
        text=f"{one.name}={one.value.shown}",
        why="its value is known only when the program runs",
        place=_place(one, where),
    )


def _place(one: Assignment, where: str) -> Location:
    place = one.value.place_at(0, where)
    return Location(where, one.line) if one.line else place


def read_flag_text(text: str, where: str) -> ParsedSource:
    """Read all flags of a text, with their lines."""
    head = _HEAD.match(text)
    channel = FLAG_VARIABLES[head[1]] if head else Channel.XLA_FLAGS
    value = text[head.end() :] if head else text
    line = text.count("\n", 0, head.end()) + 1 if head else 1
    bare = _unquoted(value)
    line += value.count("\n", 0, value.find(bare)) if bare else 0
    in_file = head is None and where != COMMAND_LINE
    variable = ValueSource(where, channel, in_file=in_file)
    parsed = read_flags(_without_backslashes(bare, line), variable)
    return ParsedSource(
        where=where, form="flags", given=tuple(parsed.given), issues=tuple(parsed.issues)
    )


def _unquoted(text: str) -> str:
    bare = text.strip()
    if len(bare) > 1 and bare[0] == bare[-1] and bare[0] in "'\"":
        return bare[1:-1]
    return bare


def _without_backslashes(text: str, line: int) -> TracedText:
    """Keep newlines that follow backslashes, so that lines can be counted."""
    return known(_CONTINUED.sub("\n", text), line)


def read_named_files(
    written: ParsedSource,
    reach: AllowedFiles,
    *,
    directory: Path | None = None,
    own: tuple[str, ...] = (),
) -> ParsedSource:
    """Return the source with the flags of named files; `directory` is where the process runs.

    `own` lists places that the user controls: settings there may name any file.
    """
    reach = replace(reach, start=directory or Path())
    written = _within(written, reach, own)
    parsed, unread = ParsedValues(given=list(written.given)), list(written.unread)
    for issue in written.issues:
        if issue.kind is not IssueKind.NAMES_FILE:
            parsed.issues.append(issue)
            continue
        inner = _file(issue, written.reach_of(issue.place))
        parsed.given += inner.given if inner else ()
        parsed.issues += inner.issues if inner else (issue,)
        if inner is None:
            unread.append(_beyond(issue, reach))
    return replace(
        written,
        given=tuple(parsed.given),
        issues=tuple(parsed.issues),
        unread=tuple(dict.fromkeys(unread)),
        others=tuple(
            read_named_files(program, reach, directory=directory, own=own)
            for program in written.others
        ),
    )


def _within(written: ParsedSource, reach: AllowedFiles, own: tuple[str, ...]) -> ParsedSource:
    anywhere = replace(ANYWHERE, start=reach.start)
    return replace(written, reach=reach, own=dict.fromkeys(own, anywhere))


def _file(issue: SyntaxIssue, reach: AllowedFiles) -> ParsedValues | None:
    """Read a named file; None if it may not be read."""
    first = reach.first(issue.text)
    for path in reach.places(issue.text):
        try:
            data = read_regular(path)
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as failure:
            return ParsedValues(issues=[*issue.otherwise] or [_missing(issue, path, failure)])
        text = data.decode(errors="replace")
        variable = ValueSource(
            str(path), issue.channel, f"file {issue.text}", in_file=True, hidden=True
        )
        return read_flags(known(text, 1), variable)
    if issue.otherwise:
        return ParsedValues(issues=[*issue.otherwise])
    return ParsedValues(issues=[_missing(issue, first, None)]) if reach.holds(first) else None


def _missing(issue: SyntaxIssue, path: Path, failure: OSError | ValueError | None) -> SyntaxIssue:
    reason = getattr(failure, "strerror", None) or failure or "no such file"
    why = f"a value without `--` names a file: {path} can't be read: {reason}"
    return replace(issue, kind=IssueKind.MISSING_FILE, why=why)


def _beyond(issue: SyntaxIssue, reach: AllowedFiles) -> str:
    line = "" if issue.place.line is None else f" (line {issue.place.line})"
    parent = reach.to_allow(issue.text)
    return f"{issue.text}{line}: outside the source's directory; --allow {parent} includes it"
