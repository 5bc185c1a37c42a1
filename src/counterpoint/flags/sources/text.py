"""Flags in any text: documents, logs, templates. What is said of them there is not understood.

A flag counts with a value, or in the value of a variable that holds flags, which decides where it
is read. A bare name in a sentence only mentions a flag: it sets nothing.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from counterpoint.flags.names import LIBTPU
from counterpoint.flags.settings import Channel
from counterpoint.flags.sources.variables import FLAGS, is_setting
from counterpoint.flags.written import Given, Place, Written

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


@dataclass(frozen=True, slots=True)
class _Span:
    """The value of a variable that holds flags."""

    at: int
    end: int
    channel: Channel


@dataclass(frozen=True, slots=True)
class Loose:
    """What stands in a text: settings, each once, and names of flags that are only mentioned."""

    given: tuple[Given, ...]
    mentioned: tuple[str, ...]


def read_any_text(text: str, where: str) -> Written:
    """Each flag and each variable of JAX, NCCL or CUDA with a value, once."""
    found = find(text, where)
    return Written(where=where, form="text", given=found.given, notes=notes(found))


def find(text: str, where: str) -> Loose:
    """The same, with what is only mentioned."""
    found: dict[tuple[Channel, str, str | None], Given] = {}
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
        yield _Span(start, end, FLAGS[match[1]])


def _variables(line: str, place: Place) -> Iterator[Given]:
    matches = [*_VARIABLE.finditer(line)]
    if entry := _ENTRY.match(line):
        matches.append(entry)
    for match in matches:
        if is_setting(match[1]) and match[1] not in FLAGS and (value := _bare(match[2])):
            yield Given(
                channel=Channel.ENVIRONMENT,
                name=match[1],
                value=value,
                place=place,
                text=f"{match[1]}={value}",
                known=not _PLACEHOLDER.fullmatch(value),
            )


def _given(match: re.Match[str], place: Place, channel: Channel | None) -> Given:
    name, value = match[1], _bare(match[2])
    own = Channel.LIBTPU_INIT_ARGS if name.startswith(LIBTPU) else Channel.XLA_FLAGS
    return Given(
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
