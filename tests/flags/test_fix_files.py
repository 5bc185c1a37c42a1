"""Public launch files with problems that have a fix: what `--fix` makes of each."""

from __future__ import annotations

import ast
import json
import re
import subprocess
from collections import Counter
from difflib import SequenceMatcher
from pathlib import Path

import pytest
import yaml

from counterpoint.flags.check.examination import CheckRequest, examine, fix_and_examine
from counterpoint.flags.check.fix import FixResult
from counterpoint.flags.parse.source import SourceText, open_source

QUESTION = CheckRequest(version="0.10.2", ask=None)
LEFT = 24
"""Characters that may go with a setting: `export`, quotes, a backslash, a comment is counted."""


def is_valid(path: Path, text: str) -> bool:
    """Whether another program can still read a file."""
    if path.suffix in (".sh", ".sbatch", ".slurm", ".sub"):
        shell = ["bash", "-n"]
        data = text.encode(errors="surrogateescape")
        return not subprocess.run(shell, input=data, capture_output=True, check=False).returncode
    try:
        if path.suffix == ".py":
            ast.parse(text)
        elif path.suffix in (".yaml", ".yml"):
            list(yaml.safe_load_all(text))
        elif path.suffix == ".ipynb":
            json.loads(text)
    except (SyntaxError, ValueError, yaml.YAMLError):
        return False
    return True


def outside(before: str, fixed: FixResult) -> list[str]:
    """Words that went and belong to no setting that was fixed."""
    words = [re.findall(r"\s+|\S+", text) for text in (before, fixed.text)]
    found: list[str] = []
    for kind, low, high, _, _ in SequenceMatcher(None, *words, autojunk=False).get_opcodes():
        gone = "" if kind == "equal" else "".join(words[0][low:high])
        for one in fixed.made:
            gone = re.sub(rf"(-{{2}})?{re.escape(one.name)}(=[^\s\"'\\,]*)?", "", gone)
        gone = re.sub(r"name:|value:.*|export|ENV|-x|#.*|[-\s\"'\\,:;&]", "", gone)
        found += [gone] if len(gone) > LEFT else []
    return found


def problems(opened: SourceText, path: Path) -> list[str]:
    """What is wrong with the fixes of a file."""
    fixed, after = fix_and_examine(opened.text, opened.read, QUESTION)
    before = examine(opened.read(opened.text), QUESTION).remarks
    codes = [Counter(one.code for one in remarks) for remarks in (before, after.remarks)]
    found = [f"other words went: {gone}" for gone in outside(opened.text, fixed)]
    found += [f"new remark: {code}" for code in codes[1] - codes[0]]
    again = {(one.code, one.text) for one in after.remarks}
    refused = {(one.remark.code, one.remark.text) for one in fixed.refused}
    found += [f"still there: {one.text}" for one in fixed.made
              if (one.code, one.text) in again - refused]  # fmt: skip
    if is_valid(path, opened.text) and not is_valid(path, fixed.text):
        found.append("no longer valid")
    if fix_and_examine(fixed.text, opened.read, QUESTION)[0].text != fixed.text:
        found.append("a second fix changes it again")
    return found


def test_public_files_change_in_their_settings_alone(shared: Path) -> None:
    folder = shared / "data/launch"
    if not folder.is_dir():
        pytest.skip("the public launch files are not here")
    found, files = dict[str, list[str]](), 0
    for line in (folder / "index-train.jsonl").read_text().splitlines():
        path = folder / json.loads(line)["file"]
        opened = open_source(path)
        assert opened
        if not any(one.fix and one.fix.safe for one in _remarks(opened)):
            continue
        files += 1
        found[str(path)] = problems(opened, path)
    assert {path: wrong for path, wrong in found.items() if wrong} == {}
    assert files > 20


def _remarks(opened: SourceText):  # noqa: ANN202
    from counterpoint.core import InputError

    try:
        return examine(opened.read(opened.text), QUESTION).remarks
    except InputError:
        return ()
