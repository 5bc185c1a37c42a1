"""The list of what the emulator touches in JAX is true of this JAX, and complete."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import counterpoint.lowering
from counterpoint.core.errors import InputError
from counterpoint.lowering import lower_command
from counterpoint.lowering.emulator import jax_internals
from jax_process import ask_jax

EMULATOR = Path(counterpoint.lowering.__file__).parent / "emulator"
HOMES = {
    name: value
    for name, value in vars(jax_internals).items()
    if isinstance(value, str) and value.startswith(("jax._src", "jaxlib"))
}
ASK = """
import json, sys
sys.path.insert(0, sys.argv[1])
import jax, jax_internals
jax.config.update("jax_platforms", "cpu")
for name in sys.argv[2:]:
    home, _, attribute = name.rpartition(".")
    delattr(__import__("importlib").import_module(home), attribute)
options = [name for name, _ in jax_internals.OPTIONS if name not in jax.config.values]
public = [name for name in jax_internals.PUBLIC if not callable(__import__("operator").attrgetter(name)(jax))]
print(json.dumps([jax_internals.missing_internals(jax.__version__), options, public]))
"""  # noqa: E501


@pytest.mark.system
def test_this_jax_has_all_that_the_emulator_touches() -> None:
    assert ask_jax(ASK, EMULATOR) == [[], [], []]


@pytest.mark.system
def test_what_a_release_has_moved_is_named() -> None:
    gone = "jax._src.compiler.compile_or_get_cached"
    assert ask_jax(ASK, EMULATOR, gone)[0] == [gone]


def touched(source: str) -> Iterator[tuple[str, str]]:
    """Module and attribute, of each that a file takes from a module of the list."""
    tree = ast.parse(source)
    modules: dict[str, str] = {}
    for node in ast.walk(tree):
        value = getattr(node, "value", None)
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(value, ast.Call):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            argument = value.args[0] if value.args else None
            if isinstance(argument, ast.Attribute) and argument.attr in HOMES:
                modules[ast.unparse(target)] = HOMES[argument.attr]
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) in modules:
            yield modules[ast.unparse(node.value)], node.attr


def test_the_list_has_all_that_the_emulator_takes_from_jax() -> None:
    listed = {(one.home, one.name) for one in (*jax_internals.REPLACED, *jax_internals.USED)}
    found: set[tuple[str, str]] = set()
    for path in EMULATOR.glob("*.py"):
        if path.name == "jax_internals.py":
            continue
        source = path.read_text()
        strings = [it.value for it in ast.walk(ast.parse(source)) if isinstance(it, ast.Constant)]
        named = [
            it for it in strings if isinstance(it, str) and it.startswith(("jax._src", "jaxlib"))
        ]
        assert named == [], path.name
        found |= set(touched(source))
    assert len(found) > 15, "they are found"
    assert found - listed == set()


def test_a_program_with_a_jax_that_has_moved_them_is_ended_before_it_trains(tmp_path: Path) -> None:
    (tmp_path / "jax").mkdir()
    (tmp_path / "jax" / "__init__.py").write_text("__version__ = '0.99.0'\n")
    script = tmp_path / "train.py"
    script.write_text("import jax\nprint('trains')\n")

    with pytest.raises(InputError) as caught:
        lower_command([sys.executable, str(script)], devices=2, directory=tmp_path / "lowered")

    assert "jax 0.99.0 has no jax._src.interpreters.pxla" in str(caught.value)
    assert (tmp_path / "lowered" / "stdout").read_text() == ""
