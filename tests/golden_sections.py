"""A golden file for each module of tests, with a section for each test that has a text to keep."""

from __future__ import annotations

import fcntl
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill
from typing import Any

import pytest

from golden_files import Golden, difference


@dataclass(frozen=True)
class Said:
    """Holds what a test found to the section of its name: `said(text, other)`, in one call.

    What must be true of the text (numbers, codes, names, order) a test asserts itself.
    """

    request: pytest.FixtureRequest
    golden: Golden
    text_of: Callable[[Any], str] = str
    wraps: bool = False

    def __call__(self, *found: object) -> None:
        """Hold the texts of all of these to the section, or write it anew."""
        name, text = self.request.node.name, "\n".join(map(self.text_of, found)).rstrip()
        if "tmp_path" in self.request.fixturenames:
            text = text.replace(str(self.request.getfixturevalue("tmp_path")), "TMP")
        if self.wraps:
            text = "\n".join(
                fill(line, 100, subsequent_indent="    ", break_on_hyphens=False)
                for line in text.splitlines()
            )
        file = self.golden.directory / f"{self.request.path.stem.removeprefix('test_')}.txt"
        if self.golden.renew:
            self._renew(file, name, text)
        else:
            kept = _sections(file).get(name, "")
            assert text == kept, difference(file, kept, text)

    def _renew(self, file: Path, name: str, text: str) -> None:
        """Write one section, and leave out those of tests that are gone."""
        order = [*vars(self.request.module)]
        file.parent.mkdir(exist_ok=True)
        with file.open("a+", encoding="utf-8") as stream:
            # Tests of a module may run in several of pytest's workers.
            fcntl.flock(stream, fcntl.LOCK_EX)
            sections = {**_sections(file), name: text}
            known = [it for it in sections if _function(it) in order]
            known.sort(key=lambda it: (order.index(_function(it)), it))
            stream.truncate(0)
            stream.write("\n".join(f"## {it}\n\n{sections[it]}\n" for it in known))


def _function(name: str) -> str:
    """The function of a test, which may have parameters in brackets."""
    return name.partition("[")[0]


def _sections(file: Path) -> dict[str, str]:
    """The texts of a golden file by the names of their tests."""
    whole = file.read_text("utf-8") if file.exists() else ""
    parts = re.split(r"^## (.+)\n\n", whole, flags=re.MULTILINE)
    return {name: text.rstrip("\n") for name, text in zip(parts[1::2], parts[2::2], strict=True)}
