"""Every input that once ended a command or a parser badly, made small, ends well."""

from __future__ import annotations

import base64
import contextlib
import json
from pathlib import Path
from typing import Never

import pytest

from command_line import in_process
from counterpoint.core import CounterpointError
from fuzz.parsers import parser_of
from fuzz.worker import CONTROL

CORPUS = sorted((Path(__file__).parent / "corpus").glob("*.json"))


def refused(constant: str) -> Never:
    raise AssertionError(f"{constant} is no JSON")


@pytest.mark.parametrize("case", CORPUS, ids=[path.stem for path in CORPUS])
def test_a_find_of_the_fuzzer(case: Path, tmp_path: Path) -> None:
    content = json.loads(case.read_text("utf-8"))
    packed = content.get("packed", {}).items()
    files = {name: text.encode("utf-8") for name, text in content["files"].items()}
    files |= {name: base64.b64decode(text) for name, text in packed}
    for name, data in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(data)
    if "parse" in content:
        name, path = content["parse"]
        parse = parser_of(name)
        assert parse is not None
        with contextlib.suppress(CounterpointError):
            parse(tmp_path / path)
    for words in content.get("commands", ()):
        done = in_process(*words, cwd=tmp_path)
        assert "Traceback" not in done.stderr, words
        assert CONTROL.findall(done.stdout + done.stderr) == [], words
        if "--json" in words and done.stdout:
            json.loads(done.stdout, parse_constant=refused)
