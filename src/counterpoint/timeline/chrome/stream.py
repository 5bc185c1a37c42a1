"""Streams the events of a trace without holding the whole text or all events in memory.

A trace is a list of events, or an object that holds the list as `traceEvents`. Each event is parsed
on its own from a sliding window of text. Numbers with a fraction become Decimal: a double cannot
hold a time in microseconds since 1970 with nanosecond resolution. XLA writes doubles with 17 digits
(1.3204529999999999 for 1,320,453 ps), so the nearest picosecond is the intended value. Times that
count from 1970 do not fit 64 bits; they are then counted from the first one.
"""

from __future__ import annotations

import codecs
import gzip
import io
import json
import re
import zlib
from collections.abc import Callable, Iterator
from decimal import Context, Decimal
from itertools import islice
from typing import Final, cast

from counterpoint.core.unpacking import unpack_limit

_PS_PER_US: Final = 1_000_000
_LATEST_US: Final = 1 << 40  # 12.7 days
_LATEST_PS: Final = _LATEST_US * _PS_PER_US  # just below 2**60

_YEAR_9999_US: Final = 1 << 58

# Without traps 1e99 becomes infinity; with its real exponent it would become an integer with as
# many digits, and 1e999999999 would fill the memory.
parse_number: Final = Context(prec=40, Emax=60, Emin=-60, traps=[]).create_decimal
"""Parse a JSON number with a fraction or an exponent."""


class TraceClock:
    """Converts start times to picoseconds.

    They count from zero or, if that does not fit, from the first one's microsecond.
    """

    def __init__(self) -> None:
        self._origin_us: int | None = None

    @property
    def origin_us(self) -> int:
        """The time from which times count, in microseconds."""
        return self._origin_us or 0

    def start_ps(self, value: object) -> int | None:
        """Return picoseconds, or None for a value that is not a time."""
        if not isinstance(value, (Decimal, int)):
            return None
        try:
            if self._origin_us is None:
                if not -_YEAR_9999_US < value < _YEAR_9999_US:
                    return None
                self._origin_us = 0 if -_LATEST_US < value < _LATEST_US else int(value)
            start = round((value - self._origin_us) * _PS_PER_US)
        except (OverflowError, ValueError):  # infinite
            return None
        return start if -_LATEST_PS < start < _LATEST_PS else None


def duration_ps(value: object) -> int | None:
    """Return picoseconds, or None for a value that is not a duration."""
    if not isinstance(value, (Decimal, int)):
        return None
    try:
        duration = round(value * _PS_PER_US)
    except (OverflowError, ValueError):
        return None
    return duration if 0 <= duration < _LATEST_PS else None


Reached = Callable[[int], None]
"""Callback that receives the number of bytes of the file read so far."""

_BLOCK: Final = 1 << 20
_GZIP_MAGIC: Final = b"\x1f\x8b"


class CutOff(Exception):
    """Raised when the file is truncated or damaged; the argument says how."""


class UnpacksTooFar(Exception):
    """Raised for a gzip stream that expands more than any profiler's output."""


def is_packed(head: bytes | memoryview) -> bool:
    """Return whether the file is a gzip stream."""
    return bytes(head[:2]) == _GZIP_MAGIC


def text_blocks(data: memoryview, reached: Reached) -> Iterator[str]:
    """Yield the text of the file; bytes that are not UTF-8 become U+FFFD."""
    decoder = codecs.getincrementaldecoder("utf-8-sig")("replace")
    for block in _inflate(data, reached) if is_packed(data) else _slice(data, reached):
        yield decoder.decode(block)


def _slice(data: memoryview, reached: Reached) -> Iterator[bytes]:
    for at in range(0, len(data), _BLOCK):
        reached(at)
        yield bytes(data[at : at + _BLOCK])


def _inflate(data: memoryview, reached: Reached) -> Iterator[bytes]:
    """Yield the unpacked text, one block at a time.

    A truncated file yields what it has, then raises CutOff. Traces expand 10 to 20 times, deflate
    at most 1,030 times; beyond the limit UnpacksTooFar is raised.
    """
    allowed = limit = unpack_limit(len(data))
    file = io.BytesIO(data)
    packed = gzip.GzipFile(fileobj=file)
    try:
        # read1, not read: it returns what was unpacked before any damage.
        while block := packed.read1(_BLOCK):
            reached(file.tell())
            allowed -= len(block)
            if allowed < 0:
                raise UnpacksTooFar(f"it unpacks to more than {limit >> 20:,} MiB")
            yield block
    except EOFError:
        raise CutOff("the gzip stream ends too early") from None
    except (zlib.error, gzip.BadGzipFile) as damage:
        raise CutOff(f"the gzip stream is damaged ({damage})") from None


