"""Documents and any other text: flags in prose, and code blocks in their own language.

A code block of Markdown or reST is read by the reader of its language, and is a block of settings
of its own: settings of several blocks are reported once. In the text between, a flag counts if it
has a value or is in the value of a variable that holds flags; a bare name in a sentence sets
nothing.
"""

from __future__ import annotations

import re
import textwrap
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from counterpoint.core import InputError
from counterpoint.flags.parse.traced import TooMuchError
from counterpoint.flags.parsed import Location, Occurrence, ParsedSource, SyntaxIssue
from counterpoint.flags.settings import FLAG_VARIABLES, Channel, is_setting
from counterpoint.flags.text import LIBTPU

Reader = Callable[[str, str], ParsedSource]
_VALUE: Final = r"""(?:"[^"\n]*"|'[^'\n]*'|(?:(?!\]\()[^\s"'`\\|<>])*)"""
"""A value in quotes, or up to a space; a Markdown link ends it."""
_FLAG: Final = re.compile(rf"(?<![\w-])--((?:xla|megascale)_\w+)(?:=({_VALUE}))?")
_VARIABLE: Final = re.compile(rf"\b([A-Z][A-Z0-9_]+)=({_VALUE})")
_ENTRY: Final = re.compile(
    r"^[ \t]*(?:[-*+][ \t]+)?[`\"']?([A-Z][A-Z0-9_]+)[`\"']?:[ \t]*([^\s`]+)[`,]?\s*$"
)
"""`- NCCL_PROTO: SIMPLE`, an entry of a list in a document."""
_ROW: Final = re.compile(
    r"\|[ `*]*(?:--)?((?:xla|megascale)_\w+)[ `*]*\|[ `*]*((?i:true|false)|-?\d+(?:\.\d+)?)[ `*]*\|"
)
"""`| --xla_a | true | what for |`, a row of a table."""
_HOLDS: Final = re.compile(
    r"""\b(XLA_FLAGS|LIBTPU_INIT_ARGS)(?:["']\])?\s*(?:\+?=|:)\s*\(?f?(["']?)"""
)
_PUNCTUATION: Final = ".,;:)]}*"
_PLACEHOLDER: Final = re.compile(r"\.{2,}|\N{HORIZONTAL ELLIPSIS}|[.\d]*X{1,}|N|.*[{$].*")
_NAMES: Final = 3
_FAR: Final = 20_000  # characters of one value
_LANGUAGES: Final = {
    **dict.fromkeys(("sh", "bash", "shell", "zsh", "console", "shell-session"), "shell"),
    **dict.fromkeys(("py", "python", "python3", "ipython", "pycon", "ipython3"), "python"),
    **dict.fromkeys(("yaml", "yml"), "yaml"),
    **dict.fromkeys(("docker", "dockerfile"), "docker"),
    **dict.fromkeys(("dotenv", "env"), "env"),
}
_FENCE: Final = re.compile(r"^([ \t>]*)(`{3,}|~{3,})[ \t]*(?:\{?[.]?([\w+-]*))?[^`]*$")
_DIRECTIVE: Final = re.compile(r"^([ \t]*)\.\. (?:code|code-block|sourcecode)::[ \t]*([\w-]*)\s*$")
_OPTION: Final = re.compile(r"^\s*:[\w-]+:")
_PROMPT: Final = re.compile(r"^(?:\(.*\)\s*)?[\w@:~/.-]*[$%][ \t]")
_PYTHON_PROMPT: Final = re.compile(r"^(?:>>>|\.\.\.)(?: |$)")
_MARKS: Final = re.compile(r"xla_|megascale_|[A-Z]_|CUBLAS")
"""A code block without any of these sets nothing."""
_CODE: Final = ("shell", "slurm", "python", "yaml", "env", "docker")
_SHELL: Final = ("shell", "slurm")
_STANDS_IN: Final = re.compile(r"(?<![<\w])<([A-Za-z]\w*)(?:[ .-]\w+)*>")
"""`<your name>` is a placeholder, not a redirection."""
_COMMENT: Final = re.compile(r"^[ \t]*(?:#|//|;|--\s).*$", re.MULTILINE)
_NAMED_IN: Final = re.compile(
    r"--(xla_\w+)"
    r"|\b(xla_(?:gpu|cpu|tpu)_\w+)[\"']?\s*[:=](?!=)"
    r"|\b([A-Z]+_[A-Z0-9_]+)[\"']?\s*(?:[:=](?!=)|\s[-\w'\"])"
)
_IN_PROSE: Final = re.compile(r"""["'](xla_\w+|[A-Z]+_[A-Z0-9_]+)["']\s*:""")


