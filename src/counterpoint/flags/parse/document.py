"""Documents, notebooks and any other text: flags in them, and code in its own language.

A code block of Markdown or reST is read by the reader of its language, and is a block of settings
of its own: what two of them say is not said twice. In the text between, a flag counts with a value,
or in the value of a variable that holds flags; a bare name in a sentence sets nothing.
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
from counterpoint.flags.parsed import Occurrence, ParsedSource, Place, SyntaxIssue
from counterpoint.flags.settings import FLAG_VARIABLES, Channel, is_setting
from counterpoint.flags.text.names import LIBTPU

Reader = Callable[[str, str], ParsedSource]
_VALUE: Final = r"""(?:"[^"\n]*"|'[^'\n]*'|(?:(?!\]\()[^\s"'`\\|<>])*)"""
"""In quotes, or up to a space; a Markdown link ends it."""
_FLAG: Final = re.compile(rf"(?<![\w-])--((?:xla|megascale)_\w+)(?:=({_VALUE}))?")
_VARIABLE: Final = re.compile(rf"\b([A-Z][A-Z0-9_]+)=({_VALUE})")
_ENTRY: Final = re.compile(
    r"^[ \t]*(?:[-*+][ \t]+)?[`\"']?([A-Z][A-Z0-9_]+)[`\"']?:[ \t]*([^\s`]+)[`,]?\s*$"
)
"""`- NCCL_PROTO: SIMPLE`, as lists in documents have it."""
_ROW: Final = re.compile(
    r"\|[ `*]*(?:--)?((?:xla|megascale)_\w+)[ `*]*\|[ `*]*((?i:true|false)|-?\d+(?:\.\d+)?)[ `*]*\|"
)
"""`| --xla_a | true | what for |`, as tables have it."""
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
"""Without any of these, a code block sets nothing."""
_CODE: Final = ("shell", "slurm", "python", "yaml", "env", "docker")
_SHELL: Final = ("shell", "slurm")
_STANDS_IN: Final = re.compile(r"(?<![<\w])<([A-Za-z]\w*)(?:[ .-]\w+)*>")
"""`<your name>` is not known, and no redirection."""
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
class Loose:
    """What stands in a text: settings, each once, and names of flags that are only mentioned."""

    given: tuple[Occurrence, ...]
    mentioned: tuple[str, ...]


def read_any_text(text: str, where: str) -> ParsedSource:
    """Each flag and each variable of JAX, NCCL or CUDA with a value, once."""
    found = find(text, where)
    return ParsedSource(where=where, form="text", given=found.given, notes=notes(found))


def find(text: str, where: str) -> Loose:
    """The same, with what is only mentioned."""
    found: dict[tuple[Channel, str, str | None], Occurrence] = {}
    mentioned: dict[str, None] = {}
    spans, at = list(_spans(text)), 0
    starts = [span.at for span in spans]
    for number, line in enumerate(text.split("\n"), 1):
        start, at = at, at + len(line) + 1
        if line.lstrip().startswith("#"):  # a comment: it talks of settings, and sets none
            continue
        for match in (*_ROW.finditer(line), *_FLAG.finditer(line)):
            span = spans[bisect_right(starts, start + match.start()) - 1] if spans else None
            if span and not span.at <= start + match.start() < span.end:
                span = None
            one = _given(match, Place(where, number), span.channel if span else None)
            if span or one.value:
                found.setdefault((one.channel, one.name, one.value), one)
            else:
                mentioned[one.name] = None
        for one in _variables(line, Place(where, number)):
            found.setdefault((one.channel, one.name, one.value), one)
    return Loose(tuple(found.values()), tuple(mentioned))


def notes(found: Loose) -> tuple[str, ...]:
    """What there is to know of settings out of a text."""
    said: list[str] = []
    if found.given:
        said.append("flags found in a text, in its order; what it says of them is not understood")
    names = {one.name for one in found.given}
    only = [f"--{name}" for name in found.mentioned if name not in names]
    if only:
        more = f" and {len(only) - _NAMES} more" if len(only) > _NAMES else ""
        text = ", ".join(only[:_NAMES]) + more
        said.append(f"only mentioned, without a value, and not checked: {text}")
    return tuple(said)


