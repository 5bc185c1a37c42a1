"""No module and no function of the package outgrows what one can hold in mind."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from package_source import PACKAGE, parsed, sources, walk

MODULE_LINES = 500
FUNCTION_LINES = 60


def too_long(name: str, source: str, tree: ast.Module) -> Iterator[str]:
    """Each module or function over the limit, with its length."""
    lines = source.count("\n")
    if lines > MODULE_LINES:
        yield f"{name}: {lines} lines"
    for node in walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > FUNCTION_LINES:
                yield f"{name}:{node.lineno} {node.name}: {length} lines"


def test_the_package_is_in_small_pieces() -> None:
    found = [
        excess
        for path, text in sources().items()
        for excess in too_long(str(path.relative_to(PACKAGE)), text, parsed(path))
    ]
    assert found == []


def test_a_long_function_and_a_long_module_are_found() -> None:
    function = "def long():\n" + "    pass\n" * FUNCTION_LINES
    assert list(too_long("a.py", function, ast.parse(function))) == ["a.py:1 long: 61 lines"]
    module = "x = 1\n" * 501
    assert list(too_long("b.py", module, ast.parse(module))) == ["b.py: 501 lines"]
