"""What XLA's parser prints about flags it does not take, read out of its log."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from counterpoint.flags.gone import unknown_hint
from counterpoint.flags.names import names

_UNKNOWN: Final = re.compile(r"Unknown flags? in XLA_FLAGS: (.*)")
_BAD: Final = (
    re.compile(r"Couldn't interpret value (?P<value>.*) for flag (?P<name>\w+)\."),
    re.compile(r"Illegal value for (?:--)?(?P<name>\w+) '(?P<value>.*?)'(?=$|:)", re.MULTILINE),
)
_PARSE_FAILED: Final = re.compile(r"Check failed: tsl::Flags::Parse|Flag parsing failed")


@dataclass(frozen=True, slots=True)
class Rejected:
    """One flag that the compiler ends the process at."""

    name: str
    reason: str
    hint: str
    value: str | None = None  # None: it was given without one


def unknown_words(log: str, words: Sequence[str]) -> tuple[str, ...]:
    """Those of our flags that the log calls unknown; it lists them in our order."""
    match = _UNKNOWN.search(log)
    if match is None:
        return ()
    rest = log[match.start(1) :]
    found: list[str] = []
    for word in words:
        if rest.startswith(word) and rest[len(word) : len(word) + 1] in ("", " ", "\n"):
            found.append(word)
            rest = rest[len(word) + 1 :]
    return tuple(found)


def misread_words(log: str, words: Iterable[str]) -> tuple[str, ...]:
    """Those of our flags whose value the log calls wrong. Not each wrong value is in the log."""
    told = {
        f"--{match['name']}={match['value']}"
        for pattern in _BAD
        for match in pattern.finditer(log.partition("usage: ")[0])
    }
    return tuple(word for word in words if word in told)


def parsing_failed(log: str) -> bool:
    """Whether a value was wrong, named or not."""
    return _PARSE_FAILED.search(log) is not None


def unknown(word: str, version: str | None) -> Rejected:
    """A name that this version does not know, or that needs a value and got none."""
    name, equals, value = word[2:].partition("=")
    return Rejected(name, "unknown flag", unknown_hint(name, version), value if equals else None)


def misread(word: str) -> Rejected:
    """A value that the flag does not take."""
    name, equals, value = word[2:].partition("=")
    reason = f"does not take the value {value!r}"
    return Rejected(name, reason, _value_hint(name, value), value if equals else None)


def _value_hint(name: str, value: str) -> str:
    if value.strip("'\"") != value:
        return "The quotes became part of the value: quote once only."
    if value.endswith((",", ";")):
        return "Flags are separated by spaces; a comma or semicolon belongs to the value."
    if name == "xla_gpu_enable_command_buffer" and value.isdigit():
        return "Levels are gone: empty switches command buffers off, otherwise FUSION,CUBLAS,..."
    known = names().get(name)
    if known is None:
        return "Its type is not known here."
    if known.values:
        return f"XLA's names for it: {', '.join(known.values)}."
    return _TYPE_HINTS.get(known.type, f"It is of type {known.type}.")


_TYPE_HINTS: Final = {
    "bool": "It is true or false.",
    "int32": "It is a whole number.",
    "int64": "It is a whole number.",
    "float": "It is a number.",
    "map": "It is a list of key=value, separated by commas.",
}
