"""The source of the package, parsed once for all tests that hold it to a rule."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import counterpoint

PACKAGE = Path(counterpoint.__file__).parent


@cache
def sources() -> dict[Path, str]:
    """The text of each module, in the order of their paths."""
    return {path: path.read_text("utf-8") for path in sorted(PACKAGE.rglob("*.py"))}


@cache
def parsed(path: Path) -> ast.Module:
    """A module's tree, which nobody changes."""
    return ast.parse(sources()[path])


@cache
def walk(module: ast.Module) -> tuple[ast.AST, ...]:
    """All nodes of a module, collected once: `ast.walk` takes longer than parsing."""
    return tuple(ast.walk(module))


@cache
def statements(module: ast.Module) -> tuple[ast.AST, ...]:
    """All statements of a module, at any depth: imports are found without a look at expressions."""
    found: list[ast.AST] = [*module.body]
    for node in found:
        for part in ("body", "orelse", "finalbody", "handlers", "cases"):
            found += getattr(node, part, ())
    return tuple(found)
