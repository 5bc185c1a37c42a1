"""Golden files: whole texts that people read, kept beside the tests that print them.

    make golden    # after a change of a text; the difference is then reviewed like code

A golden file says how a text reads. What must be true of it (numbers, codes, order) is asserted by
tests of its own, so that a better sentence changes a file and breaks no test.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path


@dataclass(frozen=True)
class Golden:
    """The golden files of one directory of tests."""

    directory: Path
    renew: bool

    def __call__(self, name: str, text: str) -> None:
        """Hold a text to the file, or write the file anew."""
        file = self.directory / name
        if self.renew:
            file.parent.mkdir(exist_ok=True)
            file.write_text(text, "utf-8")
            return
        kept = file.read_text("utf-8") if file.exists() else ""
        assert text == kept, difference(file, kept, text)


def difference(file: Path, kept: str, text: str) -> str:
    """What is new: pytest shows it for the asserts of test modules alone."""
    lines = unified_diff(kept.splitlines(), text.splitlines(), "golden", "new", lineterm="")
    return "\n".join((f"{file}: if the new text is right, run `make golden`", *lines))


def cases(texts: Mapping[str, str]) -> str:
    """One document of many cases: a heading for each, and what is printed there."""
    return "\n".join(f"## {name}\n\n{text.rstrip()}\n" for name, text in texts.items())
