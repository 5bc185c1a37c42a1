"""Run the commands that a Markdown page shows, and put what they print under them.

    python tools/fill_outputs.py docs/tutorial.md        (make tutorial)

A block of the language `console` begins with `$ COMMAND`, which a backslash continues on the next
line. All commands of a page run one after the other in one new directory that holds the examples. A
comment before a block selects lines of the output; each gap is shown as `...`:

    <!-- lines 1-12, 20-23 -->
    <!-- lines 1-12 of stdout -->
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).parents[1]
_BLOCK = re.compile(
    r"(?P<comment><!-- lines (?P<lines>[\d, -]+?)(?P<stdout> of stdout)? -->\n)?```console\n"
    r"\$ (?P<command>(?:[^\n]*\\\n)*[^\n]*)\n(?P<output>.*?)```$",
    re.MULTILINE | re.DOTALL,
)
_COLOR = re.compile(r"\x1b\[[\d;]*m")


@dataclass(frozen=True, slots=True)
class Shown:
    """One command of a page, and the lines of its output that are shown; none: all of them."""

    command: str
    lines: tuple[range, ...]


def commands_in(page: str) -> Iterator[Shown]:
    """The commands of a page, in its order."""
    for match in _BLOCK.finditer(page):
        yield Shown(match["command"], _ranges(match["lines"] or ""))


def filled(page: str, directory: Path, environment: Mapping[str, str]) -> str:
    """The page, with the output of each command run anew."""

    def block(match: re.Match[str]) -> str:
        sys.stderr.write(f"$ {match['command']}\n")
        printed = _run(match["command"], directory, environment, talk=not match["stdout"])
        shown = selected(printed.splitlines(), _ranges(match["lines"] or ""))
        lines = "".join(f"{line}\n" for line in shown)
        return f"{match['comment'] or ''}```console\n$ {match['command']}\n{lines}```"

    return _BLOCK.sub(block, page)


def selected(printed: list[str], ranges: tuple[range, ...]) -> list[str]:
    """The lines within the ranges, with a line of dots for each gap."""
    if not ranges:
        return printed
    shown: list[str] = []
    after = 1
    for lines in ranges:
        if lines.start > after:
            shown.append("...")
        shown += printed[lines.start - 1 : lines.stop - 1]
        after = lines.stop
    return [*shown, "..."] if after <= len(printed) else shown


def _ranges(text: str) -> tuple[range, ...]:
    ends = (part.strip().partition("-") for part in text.split(",") if part.strip())
    return tuple(range(int(first), int(last or first) + 1) for first, _, last in ends)


def _run(command: str, directory: Path, environment: Mapping[str, str], *, talk: bool) -> str:
    done = subprocess.run(  # noqa: S603 - the commands of our own pages
        ["/bin/bash", "-c", command],
        cwd=directory,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if talk else None,
        text=True,
        check=False,
    )
    if done.returncode not in (0, 1):  # 1: something was found
        raise SystemExit(f"{command}\nended with exit code {done.returncode}:\n{done.stdout}")
    lines = (line.rstrip() for line in _COLOR.sub("", done.stdout).splitlines())
    return "\n".join(lines).replace(f"{directory}/", "")


def main(paths: list[str]) -> None:
    """Fill the pages in place."""
    environment = {name: text for name, text in os.environ.items() if name != "XLA_FLAGS"}
    environment |= {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "JAX_PLATFORMS": "cpu",
        "COLUMNS": "96",
    }
    for path in map(Path, paths):
        with tempfile.TemporaryDirectory() as name:
            directory = Path(name).resolve() / "work"
            directory.mkdir()
            shutil.copytree(CHECKOUT / "examples", directory / "examples")
            text = filled(path.read_text("utf-8"), directory, environment)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
