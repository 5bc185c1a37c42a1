"""Nothing from an input reaches a terminal as a control character, on no stream and in no form."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Never

import pytest
from trace_builder import process, span, text_of, thread

import counterpoint.cli
from command_line import in_process
from counterpoint.core.printable import printable, printable_lines

TITLE = "\x1b]0;owned\x07"
TURNED = "fusion\u202e.3"
NAMES = (
    TITLE,
    "\x1b[31mred",
    "c1\x9b31m",
    TURNED,
    "del\x7f",
    "nul\0",
    "two\nlines",
    "\ud800 alone",
)
CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    events = [process(1, "/device:GPU:0"), thread(1, 7, "Stream #7(Compute)" + TITLE)]
    for step in range(3):
        for at, name in enumerate(NAMES):
            events.append(
                span((1, 7), step * 1000.0 + at * 10, 9.0, name, hlo_op=name, hlo_module=TITLE)
            )
    path = tmp_path / "h.trace.json"
    path.write_bytes(text_of(events))
    return path


@pytest.mark.parametrize(
    "words",
    [
        ("explain", "--top", "20"),
        ("explain", "--json"),
        ("explain", "--as", "digest"),
        ("network",),
        ("network", "--json"),
        ("compare",),
        ("compare", "--json"),
        ("convert",),
        ("log", "--json"),
        ("pgle", "make", "-o", "out.pbtxt"),
    ],
    ids=" ".join,
)
def test_names_of_a_profile(words: tuple[str, ...], hostile: Path, tmp_path: Path) -> None:
    more = {"compare": [hostile], "convert": ["out.parquet"]}.get(words[0], [])
    group = 2 if words[0] == "pgle" else 1
    done = in_process(*words[:group], hostile, *more, *words[group:], cwd=tmp_path)
    assert "Traceback" not in done.stderr
    assert CONTROL.findall(done.stdout + done.stderr) == []
    if "--json" in words and done.stdout:
        json.loads(done.stdout, parse_constant=refuse)


def refuse(constant: str) -> Never:
    raise AssertionError(f"{constant} is no JSON")


@pytest.mark.parametrize("name", [TITLE, TURNED, "\x9b31m", os.fsdecode(b"\xff.pb")])
def test_names_of_files_in_errors(name: str, tmp_path: Path) -> None:
    for words in (("explain", name), ("flags", "check", f"./{name}"), (name,), ("runs", name)):
        done = in_process(*words, cwd=tmp_path)
        assert done.returncode in (2, 3), words
        assert CONTROL.findall(done.stdout + done.stderr) == [], words


def test_values_of_flags(tmp_path: Path) -> None:
    (tmp_path / "a.sh").write_text(
        f"export XLA_FLAGS='--xla_{TITLE}=1 --xla_gpu_graph_level=\x9b1'\n"
    )
    for words in ((), ("--json",)):
        done = in_process("flags", "check", "a.sh", "--no-probe", *words, cwd=tmp_path)
        assert done.returncode == 1
        assert CONTROL.findall(done.stdout + done.stderr) == []
        assert not words or json.loads(done.stdout)


def test_what_is_shown_instead() -> None:
    assert printable("a\tb\n\x1b[1m\u202e\ud800é") == r"a\tb\n\x1b[1m\u202e\ud800é"
    assert printable_lines("a\tb\n\x1b[1m\r") == "a\tb\n\\x1b[1m\\r"


def test_one_module_prints() -> None:
    """ruff refuses `print` everywhere else (T201)."""
    writers = [
        file.name
        for file in sorted(Path(counterpoint.cli.__file__).parent.glob("*.py"))
        if re.search(r"std(out|err)\.write", file.read_text("utf-8"))
    ]
    assert writers == ["printing.py"]
