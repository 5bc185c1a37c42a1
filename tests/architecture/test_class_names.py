"""A class name stands for one thing in the whole package."""

from __future__ import annotations

import ast
from collections import defaultdict

from package_source import PACKAGE, parsed, sources


def test_each_class_name_is_used_once() -> None:
    homes: dict[str, list[str]] = defaultdict(list)
    for path in sources():
        for node in parsed(path).body:
            if isinstance(node, ast.ClassDef):
                homes[node.name].append(str(path.relative_to(PACKAGE)))
    assert {name: files for name, files in homes.items() if len(files) > 1} == {}
