"""Other rooms import from a room's face alone, and no rooms form a circle.

A room is a package, and its face is the `__init__`. A room inside another room has a face of its
own. A room of one file is a module directly inside the outer room that lists its face in `__all__`.
"""

from __future__ import annotations

import ast
import importlib
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import package_source
from counterpoint.core import face
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


def imports(module: str) -> Iterator[tuple[str, str]]:
    """What a module imports of this package: from where, and which name."""
    for node in statements(tree(module)):
        if isinstance(node, ast.ImportFrom) and not node.level:
            if (node.module or "").split(".")[0] == PACKAGE:
                yield from ((node.module or "", alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.startswith(f"{PACKAGE}."):
                    yield alias.name, ""


def outer(module: str) -> str:
    """The outermost room that a module is in; none for the package itself."""
    return module.split(".")[1] if "." in module else ""


def public_names(room: str) -> set[str]:
    """The names that a room's `__init__` defines or passes on."""
    found: set[str] = set()
    for node in statements(tree(room)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PACKAGE):
            found |= {alias.name for alias in node.names if alias.asname == alias.name}
    for node in tree(room).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {target.id for target in targets if isinstance(target, ast.Name)}
    return {name for name in found if not name.startswith("_")}


@cache
def faced() -> list[str]:
    """Each module that other outermost rooms may import from; none is parsed to find them."""
    listing = {
        module
        for module, path in modules().items()
        if module.count(".") == 2 and "\n__all__ = " in sources()[path]
    }
    return sorted({*rooms(), *listing} - {PACKAGE})


def listed_names(module: str) -> set[str]:
    """What a module lists in `__all__`."""
    (listed,) = (
        node.value
        for node in tree(module).body
        if isinstance(node, ast.Assign)
        and any(isinstance(it, ast.Name) and it.id == "__all__" for it in node.targets)
    )
    return set(ast.literal_eval(listed))


@cache
def faces() -> dict[str, set[str]]:
    """The names of each."""
    return {it: public_names(it) if it in rooms() else listed_names(it) for it in faced()}


def test_other_rooms_are_imported_through_their_faces() -> None:
    deep = [
        f"{module}: from {home} import {name}"
        for module in modules()
        for home, name in imports(module)
        if outer(home) and outer(home) != outer(module) and home != PACKAGE
        if name not in faces().get(home, set()) and f"{home}.{name}" not in faces()
    ]
    assert deep == [], "import from a package, or from a module in a room that has `__all__`"


@pytest.mark.parametrize("room", faced())
def test_a_face_says_what_the_room_does(room: str) -> None:
    assert ast.get_docstring(tree(room)) or room == f"{PACKAGE}.core.injection.site"


@pytest.mark.parametrize("room", rooms())
def test_a_face_passes_on_what_type_checkers_see(room: str) -> None:
    at_once = set(vars(importlib.import_module(room)))
    assert public_names(room) <= at_once | set(face._HOMES.get(room, ()))


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