@dataclass(frozen=True, slots=True)
class _Span:
    """The value of a variable that holds flags."""

    at: int
    end: int
    channel: Channel


@dataclass(frozen=True, slots=True)
class TextFindings:
    """The content of a text: settings, each once, and names of flags that are only mentioned."""

    given: tuple[Occurrence, ...]
    mentioned: tuple[str, ...]


def read_any_text(text: str, where: str) -> ParsedSource:
    """Read each flag and each variable of JAX, NCCL or CUDA with a value, once."""
    found = find(text, where)
    return ParsedSource(where=where, form="text", given=found.given, notes=notes(found))


def find(text: str, where: str) -> TextFindings:
    """Find the settings of a text, and the names that are only mentioned."""
    found: dict[tuple[Channel, str, str | None], Occurrence] = {}
    mentioned: dict[str, None] = {}
    spans, at = list(_spans(text)), 0
    starts = [span.at for span in spans]
    for number, line in enumerate(text.split("\n"), 1):
        start, at = at, at + len(line) + 1
        if line.lstrip().startswith("#"):  # a comment discusses settings, and sets none
            continue
        for match in (*_ROW.finditer(line), *_FLAG.finditer(line)):
            span = spans[bisect_right(starts, start + match.start()) - 1] if spans else None
            if span and not span.at <= start + match.start() < span.end:
                span = None
            occurrence = _given(match, Location(where, number), span.channel if span else None)
            if span or occurrence.value:
                found.setdefault(
                    (occurrence.channel, occurrence.name, occurrence.value), occurrence
                )
            else:
                mentioned[occurrence.name] = None
        for occurrence in _variables(line, Location(where, number)):
            found.setdefault((occurrence.channel, occurrence.name, occurrence.value), occurrence)
    return TextFindings(tuple(found.values()), tuple(mentioned))


def notes(found: TextFindings) -> tuple[str, ...]:
    """Return notes on settings found in a text."""
    found_notes: list[str] = []
    if found.given:
        found_notes.append(
            "flags found in a text, in its order; what it says of them is not understood"
        )
    names = {occurrence.name for occurrence in found.given}
    only = [f"--{name}" for name in found.mentioned if name not in names]
    if only:
        more = f" and {len(only) - _NAMES} more" if len(only) > _NAMES else ""
        text = ", ".join(only[:_NAMES]) + more
        found_notes.append(f"only mentioned, without a value, and not checked: {text}")
    return tuple(found_notes)


def _spans(text: str) -> Iterator[_Span]:
    """Yield the values: to the closing quote, or to the end of the line and its continuations."""
    for match in _HOLDS.finditer(text):
        start, quote = match.end(), match[2]
        paragraph = text.find("\n\n", start, start + _FAR)
        last = paragraph if paragraph >= 0 else min(len(text), start + _FAR)
        end = text.find(quote, start, last) if quote else -1
        if end < 0:
            end = next(
                (line_end.start() for line_end in re.finditer(r"(?<!\\)\n", text[start:last])),
                last - start,
            )
            end += start
        yield _Span(start, end, FLAG_VARIABLES[match[1]])


def _variables(line: str, place: Location) -> Iterator[Occurrence]:
    matches = [*_VARIABLE.finditer(line)]
    if entry := _ENTRY.match(line):
        matches.append(entry)
    for match in matches:
        if is_setting(match[1]) and match[1] not in FLAG_VARIABLES and (value := _bare(match[2])):
            yield Occurrence(
                channel=Channel.ENVIRONMENT,
                name=match[1],
                value=value,
                place=place,
                text=f"{match[1]}={value}",
                known=not _PLACEHOLDER.fullmatch(value),
            )


