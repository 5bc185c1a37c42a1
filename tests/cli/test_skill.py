"""The page for coding agents: every command that it names is one that is accepted."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from command_line import in_process
from counterpoint.cli.app import parse
from counterpoint.core import UsageError

DOCS = Path(__file__).parents[2] / "docs"
COMMAND = re.compile(r"`(counterpoint [^`]+)`")
CODE = re.compile(r"^(?:[a-z0-9 =-]+&& )?(counterpoint [^#\n|>]+)", re.MULTILINE)


def commands_of(page: str) -> list[str]:
    """The commands of a page, in its tables and in its code."""
    return [match.strip() for match in (*COMMAND.findall(page), *CODE.findall(page))]


def check_parses(line: str) -> None:
    _, *words = shlex.split(line)
    try:
        parse(words)
    except UsageError as error:
        pytest.fail(f"{line}: {error}")


def test_every_command_of_the_skill_is_accepted() -> None:
    done = in_process("skill")
    assert done.returncode == 0
    assert done.stdout.startswith("---\nname: counterpoint\n")
    found = commands_of(done.stdout)
    assert len(found) > 15
    for line in found:
        check_parses(line)


def test_a_command_that_is_none_is_found() -> None:
    with pytest.raises(pytest.fail.Exception, match="no-such"):
        check_parses("counterpoint explain RUN --no-such 3")
    assert commands_of("| x | `counterpoint runs --json` |") == ["counterpoint runs --json"]


@pytest.mark.parametrize("name", ["guide/coding-agents.md", "guide/trackers.md"])
def test_commands_of_the_guides_are_accepted(name: str) -> None:
    found = commands_of((DOCS / name).read_text("utf-8"))
    assert found
    for line in found:
        check_parses(line)
