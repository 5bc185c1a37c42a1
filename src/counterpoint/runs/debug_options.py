"""The flags as the compiler reports them, module by module, in the dump of `--xla_dump_to`.

A `.debug_options` file is the text of XLA's DebugOptions: all that differs from the defaults, after
XLA_FLAGS and a program's own compiler options. It is what was used, whatever was asked for.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from counterpoint.runs.run import Rank

_FIELD: Final = re.compile(r"^(\w+):? (\{[^}]*\}|[^\n]*)$", re.MULTILINE)
_LINE: Final = re.compile(r"\w+: \S.*|\w+ \{|\}")
_ENTRY: Final = re.compile(r'\{\s*key: "(.*?)"\s*value: "?(.*?)"?\s*\}', re.DOTALL)


def read_debug_options(path: Path) -> dict[str, str]:
    """One module's flags. Empty if unreadable."""
    try:
        return parse_debug_options(path.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return {}


def is_debug_options(text: str) -> bool:
    """Whether all of a text is such a message, as XLA writes it; an empty one changes nothing."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    closed = sum(line.endswith(" {") for line in lines) == lines.count("}")
    return closed and all(_LINE.fullmatch(line) for line in lines)


def parse_debug_options(text: str) -> dict[str, str]:
    """Flags in a file's text; a list has its values with commas between, a map `key=value`."""
    flags: dict[str, str] = {}
    for name, value in _FIELD.findall(text):
        entry = _ENTRY.fullmatch(value)
        plain = f"{entry[1]}={entry[2]}" if entry else _unquoted(value.strip())
        flags[name] = f"{flags[name]},{plain}" if name in flags else plain
    return flags


def _unquoted(value: str) -> str:
    return value.removeprefix('"').removesuffix('"')


def effective_flags(rank: Rank) -> dict[str, str]:
    """Those of `rank.step_module`, or of the next one whose flags are there."""
    by_stem = {_stem(path): path for path in rank.debug_options}
    for module in rank.hlo:
        stem = next((stem for stem in by_stem if module.name.startswith(f"{stem}.")), None)
        if stem is not None:
            return read_debug_options(by_stem[stem])
    return {}


def flags_by_module(rank: Rank) -> dict[str, dict[str, str]]:
    """Those of each module, by what XLA calls its files: `module_0001.jit_step`."""
    return {_stem(path): read_debug_options(path) for path in rank.debug_options}


def _stem(path: Path) -> str:
    return path.name.removesuffix(".debug_options")