def _given(match: re.Match[str], place: Location, channel: Channel | None) -> Occurrence:
    name, value = match[1], _bare(match[2])
    own = Channel.LIBTPU_INIT_ARGS if name.startswith(LIBTPU) else Channel.XLA_FLAGS
    return Occurrence(
        channel=channel or own,
        name=name,
        value=value,
        place=place,
        text=f"--{name}" if value is None else f"--{name}={value}",
        known=value is None or not _PLACEHOLDER.fullmatch(value),
    )


def _bare(value: str | None) -> str | None:
    if value is None or value[:1] in ("'", '"'):
        return value and value[1:-1]
    return value.rstrip(_PUNCTUATION)


@dataclass(frozen=True, slots=True)
class CodeBlock:
    """Lines `first` to `last` of a document, counted from 1; `form` is empty if not stated."""

    first: int
    last: int
    form: str
    text: str

    @property
    def padded(self) -> str:
        return "\n" * (self.first - 1) + self.text


def passages(lines: Sequence[str]) -> Iterator[CodeBlock]:
    """Yield all code blocks, in order; an unclosed one extends to the end."""
    at = 0
    while at < len(lines):
        if fence := _FENCE.match(lines[at]):
            end = _closed(lines, at, fence[2])
            quoted = ">" in fence[1]
            yield _passage(lines, at + 1, end, fence[3] or "", quoted=quoted)
            at = end + 1
        elif directive := _DIRECTIVE.match(lines[at]):
            end = _indented(lines, at, len(directive[1]))
            start = at + 1
            while start < end and _OPTION.match(lines[start]):
                start += 1
            yield _passage(lines, start, end, directive[2])
            at = end
        else:
            at += 1


def _closed(lines: Sequence[str], at: int, fence: str) -> int:
    for row in range(at + 1, len(lines)):
        bare = lines[row].strip(" \t>\r")
        if bare.startswith(fence) and not bare.strip(fence[0]):
            return row
    return len(lines)


def _indented(lines: Sequence[str], at: int, indent: int) -> int:
    for row in range(at + 1, len(lines)):
        bare = lines[row].lstrip()
        if bare and len(lines[row]) - len(bare) <= indent:
            return row
    return len(lines)


def _passage(
    lines: Sequence[str], start: int, end: int, language: str, *, quoted: bool = False
) -> CodeBlock:
    own = list(lines[start:end])
    if quoted:
        own = [line.lstrip().removeprefix(">").removeprefix(" ") for line in own]
    form = _LANGUAGES.get(language.lower(), "" if not language else "text")
    own = _without_prompts(textwrap.dedent("\n".join(own)).split("\n"))
    return CodeBlock(start + 1, end, form, "\n".join(own))


def _without_prompts(lines: list[str]) -> list[str]:
    """Return the typed lines, without prompts and output; all lines if there is no prompt."""
    for prompt in (_PYTHON_PROMPT, _PROMPT):
        if not any(prompt.match(line) for line in lines):
            continue
        typed: list[str] = []
        goes_on = False
        for line in lines:
            match = prompt.match(line)
            keep = match or goes_on
            typed.append(line[match.end() :] if match else line if keep else "")
            goes_on = bool(keep) and line.endswith("\\")
        return typed
    return lines


def read_document(
    text: str, where: str, reader: Callable[[str], Reader], sniff: Callable[[str, str], str]
) -> ParsedSource:
    """Read all settings, in the order of the document. `reader` finds the reader of a form."""
    lines = text.split("\n")
    prose = list(lines)
    parts: list[ParsedSource] = []
    mentioned: list[str] = []
    for passage in passages(lines):
        if _MARKS.search(passage.text):
            loose = find(passage.padded, where)
            form = passage.form or sniff(passage.text, "")
            parts.append(_read(passage, form, loose, where, reader))
            mentioned += loose.mentioned
        for row in range(passage.first - 1, passage.last):
            prose[row] = ""
    loose = find("\n".join(prose), where)
    parts.append(ParsedSource(where=where, form="text", given=tuple(map(_apart, loose.given))))
    return _together(parts, (*loose.mentioned, *mentioned), where)


