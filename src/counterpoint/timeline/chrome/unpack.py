"""From the bytes of a trace file to its text, in blocks, so that no more than a block is unpacked.

A file that ends too early gives what it has and then raises CutOff. A gzip stream may unpack to
`_MOST_RATIO` times its size and no further: traces reach 10 to 20, deflate at its limit 1,030.
"""

from __future__ import annotations

import codecs
import gzip
import io
import zlib
from collections.abc import Callable, Iterator
from typing import Final

Reached = Callable[[int], None]
"""Told how many bytes of the file have been read."""

_BLOCK: Final = 1 << 20
_MOST_RATIO: Final = 100
_ALWAYS_ALLOWED: Final = 16 << 20
_GZIP_MAGIC: Final = b"\x1f\x8b"


class CutOff(Exception):
    """The file ends, or breaks, before its end; the argument says how."""


class UnpacksTooFar(Exception):
    """A gzip stream that is not what a profiler writes."""


def is_packed(head: bytes | memoryview) -> bool:
    """Whether the file is a gzip stream."""
    return bytes(head[:2]) == _GZIP_MAGIC


def text_blocks(data: memoryview, reached: Reached) -> Iterator[str]:
    """The text of the file; bytes that are not UTF-8 become U+FFFD."""
    decoder = codecs.getincrementaldecoder("utf-8-sig")("replace")
    for block in _inflate(data, reached) if is_packed(data) else _slice(data, reached):
        yield decoder.decode(block)


def _slice(data: memoryview, reached: Reached) -> Iterator[bytes]:
    for at in range(0, len(data), _BLOCK):
        reached(at)
        yield bytes(data[at : at + _BLOCK])


def _inflate(data: memoryview, reached: Reached) -> Iterator[bytes]:
    allowed = max(_ALWAYS_ALLOWED, _MOST_RATIO * len(data))
    file = io.BytesIO(data)
    packed = gzip.GzipFile(fileobj=file)
    try:
        # read1, not read: what was unpacked before the damage must not be lost with it.
        while block := packed.read1(_BLOCK):
            reached(file.tell())
            allowed -= len(block)
            if allowed < 0:
                raise UnpacksTooFar(f"it unpacks to more than {_MOST_RATIO} times its size")
            yield block
    except EOFError:
        raise CutOff("the gzip stream ends too early") from None
    except (zlib.error, gzip.BadGzipFile) as damage:
        raise CutOff(f"the gzip stream is damaged ({damage})") from None
