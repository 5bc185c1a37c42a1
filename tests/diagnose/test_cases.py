"""docs/cases: on each real trace, the findings and the figures that the page states."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from counterpoint.report.explain.explain_json import explain_json
from real_profiles import explained_of

CASES = Path(__file__).parents[2] / "docs" / "cases"
_ROW = re.compile(r"^\| *([^|]+?) *\| *([^|]+?) *\|", re.MULTILINE)


@dataclass(frozen=True)
class Page:
    """A case: the command's profiles, findings with what they save at most, and figures."""

    name: str
    profiles: tuple[str, ...]
    findings: tuple[tuple[str, str], ...]
    evidence: tuple[tuple[str, str], ...]


def pages() -> Iterator[Page]:
    for path in sorted(CASES.glob("*.md")):
        if path.stem == "README":
            continue
        text = path.read_text("utf-8")
        command = re.search(r"^counterpoint explain (.+)$", text, re.MULTILINE)
        assert command, f"{path} names no command"
        yield Page(
            path.stem,
            tuple(command[1].split()),
            tuple(_table(text, "Findings")),
            tuple(_table(text, "Evidence")),
        )


def _table(text: str, heading: str) -> Iterator[tuple[str, str]]:
    part = re.split(r"^## ", text.split(f"## {heading}\n", 1)[1], maxsplit=1, flags=re.MULTILINE)[0]
    for first, second in _ROW.findall(part)[1:]:
        if set(first) - set("-: "):
            yield first.strip("`"), second


def _at(data: Any, path: str) -> Any:  # noqa: ANN401  any JSON
    """`ops[copy-done.2].self_ms`: by keys, by numbers, and by name where rows have one."""
    for key, index in re.findall(r"(\w+)(?:\[([^\]]+)\])?", path):
        data = data[key]
        if index and index.isdecimal():
            data = data[int(index)]
        elif index:
            data = next(row for row in data if index in (row.get("op"), row.get("name")))
    return data


def _number(text: str) -> float:
    return float(text.replace(",", "").split()[0])


@pytest.mark.system
@pytest.mark.parametrize("page", [*pages()], ids=lambda it: it.name)
def test_a_case_says_what_explain_finds(page: Page, shared: Path) -> None:
    traces = shared / "data" / "traces"
    explained = explained_of(*(traces / name for name in page.profiles))
    data: Any = json.loads(explain_json(explained))
    assert [finding["code"] for finding in data["findings"]] == [code for code, _ in page.findings]
    for finding, (code, most) in zip(data["findings"], page.findings, strict=True):
        if most == "-":
            assert finding["saves_ms"] is None, code
        else:
            assert finding["saves_ms"][1] == pytest.approx(_number(most), rel=0.02), code
    for path, value in page.evidence:
        found = _at(data, path)
        if isinstance(found, str):
            assert found == value, path
        else:
            assert found == pytest.approx(_number(value), rel=0.02), path


def test_every_real_trace_has_a_case(shared: Path) -> None:
    known = {name for page in pages() for name in page.profiles}
    traces = {path.name for path in (shared / "data" / "traces").iterdir()}
    assert traces - known <= {"corrupt_utf8_mangled.xplane.pb"}