def _read(
    passage: CodeBlock, form: str, loose: TextFindings, where: str, reader: Callable[[str], Reader]
) -> ParsedSource:
    text = _STANDS_IN.sub(r"$\1", passage.padded) if form in _SHELL else passage.padded
    code = _parsed(text, where, reader(form)) if form in _CODE else None
    if code is None or not (code.given or code.slips):
        code = ParsedSource(where=where, form="text", given=loose.given)
    names = {occurrence.name for occurrence in code.given}
    lost = " ".join(slip.text for slip in code.slips)
    passed = [
        occurrence
        for occurrence in loose.given
        if occurrence.name not in names and occurrence.name not in lost
    ]
    arm = (("code block", str(passage.first)),)
    given = [
        replace(occurrence, branch=(*occurrence.branch, *arm))
        for occurrence in (*code.given, *passed)
    ]
    return replace(
        code, given=tuple(occurrence for occurrence in given if not _stands_for_any(occurrence))
    )


def _parsed(text: str, where: str, read: Reader) -> ParsedSource | None:
    try:
        return read(text, where)
    except TooMuchError:
        raise
    except InputError:
        return None


def _stands_for_any(one: Occurrence) -> bool:
    """Recognize placeholders such as `XLA_FLAGS="--flag1=value1"` that only show the syntax."""
    return one.channel is Channel.XLA_FLAGS and "_" not in one.name


def _apart(one: Occurrence) -> Occurrence:
    """Give each line of prose a block of its own."""
    return replace(one, branch=(("code block", f"line {one.place.line}"),))


def _together(parts: list[ParsedSource], mentioned: tuple[str, ...], where: str) -> ParsedSource:
    """Merge the parts: each setting once, at its first place."""
    found: dict[tuple[str, str, str | None], Occurrence] = {}
    for occurrence in sorted(
        (occurrence for part in parts for occurrence in part.given), key=_line
    ):
        found.setdefault((occurrence.channel, occurrence.name, occurrence.value), occurrence)
    slips: dict[tuple[str, str], SyntaxIssue] = {}
    for slip in sorted((part_slip for part in parts for part_slip in part.slips), key=_line):
        slips.setdefault((slip.kind.name, slip.text), slip)
    given = tuple(found.values())
    part_notes = dict.fromkeys(note for part in parts for note in part.notes)
    return ParsedSource(
        where=where,
        form="text",
        given=given,
        slips=tuple(slips.values()),
        layout=next((part.layout for part in reversed(parts) if part.layout), None),
        notes=(*notes(TextFindings(given, mentioned)), *part_notes),
        unread=tuple(dict.fromkeys(text for part in parts for text in part.unread)),
        inherited=tuple(dict.fromkeys(text for part in parts for text in part.inherited)),
    )


def _line(one: Occurrence | SyntaxIssue) -> int:
    return one.place.line or 0


def mentions(text: str, *, prose: bool = False) -> tuple[str, ...]:
    """Return a sentence on the names in a text outside comments; empty if there are none.

    In `prose`, flags are discussed, so only a key with a value counts, as in JSON.
    """
    bare = _COMMENT.sub("", text)
    pattern = _IN_PROSE if prose else _NAMED_IN
    found = (next(filter(None, match.groups())) for match in pattern.finditer(bare))
    names = [name for name in dict.fromkeys(found) if _sets_something(name)]
    if not names:
        return ()
    more = f" and {len(names) - _NAMES} more" if len(names) > _NAMES else ""
    return (f"{', '.join(names[:_NAMES])}{more}: named, and set in no way that is known here",)


def _sets_something(name: str) -> bool:
    from counterpoint.flags.catalogue.variable import variables  # rarely needed

    return name.startswith("xla_") or name == "XLA_FLAGS" or name in variables()
