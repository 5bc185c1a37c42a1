"""No module and no function of the package outgrows what one can hold in mind."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "src" / "counterpoint"
MODULE_LINES = 500
FUNCTION_LINES = 60


def too_long(name: str, source: str) -> Iterator[str]:
    """Each module or function over the limit, with its length."""
    lines = source.count("\n")
    if lines > MODULE_LINES:
        yield f"{name}: {lines} lines"
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > FUNCTION_LINES:
                yield f"{name}:{node.lineno} {node.name}: {length} lines"


def test_the_package_is_in_small_pieces() -> None:
    found = [
        excess
        for path in sorted(PACKAGE.rglob("*.py"))
        for excess in too_long(str(path.relative_to(PACKAGE)), path.read_text())
    ]
    assert found == []


def test_a_long_function_and_a_long_module_are_found() -> None:
    function = "def long():\n" + "    pass\n" * FUNCTION_LINES
    assert list(too_long("a.py", function)) == ["a.py:1 long: 61 lines"]
    assert list(too_long("b.py", "x = 1\n" * 501)) == ["b.py: 501 lines"]
