"""What a user of the package meets: the names, and what importing them costs."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from types import ModuleType

import pytest

import counterpoint
from package_source import parsed, sources, walk

HEAVY = ("fsspec", "google.protobuf", "jax", "numpy", "polars", "pyarrow")


def loaded_by(program: str) -> set[str]:
    """The modules that a fresh interpreter has loaded once it has run the program."""
    report = "; import json, sys; print(json.dumps(sorted(sys.modules)), file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", program + report], capture_output=True, text=True, check=True
    )
    return set(json.loads(done.stderr))


def test_the_public_names_are_sorted_and_complete() -> None:
    assert counterpoint.__all__ == sorted(counterpoint.__all__)
    missing = [name for name in counterpoint.__all__ if not hasattr(counterpoint, name)]
    assert missing == []
    public = {
        name
        for name, value in vars(counterpoint).items()
        if not name.startswith("_") and not isinstance(value, ModuleType)
    }
    assert public <= {*counterpoint.__all__, "annotations", "TYPE_CHECKING"}


@pytest.mark.parametrize(
    "program",
    [
        "import counterpoint",
        "import counterpoint.cli.run",  # while a program runs, which may need the memory
    ],
)
def test_starting_loads_nothing_heavy(program: str) -> None:
    assert loaded_by(program).isdisjoint(HEAVY)


def test_the_check_of_loaded_modules_sees_a_heavy_one() -> None:
    assert "numpy" in loaded_by("import counterpoint.core.columns")


def frozen_dataclasses(tree: ast.Module) -> list[str]:
    """The classes whose frozen data the standard decorator makes, which costs ten times as much."""
    return [
        node.name
        for node in walk(tree)
        if isinstance(node, ast.ClassDef)
        for decorator in node.decorator_list
        if isinstance(decorator, ast.Call)
        and ast.unparse(decorator.func).endswith("dataclass")
        and any(keyword.arg == "frozen" for keyword in decorator.keywords)
    ]


def test_frozen_data_is_declared_by_the_decorator_that_loads_fast() -> None:
    found = {str(path): names for path in sources() if (names := frozen_dataclasses(parsed(path)))}
    assert found == {}, "use counterpoint.core.frozen: docs/decisions/0018-frozen-data.md"


def test_a_frozen_dataclass_is_found() -> None:
    assert frozen_dataclasses(ast.parse("@dataclass(frozen=True)\nclass A:\n    x: int\n")) == ["A"]
