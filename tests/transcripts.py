"""Command lines with what they print, as one text: a golden file then holds many cases at once.

A line of stderr begins with `! `; an exit code is shown where it is not 0.
"""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Mapping
from pathlib import Path

from command_line import in_process
from growing_lists import without_lists


class Transcript:
    """What a user would see who types one command line after the other in a directory."""

    def __init__(self, directory: Path, environment: Mapping[str, str] | None = None) -> None:
        self._directory = directory
        self._environment = environment
        self._parts: list[str] = []

    def run(
        self, *words: object, code: int = 0, shown: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a command line, which ends with this code.

        `shown`: by a pattern of what differs from machine to machine, what the text has for it.
        """
        done = in_process(*words, cwd=self._directory, environment=self._environment)
        assert done.returncode == code, done.stdout + done.stderr
        self.add(["counterpoint", *map(str, words)], done, shown)
        return done

    def add(
        self,
        words: list[str],
        done: subprocess.CompletedProcess[str],
        shown: Mapping[str, str] | None = None,
    ) -> None:
        """Take the output of a command that the test ran itself."""
        lines = [
            f"$ {shlex.join(words)}",
            *done.stdout.splitlines(),
            *(f"! {line}".rstrip() for line in done.stderr.splitlines()),
        ]
        if done.returncode:
            lines.append(f"[exit code {done.returncode}]")
        text = "\n".join(lines).replace(str(self._directory), "DIR")
        for pattern, ours in (shown or {}).items():
            text = re.sub(pattern, ours, text)
        self._parts.append(text)

    @property
    def text(self) -> str:
        return without_lists("\n\n".join(self._parts) + "\n")


def next_command(printed: str) -> list[str]:
    """The words of the command that the last `next:` line proposes, without `counterpoint`."""
    line = printed.rpartition("next: ")[2].splitlines()[0]
    command, *words = shlex.split(line, comments=True)
    assert command == "counterpoint", line
    return words
