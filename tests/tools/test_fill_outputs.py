"""Pages whose outputs are filled in by running their commands."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest

from counterpoint.cli.app import parse
from fill_outputs import commands_in, filled

TUTORIAL = Path(__file__).parents[2] / "docs" / "tutorial.md"
PAGE = """\
Text stays.

<!-- lines 2, 4-5 -->
```console
$ seq \\
    6
old
```

```console
$ echo 7 > kept; echo no >&2
```

<!-- lines 1 of stdout -->
```console
$ cat kept; echo talk >&2
```
"""


def test_outputs_are_those_of_the_commands_in_one_directory(tmp_path: Path) -> None:
    made = filled(PAGE, tmp_path, os.environ)
    assert "$ seq \\\n    6\n...\n2\n...\n4\n5\n...\n```" in made
    assert "$ echo 7 > kept; echo no >&2\nno\n```" in made
    assert "$ cat kept; echo talk >&2\n7\n```" in made
    assert made.startswith("Text stays.\n")
    assert filled(made, tmp_path, os.environ) == made


def test_a_command_that_fails_ends_the_filling(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="exit code 4"):
        filled("```console\n$ exit 4\n```\n", tmp_path, os.environ)


def test_the_commands_of_the_tutorial_are_ones_that_there_are() -> None:
    lines = [
        shown.command.replace("\\\n", " ") for shown in commands_in(TUTORIAL.read_text("utf-8"))
    ]
    ours = [words[1:] for words in map(shlex.split, lines) if words[0] == "counterpoint"]
    assert len(ours) > 5
    for words in ours:
        parse(words)