def _spans(text: str) -> Iterator[_Span]:
    """To the quote that closes it, or to the end of its line and of those it goes on in."""
    for match in _HOLDS.finditer(text):
        start, quote = match.end(), match[2]
        paragraph = text.find("\n\n", start, start + _FAR)
        last = paragraph if paragraph >= 0 else min(len(text), start + _FAR)
        end = text.find(quote, start, last) if quote else -1
        if end < 0:
            end = next(
                (it.start() for it in re.finditer(r"(?<!\\)\n", text[start:last])), last - start
            )
            end += start
        yield _Span(start, end, FLAG_VARIABLES[match[1]])


def _variables(line: str, place: Place) -> Iterator[Occurrence]:
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


def _given(match: re.Match[str], place: Place, channel: Channel | None) -> Occurrence:
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
class Passage:
    """Lines `first` to `last` of a document, counted from 1; no `form` where none is said."""

    first: int
    last: int
    form: str
    text: str

    @property
    def padded(self) -> str:
        return "\n" * (self.first - 1) + self.text


def passages(lines: Sequence[str]) -> Iterator[Passage]:
    """All code blocks, in order; one that is not closed goes to the end."""
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
) -> Passage:
    own = list(lines[start:end])
    if quoted:
        own = [line.lstrip().removeprefix(">").removeprefix(" ") for line in own]
    form = _LANGUAGES.get(language.lower(), "" if not language else "text")
    own = _without_prompts(textwrap.dedent("\n".join(own)).split("\n"))
    return Passage(start + 1, end, form, "\n".join(own))


def _without_prompts(lines: list[str]) -> list[str]:
    """What was typed, without prompts and answers; all, where nothing is a prompt."""
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
    """All settings, in the order of the document. `reader` finds the reader of a form."""
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
    passage: Passage, form: str, loose: Loose, where: str, reader: Callable[[str], Reader]
) -> ParsedSource:
    text = _STANDS_IN.sub(r"$\1", passage.padded) if form in _SHELL else passage.padded
    code = _parsed(text, where, reader(form)) if form in _CODE else None
    if code is None or not (code.given or code.slips):
        code = ParsedSource(where=where, form="text", given=loose.given)
    names = {one.name for one in code.given}
    lost = " ".join(slip.text for slip in code.slips)
    passed = [it for it in loose.given if it.name not in names and it.name not in lost]
    arm = (("code block", str(passage.first)),)
    given = [replace(one, branch=(*one.branch, *arm)) for one in (*code.given, *passed)]
    return replace(code, given=tuple(one for one in given if not _stands_for_any(one)))


def _parsed(text: str, where: str, read: Reader) -> ParsedSource | None:
    try:
        return read(text, where)
    except TooMuchError:
        raise
    except InputError:
        return None


def _stands_for_any(one: Occurrence) -> bool:
    """`XLA_FLAGS="--flag1=value1"`: documents show how it is written."""
    return one.channel is Channel.XLA_FLAGS and "_" not in one.name


def _apart(one: Occurrence) -> Occurrence:
    """Each line of prose speaks for itself."""
    return replace(one, branch=(("code block", f"line {one.place.line}"),))


def _together(parts: list[ParsedSource], mentioned: tuple[str, ...], where: str) -> ParsedSource:
    """Each setting once, where it stands first."""
    found: dict[tuple[str, str, str | None], Occurrence] = {}
    for one in sorted((it for part in parts for it in part.given), key=_line):
        found.setdefault((one.channel, one.name, one.value), one)
    slips: dict[tuple[str, str], SyntaxIssue] = {}
    for slip in sorted((it for part in parts for it in part.slips), key=_line):
        slips.setdefault((slip.kind.name, slip.text), slip)
    given = tuple(found.values())
    said = dict.fromkeys(note for part in parts for note in part.notes)
    return ParsedSource(
        where=where,
        form="text",
        given=given,
        slips=tuple(slips.values()),
        layout=next((part.layout for part in reversed(parts) if part.layout), None),
        notes=(*notes(Loose(given, mentioned)), *said),
        unread=tuple(dict.fromkeys(text for part in parts for text in part.unread)),
        inherited=tuple(dict.fromkeys(text for part in parts for text in part.inherited)),
    )


def _line(one: Occurrence | SyntaxIssue) -> int:
    return one.place.line or 0


def mentions(text: str, *, prose: bool = False) -> tuple[str, ...]:
    """One sentence on the names in a text, outside of comments; none where there is no name.

    In `prose` flags are spoken of: there it takes a key with a value, as JSON has it.
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
    from counterpoint.flags.catalogue.variable import variables  # seldom needed

    return name.startswith("xla_") or name == "XLA_FLAGS" or name in variables()
