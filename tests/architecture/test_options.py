"""Only `cli` knows the command line: texts of the other rooms name arguments, not options.

Whole commands to paste (`counterpoint explain RUN --json`) are texts of their own.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from inspect import Parameter
from typing import TYPE_CHECKING

import pytest

from counterpoint.cli.app import app_of
from counterpoint.cli.commands import COMMANDS
from counterpoint.cli.wording import ARGUMENTS, in_options
from counterpoint.core.arguments import arguments_in
from package_source import PACKAGE, parsed, sources, walk

if TYPE_CHECKING:
    from cyclopts import App

COMMAND = re.compile(r"\bcounterpoint [a-z.].*?(?:`|$)", re.DOTALL)
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+(?![\w=-])")
WORD = re.compile(r"--[a-z-]+")
"""A literal that is one option alone is a word of the command line of some program."""
OF_A_RETRY = re.compile(r"(?:-o|--[a-z-]+)(?: |$)")


@cache
def options() -> frozenset[str]:
    """Every option of every command."""

    def of(app: App) -> Iterator[str]:
        if app.default_command is not None:
            for argument in app.assemble_argument_collection():
                if argument.field_info.kind is not Parameter.POSITIONAL_ONLY:
                    yield argument.name
        for name in app:
            if not name.startswith("-"):
                yield from of(app[name])

    groups = {command.name.partition(" ")[0] for command in COMMANDS}
    return frozenset(name for group in groups for name in of(app_of(COMMANDS, group)[group]))


def texts(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Every literal with its line; what is put into it is X. Docstrings are none."""
    if isinstance(tree, ast.Expr) and isinstance(tree.value, ast.Constant):
        return
    if isinstance(tree, ast.JoinedStr):
        values = tree.values
        parts = [str(it.value) if isinstance(it, ast.Constant) else "X" for it in values]
        yield tree.lineno, "".join(parts)
        for value in values:
            if not isinstance(value, ast.Constant):
                yield from texts(value)
    elif isinstance(tree, ast.Constant) and isinstance(tree.value, str):
        yield tree.lineno, tree.value
    else:
        for child in ast.iter_child_nodes(tree):
            yield from texts(child)


@cache
def texts_below() -> list[tuple[str, str]]:
    return [*_texts_below()]


def _texts_below() -> Iterator[tuple[str, str]]:
    for path in sources():
        if path.relative_to(PACKAGE).parts[0] != "cli":
            for line, text in texts(parsed(path)):
                yield f"{path.relative_to(PACKAGE)}:{line}", text


def options_in(text: str) -> set[str]:
    """Our options in a text, outside of whole commands."""
    if WORD.fullmatch(text):
        return set()
    return {found for found in OPTION.findall(COMMAND.sub("", text)) if found in options()}


def test_no_text_below_the_command_line_contains_an_option_of_ours() -> None:
    found = [f"{place}: {text!r}" for place, text in texts_below() if options_in(text)]
    assert found == [], "name the argument: `budget=2h` (counterpoint.core.arguments)"


def choices(node: ast.expr) -> list[ast.expr]:
    """The literals that an expression may come to; those in calls are not its value."""
    match node:
        case ast.IfExp(body=one, orelse=other):
            return [*choices(one), *choices(other)]
        case ast.BoolOp(values=values):
            return [it for value in values for it in choices(value)]
        case ast.Constant() | ast.JoinedStr():
            return [node]
        case _:
            return []


def test_no_next_step_is_an_option_alone() -> None:
    found: list[str] = []
    for path in (path for path, source in sources().items() if "next=" in source):
        for node in walk(parsed(path)):
            if isinstance(node, ast.keyword) and node.arg == "next":
                said = [text for value in choices(node.value) for _, text in texts(value)]
                alone = [text for text in said if OF_A_RETRY.match(text)]
                found += [f"{path.relative_to(PACKAGE)}: {text}" for text in alone]
    assert found == [], "pass a Retry (counterpoint.core.arguments)"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("raise --candidates, or name arms with --arm", {"--candidates", "--arm"}),
        ("--budget must be more than zero", {"--budget"}),
        ("--xla_gpu_enable_triton_gemm=false", set[str]()),
        ("run `counterpoint doctor --compare` with --only", {"--only"}),
        ("counterpoint tune show STUDY --json", set[str]()),
        ("compare several: counterpoint compare A1 A2 --with B1 B2", set[str]()),
        ("--nodes=2", set[str]()),
        ("sbatch --parsable", set[str]()),
    ],
)
def test_the_check_finds_options_and_leaves_commands(text: str, found: set[str]) -> None:
    assert options_in(text) == found


def test_the_command_line_words_exactly_its_own_arguments() -> None:
    assert {f"--{name.replace('_', '-')}" for name in ARGUMENTS} == {
        name for name in options() if name.startswith("--")
    }


def test_every_argument_named_in_backticks_is_one_of_a_command() -> None:
    named = {name for _, text in texts_below() for name in arguments_in(text)}
    unknown = {name for name in named if not name.startswith("xla_")} - ARGUMENTS
    assert unknown == set()


def test_an_argument_is_worded_as_an_option() -> None:
    assert in_options("raise `confirm_rows=`, or `budget=2 h`") == (
        "raise --confirm-rows, or --budget 2 h"
    )
    assert in_options("`xla_gpu_graph_level=0` is no argument") == (
        "`xla_gpu_graph_level=0` is no argument"
    )
