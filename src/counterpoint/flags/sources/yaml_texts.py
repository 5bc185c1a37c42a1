"""What a text within YAML is: a value of flags, lines NAME=value, a shell script, or anything else.

Told by the text: a ConfigMap calls its keys what it likes (`xla-flags: >-`), and so do the inputs
of a workflow (`ENVS: |`).
"""

from __future__ import annotations

import re
from enum import Enum, auto
from typing import Final

from counterpoint.flags.sources.traced import HOLE
from counterpoint.flags.sources.variables import is_setting

_FLAGS: Final = re.compile(rf"[\s{HOLE}]*--(?:xla|megascale)_\w+")
_LINE: Final = re.compile(r"([A-Za-z_]\w*)=(?!=)(.*)")
_SET: Final = re.compile(r"(?:^|[\s;&|])(?:export\s+|env\s+)?([A-Z][A-Z0-9_]*)\+?=", re.MULTILINE)
_COMMAND: Final = re.compile(r"\s(?:[\w./-]+\s|\S*[;&|])")
_FLAG_KEYS: Final = re.compile(r"(?:\w+[_-])?xla[_-]?flags", re.IGNORECASE)


class Content(Enum):
    """What a text holds."""

    FLAGS = auto()
    LINES = auto()  # each NAME=value, to the letter
    SCRIPT = auto()
    OTHER = auto()


def is_flag_key(name: str) -> bool:
    """`xla_flags`, `xla-flags`, `xlaFlags`, `extra_xla_flags`."""
    return bool(_FLAG_KEYS.fullmatch(name)) and name != "XLA_FLAGS"


def content(text: str) -> Content:
    """What a scalar holds."""
    if _FLAGS.match(text):
        return Content.FLAGS
    if not any(is_setting(match[1]) for match in _SET.finditer(text)):
        return Content.OTHER
    lines = [line.strip() for line in text.splitlines()]
    lines = [line for line in lines if line and not line.startswith("#")]
    matches = [_LINE.fullmatch(line.strip(HOLE + " ")) for line in lines if line.strip(HOLE + " ")]
    if all(match and _to_the_letter(match[2]) for match in matches):
        return Content.LINES
    return Content.SCRIPT


def _to_the_letter(value: str) -> bool:
    """No quotes, references or commands, which only a shell would take away."""
    return not re.search(r"[\"'`\\]|\$[({A-Za-z]", value) and (
        value.startswith("--") or not _COMMAND.search(value + " ")
    )


def env_lines(text: str) -> list[tuple[int, str]]:
    """The assignments of such lines, with the number of each, from 0; some end in `;`."""
    rows = enumerate(line.strip() for line in text.splitlines())
    return [(row, line.rstrip("; ")) for row, line in rows if _LINE.match(line)]
