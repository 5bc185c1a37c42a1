"""A command as it would be started: the environment, what stands before it, and its script."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from counterpoint.flags.named_files import read_regular
from counterpoint.flags.sources.shell_source import read_words
from counterpoint.flags.sources.sniff import sniff
from counterpoint.flags.sources.traced import known
from counterpoint.flags.sources.variables import is_setting
from counterpoint.flags.written import COMMAND_LINE, ENVIRONMENT, Written


def read_command_line(words: Sequence[str], inherited: Mapping[str, str]) -> Written:
    """The environment, and the command's own words behind it; a script it starts is read, too."""
    before = {
        name: known(value, where=ENVIRONMENT)
        for name, value in inherited.items()
        if is_setting(name)
    }
    return read_words(words, COMMAND_LINE, before, _script(words))


def _script(words: Sequence[str]) -> tuple[str, str] | None:
    """Name and text of the shell script that is started, if one is."""
    for word in words:
        path = Path(word)
        try:
            text = read_regular(path).decode()
        except (OSError, ValueError):
            continue
        if sniff(text, word) == "shell":
            return word, text
    return None