Event = dict[str, object]

_LONGEST: Final = 16 << 20
"""Maximum length in characters of one event, or of the text before the first."""

_MOST_KEYS: Final = 16
"""Maximum number of `traceEvents` keys to try; all but one lie inside another value."""

_LIST: Final = re.compile(r'"traceEvents"\s*:\s*\[\s*')
_NEXT: Final = re.compile(r"\s*([,\]])\s*")
_SPACE: Final = re.compile(r"\s*")

_UNREADABLE: Final = (ValueError, RecursionError)
"""Errors that the parser raises: bad or missing text, and lists nested too deeply."""


class NotATrace(ValueError):
    """Raised for text that is not a Chrome trace."""


class _Window:
    """A sliding window over the text being parsed."""

    def __init__(self, blocks: Iterator[str]) -> None:
        self.text = ""
        self._blocks = blocks
        self._end = "the file ends"

    def more(self, at: int) -> bool:
        """Move the start to `at` and double the text after it; return False at the end."""
        if len(self.text) - at > _LONGEST:
            return False
        parts, wanted = [self.text[at:]], len(self.text) - at + 1
        try:
            for block in self._blocks:
                parts.append(block)
                wanted -= len(block)
                if wanted <= 0:
                    break
        except CutOff as cut:
            self._end = str(cut)
        grown = any(parts[1:])
        if grown:
            self.text = "".join(parts)
        return grown

    def cut(self, at: int) -> CutOff:
        """Return the error to raise when nothing complete follows `at`."""
        if len(self.text) - at > _LONGEST:
            return CutOff("what follows is not JSON")
        return CutOff(self._end)


def read_head(blocks: Iterator[str]) -> Event:
    """Return the fields of the object before its list of events; empty for a bare list."""
    window = _Window(blocks)
    try:
        at = _find_list(window)
    except (NotATrace, *_UNREADABLE):
        return {}
    return _fields_in(f"{window.text[:at]}]}}")


def read_events(blocks: Iterator[str], tail: Event | None = None) -> Iterator[Event]:
    """Yield each complete event; add the fields of the object behind the list to `tail`.

    Raise CutOff if the list has no end, NotATrace if there is no list.
    """
    window = _Window(blocks)
    at = _find_list(window)
    decode = json.JSONDecoder(parse_float=parse_number, strict=False).raw_decode
    while True:
        try:
            event, end = cast(tuple[object, int], decode(window.text, at))
        except _UNREADABLE:
            at = _skip_space(window.text, at)
            if window.text.startswith("]", at):
                at += 1
                break
            if not window.more(at):
                raise window.cut(at) from None
            at = 0
            continue
        separator = _NEXT.match(window.text, end)
        if separator is None and window.more(at):
            at = 0
            continue
        if isinstance(event, dict):
            yield cast(Event, event)
        if separator is None:
            raise window.cut(end)
        at = separator.end()
        if separator[1] == "]":
            break
    rest = _rest(window.text[at:], blocks)
    if tail is not None:
        tail |= _fields_in("{" + rest.lstrip().removeprefix(","))


def _rest(text: str, blocks: Iterator[str]) -> str:
    """Read to the end, where the checksum shows whether the stream was complete."""
    parts = [text]
    for block in blocks:
        if sum(map(len, parts)) < _LONGEST:
            parts.append(block)
    return "".join(parts)


def _fields_in(text: str) -> Event:
    """Return the fields of an object; empty if the text is none."""
    try:
        parsed: object = json.loads(text, strict=False)
    except _UNREADABLE:
        return {}
    return cast(Event, parsed) if isinstance(parsed, dict) else {}


def _find_list(window: _Window) -> int:
    """Return the offset of the first event."""
    window.more(0)
    start = _skip_space(window.text, 0)
    if window.text.startswith("[", start):
        return _skip_space(window.text, start + 1)
    if not window.text.startswith("{", start):
        raise NotATrace(_describe(window.text[start : start + 200]))
    while True:
        for match in islice(_LIST.finditer(window.text, start), _MOST_KEYS):
            if _is_whole_object(window.text[start : match.end()] + "]}"):
                return match.end()
        if not window.more(start):
            raise NotATrace("it is JSON but holds no list `traceEvents`")
        start = 0


def _is_whole_object(text: str) -> bool:
    """Return False when the key lies inside another value, so the text ends too early."""
    try:
        json.loads(text, strict=False)
    except _UNREADABLE:
        return False
    return True


def _skip_space(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _describe(head: str) -> str:
    if not head:
        return "it is empty"
    if head.lower().startswith(("<!doctype", "<html")):
        return "it is a web page: the download gave a page about the file"
    return f"it starts with {head[:20]!r}, not with a JSON list or object"
