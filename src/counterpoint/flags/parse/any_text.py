"""Any other text: documents, logs, and what has no reader of its own.

A flag counts if it has a value or is in the value of a variable that holds flags; a bare name in a
sentence sets nothing. Code blocks are searched like the text around them: each line is a block of
settings of its own.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import Final

from counterpoint.core.frozen import frozen
from counterpoint.core.printable import some
from counterpoint.flags.catalogue.variable import meant_option
from counterpoint.flags.parsed import Location, Occurrence, ParsedSource
from counterpoint.flags.settings import FLAG_VARIABLES, Channel, is_setting
from counterpoint.flags.text import LIBTPU

_VALUE: Final = r"""(?:"[^"\n]*"|'[^'\n]*'|(?:(?!\]\()[^\s"'`\\|<>])*)"""
"""A value in quotes, or up to a space; a Markdown link ends it."""
_FLAG: Final = re.compile(rf"(?<![\w-])--((?:xla|megascale)_\w+)(?:=({_VALUE}))?")
_BARE_NAME: Final = re.compile(
    r"(?<![\w./-])((?:xla|megascale)_\w+)(?![\w(]|\.\w|/|[\"'` ]*=|[\"'`]*:[ \t]*[\w\"'])"
)
"""A name in a sentence, not that of a file, a function or a key with a value."""
_VARIABLE: Final = re.compile(rf"\b([A-Z][A-Z0-9_]+)=({_VALUE})")
_OPTION: Final = re.compile(rf"(?<![\w-])--(trainer\.[\w.]+)[ =]({_VALUE})")
_ENTRY: Final = re.compile(
    r"^[ \t>]*(?:[-*+][ \t]+)?[`\"']?([A-Z][A-Z0-9_]+)[`\"']?:"
    r"[ \t]*[`\"']?([^\s`\"']+)[`\"']?,?\s*$"
)
"""`- NCCL_PROTO: SIMPLE`, an entry of a list, or of a dict."""
_ROW: Final = re.compile(
    r"\|[ `*]*(?:--)?((?:xla|megascale)_\w+)[ `*]*\|[ `*]*((?i:true|false)|-?\d+(?:\.\d+)?)[ `*]*\|"
)
"""`| --xla_a | true | what for |`, a row of a table."""
_HOLDS: Final = re.compile(
    r"""\b(XLA_FLAGS|LIBTPU_INIT_ARGS)["']?\]?\s*(?:\+?=|:)\s*\(?f?(["']?)"""
)
_PUNCTUATION: Final = ".,;:)]}*"
_PLACEHOLDER: Final = re.compile(r"\.{2,}|\N{HORIZONTAL ELLIPSIS}|[.\d]*X{1,}|N|[^{$\n]*+[{$].*")
_SHOWN: Final = 3  # names of what no reader understands
_FAR: Final = 20_000  # characters of one value
_COMMENT: Final = re.compile(r"^[ \t]*(?:#|//|;|--\s).*$", re.MULTILINE)
_NAMED_IN: Final = re.compile(
    r"--(xla_\w+)"
    r"|\b(xla_(?:gpu|cpu|tpu)_\w+)[\"']?\s*[:=](?!=)"
    r"|\b([A-Z]+_[A-Z0-9_]+)[\"']?\s*(?:[:=](?!=)|\s[-\w'\"])"
)
_IN_PROSE: Final = re.compile(r"""["'](xla_\w+|[A-Z]+_[A-Z0-9_]+)["']\s*:""")


@frozen
class _FlagText:
    """The value of a variable that holds flags."""

    start: int
    end: int
    channel: Channel


def read_any_text(text: str, where: str) -> ParsedSource:
    """Read each flag and each variable of JAX, NCCL or CUDA that has a value, once."""
    found: dict[tuple[Channel, str, str | None], Occurrence] = {}
    mentioned: dict[str, None] = {}
    values, at = list(_flag_texts(text)), 0
    starts = [value.start for value in values]
    for number, line in enumerate(text.split("\n"), 1):
        start, at = at, at + len(line) + 1
        if line.lstrip().startswith("#"):  # a comment discusses settings, and sets none
            continue
        place = Location(where, number)
        for match in (*_ROW.finditer(line), *_FLAG.finditer(line)):
            value = values[bisect_right(starts, start + match.start()) - 1] if values else None
            if value and not value.start <= start + match.start() < value.end:
                value = None
            occurrence = _flag(match, place, value.channel if value else None)
            if value or occurrence.value:
                key = (occurrence.channel, occurrence.name, occurrence.value)
                found.setdefault(key, occurrence)
            else:
                mentioned[occurrence.name] = None
        mentioned |= dict.fromkeys(_named_bare(line))
        for occurrence in (*_variables(line, place), *_trainer_options(line, place)):
            found.setdefault((occurrence.channel, occurrence.name, occurrence.value), occurrence)
    given = tuple(found.values())
    unread = (
        f"line {text.count(chr(10), 0, value.start) + 1}: parts of {value.channel} known to a shell"
        for value in values
        if "$" in text[value.start : value.end]
    )
    return ParsedSource(
        where=where,
        form="text",
        given=given,
        notes=_notes(given, mentioned),
        unread=tuple(unread),
    )


