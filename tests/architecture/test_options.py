"""What errors advise to do next names options that exist."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from inspect import Parameter
from typing import TYPE_CHECKING

from counterpoint.cli.app import app_of
from counterpoint.cli.commands import COMMANDS
from package_source import PACKAGE, parsed, sources, walk

if TYPE_CHECKING:
    from cyclopts import App

OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+(?![\w=-])")


@cache
def options() -> frozenset[str]:
    """Every option of every command."""

    def of(root: App, words: list[str]) -> Iterator[str]:
        with root.app_stack(words):  # names are made by a rule of the root
            app = root[words[0]] if len(words) == 1 else root[words[0]][words[1]]
            if app.default_command is not None:
                for argument in app.assemble_argument_collection():
                    if argument.field_info.kind is not Parameter.POSITIONAL_ONLY:
                        yield argument.name

    found: set[str] = set()
    for command in COMMANDS:
        words = command.name.split()
        found.update(of(app_of(COMMANDS, words[0]), words))
    return frozenset(found)


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


def texts_in_next() -> Iterator[tuple[str, str]]:
    """What errors say to do next."""
    for path in (path for path, source in sources().items() if "next=" in source):
        for node in walk(parsed(path)):
            if isinstance(node, ast.keyword) and node.arg == "next":
                for line, text in texts(node.value):
                    yield f"{path.relative_to(PACKAGE)}:{line}", text


def test_what_an_error_advises_is_an_option_of_ours() -> None:
    """`use --steps 2` or `omit --steps`; the value may be anything."""
    advised = {
        (place, option)
        for place, text in texts_in_next()
        if text.startswith(("use ", "omit "))
        for option in OPTION.findall(text)
        if not option.startswith("--xla")
    }
    assert len(advised) > 50
    assert {it for it in advised if it[1] not in options()} == set()
