"""A command as it would be started: the environment, what stands before it, and its script."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from counterpoint.flags.sources.shell_source import read_words
from counterpoint.flags.sources.sniff import sniff
from counterpoint.flags.sources.traced import known
from counterpoint.flags.sources.variables import is_setting
from counterpoint.flags.written import Written

_LARGEST: Final = 1 << 20


def read_command_line(words: Sequence[str], inherited: Mapping[str, str]) -> Written:
    """The environment, and the command's own words behind it; a script it starts is read, too."""
    before = {
        name: known(value, where="environment")
        for name, value in inherited.items()
        if is_setting(name)
    }
    return read_words(words, "command line", before, _script(words))


def _script(words: Sequence[str]) -> tuple[str, str] | None:
    """Name and text of the shell script that is started, if one is."""
    for word in words:
        path = Path(word)
        try:
            if not path.is_file() or path.stat().st_size > _LARGEST:
                continue
            text = path.read_text(encoding="utf-8")
        except (OSError, ValueError):
            continue
        if sniff(text, word) == "shell":
            return word, text
    return None
