"""Rooms (packages, and what lies side by side in one) do not import each other in a circle."""

from __future__ import annotations

import ast
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

import package_source
from package_source import parsed, sources, statements

SOURCE = package_source.PACKAGE.parent
PACKAGE = "counterpoint"


@cache
def modules() -> dict[str, Path]:
    """The file of each module and package."""
    found: dict[str, Path] = {}
    for path in sources():
        parts = path.relative_to(SOURCE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def tree(module: str) -> ast.Module:
    return parsed(modules()[module])


@cache
def rooms() -> list[str]:
    return sorted(name for name, path in modules().items() if path.name == "__init__.py")


@pytest.mark.parametrize("room", rooms())
def test_a_room_says_what_it_does(room: str) -> None:
    assert ast.get_docstring(tree(room)) or room == f"{PACKAGE}.core.injection.site"


def circles(links: dict[str, set[str]]) -> list[list[str]]:
    """The groups of nodes that reach each other."""

    def reached(start: str) -> set[str]:
        seen: set[str] = set()
        waiting = [start]
        while waiting:
            for target in links.get(waiting.pop(), set()) - seen:
                seen.add(target)
                waiting.append(target)
        return seen

    reach = {node: reached(node) for node in links}
    found = {
        tuple(sorted(other for other in reach[node] if node in reach.get(other, set())))
        for node in links
        if node in reach[node]
    }
    return [list(group) for group in sorted(found)]


@cache
def links() -> tuple[tuple[str, str], ...]:
    """Which module uses which: at import, later, or for types alone."""
    found: list[tuple[str, str]] = []
    for module in modules():
        for node in statements(tree(module)):
            if isinstance(node, ast.ImportFrom) and not node.level:
                for alias in node.names:
                    inner = f"{node.module}.{alias.name}"
                    target = inner if inner in modules() else node.module or ""
                    if target in modules() and target != module:
                        found.append((module, target))
    return tuple(found)


@pytest.mark.parametrize("room", rooms())
def test_what_lies_side_by_side_in_a_room_forms_no_circle(room: str) -> None:
    depth = room.count(".") + 2
    between: dict[str, set[str]] = defaultdict(set)
    for source, target in links():
        if source.startswith(f"{room}.") and target.startswith(f"{room}."):
            one, other = (".".join(name.split(".")[:depth]) for name in (source, target))
            if one != other:
                between[one].add(other)
    assert circles(dict(between)) == []


def test_a_circle_is_found() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == [["b", "c"]]
