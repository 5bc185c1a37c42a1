"""How findings read: whole texts, kept in a golden file of each module of tests."""

from __future__ import annotations

import fcntl
import re
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill

import pytest

from counterpoint.core.basis import Range
from counterpoint.diagnose.finding import Finding, ms_text
from golden import Golden, difference


@dataclass(frozen=True)
class Said:
    """Holds what a test found to a section of its module's golden file: `said(finding)`.

    The sections have the names of the tests. What must be true of a finding (its code, what it
    saves, which op and which setting it names) a test asserts itself.
    """

    request: pytest.FixtureRequest
    golden: Golden

    def __call__(self, *found: Finding | str) -> None:
        """Compare all that the test found, in one call."""
        name, text = self.request.node.name, "\n".join(map(_text, found))
        if "tmp_path" in self.request.fixturenames:
            text = text.replace(str(self.request.getfixturevalue("tmp_path")), "TMP")
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


def _text(found: Finding | str) -> str:
    if isinstance(found, str):
        return found
    saves, remedy = found.saves_ms, found.remedy
    settings = [f"{name}={value}" for name, value in (*remedy.flags, *remedy.environment)]
    evidence = [it.what + ("" if it.ms is None else f" {ms_text(it.ms)}") for it in found.evidence]
    price = (
        f"{ms_text(saves.low)} to {ms_text(saves.high)}"
        if isinstance(saves, Range)
        else f"? ({saves.reason})"
    )
    lines = {
        found.code: found.title,
        "detail": found.detail,
        "saves": f"{price}, {found.basis}",
        "evidence": "; ".join(evidence),
        "doubt": found.doubt,
        "remedy": remedy.text,
        "settings": " ".join(settings),
    }
    return "\n".join(f"{name}: {line}" for name, line in lines.items() if line)