def _named_bare(line: str) -> Iterator[str]:
    """Yield flags that are named without dashes: only names that some release has."""
    found = _BARE_NAME.findall(line)
    if found:
        from counterpoint.flags.catalogue.lookup import names_ever  # rarely needed

        yield from (name for name in found if name in names_ever())


def _notes(given: tuple[Occurrence, ...], mentioned: Iterable[str]) -> tuple[str, ...]:
    notes = ["flags found in text, in order; the text itself is not interpreted"] if given else []
    names = {occurrence.name for occurrence in given}
    only = [f"--{name}" for name in mentioned if name not in names]
    if only:
        notes.append(f"mentioned without a value, not checked: {', '.join(only)}")
    return tuple(notes)


def _flag_texts(text: str) -> Iterator[_FlagText]:
    """Yield the values: to the closing quote, or to the end of the line and its continuations."""
    for match in _HOLDS.finditer(text):
        start, quote = match.end(), match[2]
        paragraph = text.find("\n\n", start, start + _FAR)
        last = paragraph if paragraph >= 0 else min(len(text), start + _FAR)
        end = text.find(quote, start, last) if quote else -1
        if end < 0:
            line_ends = re.finditer(r"(?<!\\)\n", text[start:last])
            end = start + next((line_end.start() for line_end in line_ends), last - start)
        yield _FlagText(start, end, FLAG_VARIABLES[match[1]])


def _variables(line: str, place: Location) -> Iterator[Occurrence]:
    entry = _ENTRY.match(line)
    for match in (*_VARIABLE.finditer(line), *([entry] if entry else ())):
        if is_setting(match[1]) and match[1] not in FLAG_VARIABLES and (value := _bare(match[2])):
            yield _occurrence(Channel.ENVIRONMENT, match[1], value, place)


def _trainer_options(line: str, place: Location) -> Iterator[Occurrence]:
    for match in _OPTION.finditer(line):
        if meant_option(match[1]) is not None and (value := _bare(match[2])):
            yield _occurrence(Channel.TRAINER, match[1], value, place)


def _flag(match: re.Match[str], place: Location, channel: Channel | None) -> Occurrence:
    name, value = match[1], _bare(match[2])
    own = Channel.LIBTPU_INIT_ARGS if name.startswith(LIBTPU) else Channel.XLA_FLAGS
    return _occurrence(channel or own, name, value, place)


def _occurrence(channel: Channel, name: str, value: str | None, place: Location) -> Occurrence:
    dashes = "" if channel is Channel.ENVIRONMENT else "--"
    return Occurrence(
        channel=channel,
        name=name,
        value=value,
        place=place,
        text=f"{dashes}{name}" if value is None else f"{dashes}{name}={value}",
        known=value is None or not _PLACEHOLDER.fullmatch(value),
        branch=(("line", str(place.line)),),
    )


def _bare(value: str | None) -> str | None:
    if value is None or value[:1] in ("'", '"'):
        return value and value[1:-1]
    return value.rstrip(_PUNCTUATION)


def mentions(text: str, *, prose: bool = False) -> tuple[str, ...]:
    """Return a sentence on the names in a text outside comments; empty if there are none.

    In `prose`, flags are discussed, so only a key with a value counts, as in JSON.
    """
    bare = _COMMENT.sub("", text)
    pattern = _IN_PROSE if prose else _NAMED_IN
    found = (next(filter(None, match.groups())) for match in pattern.finditer(bare))
    names = [name for name in dict.fromkeys(found) if _is_known(name)]
    told = f"{some(names, _SHOWN)}: named, but not set in a way this reader knows"
    return (told,) if names else ()


def _is_known(name: str) -> bool:
    from counterpoint.flags.catalogue.variable import variables  # rarely needed

    return name.startswith("xla_") or name == "XLA_FLAGS" or name in variables()
