"""The package may have fewer lines of code, but never more."""

from __future__ import annotations

import ast
import re

from package_source import parsed, sources, walk

CODE_LINES = 95_500
"""Lower it by what you remove, and never raise it: a feature makes room for itself, or replaces one
(docs/decisions/0020-size.md).
"""
SLACK = 2_000
"""A removal that is larger than this has to lower the limit."""
UNFORMATTED = 40
"""Tables that the formatter leaves as they are; it keeps all other lines from being packed."""
_UNFORMATTED = re.compile(r"# fmt: (?:off|skip)")


def code_lines(source: str, tree: ast.Module) -> int:
    """Count the lines that are neither blank, nor a comment, nor part of a docstring."""
    documentation = {
        number
        for node in walk(tree)
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        for number in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    return sum(
        1
        for number, line in enumerate(source.splitlines(), 1)
        if line.strip() and not line.lstrip().startswith("#") and number not in documentation
    )


def test_the_package_does_not_grow_unnoticed() -> None:
    found = sum(code_lines(text, parsed(path)) for path, text in sources().items())
    assert found <= CODE_LINES, "remove as many lines of code as you add"
    assert found > CODE_LINES - SLACK, f"lower CODE_LINES to {found + SLACK // 2}"


def test_lines_are_not_packed_by_hand() -> None:
    """The formatter gives each statement its lines, but where it is told not to."""
    found = sum(len(_UNFORMATTED.findall(text)) for text in sources().values())
    assert found <= UNFORMATTED, "let the formatter write it"


def test_documentation_is_no_code() -> None:
    head = '"""A module.\n\nIt is."""\n\n# why\nx = """\ntext\n"""\n\n'
    source = head + 'def f():\n    """Do."""\n    return x\n'
    assert code_lines(source, ast.parse(source)) == 5
