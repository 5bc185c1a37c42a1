"""The text form of a profile: one cost per line, and comments on top that say how it was made.

    # made by: counterpoint 0.1.0
    costs { name: "0123...cdef::fusion.3" cost_us: 12.5 }

Numbers are written so that they read back as the very same; names only with escapes that the text
format knows. XLA's parser skips comments.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from google.protobuf import text_encoding

from counterpoint.pgle.profile import Profile

_COMMENT: Final = "# "
_COLON: Final = ": "


def profile_text(profile: Profile) -> str:
    """The whole file."""
    return "".join(f"{line}\n" for line in _lines(profile))


def _lines(profile: Profile) -> Iterator[str]:
    for key, value in profile.origin.items():
        yield f"{_COMMENT}{_one_line(key)}{_COLON}{_one_line(value)}"
    for cost in profile.costs:
        yield f"costs {{ name: {_quoted(cost.key)} cost_us: {cost.us!r} }}"
    for latency in profile.latencies:
        source, target = _quoted(latency.source), _quoted(latency.target)
        yield f"latencies {{ source: {source} target: {target} latency_us: {latency.us!r} }}"


def origin_of(text: str) -> Mapping[str, str]:
    """What the comments at the top of a file tell."""
    origin: dict[str, str] = {}
    for line in text.split("\n"):
        if not line.startswith(_COMMENT):
            break
        key, colon, value = line.removeprefix(_COMMENT).partition(_COLON)
        if colon:
            origin[key] = value
    return origin


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _quoted(name: str) -> str:
    encoding: Any = text_encoding
    return f'"{encoding.CEscape(name, as_utf8=False)}"'
