"""What a workload needs beside JAX is read from its source, and held to the versions installed."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from counterpoint.core import UsageError
from counterpoint.workflow.upgrade.packages import (
    FOR_FUNCTIONS,
    NO_PACKAGES,
    packages_of_command,
    packages_of_function,
)

RICH = f"rich=={metadata.version('rich')}"
YAML = f"pyyaml=={metadata.version('pyyaml')}"


def test_packages_are_those_that_the_file_and_its_neighbors_import(tmp_path: Path) -> None:
    (tmp_path / "step.py").write_text("import jax\nfrom model import layers\nimport os, numpy\n")
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "__init__.py").write_text("")
    (tmp_path / "model" / "layers.py").write_text(
        "from . import norm\n\ndef late():\n    import rich\n"
    )
    (tmp_path / "model" / "norm.py").write_text("import yaml\nimport not_installed_anywhere\n")
    found = packages_of_function("step.py:make_step", tmp_path)
    assert set(found.requirements) == {*FOR_FUNCTIONS, RICH, YAML}
    assert f"pygments=={metadata.version('pygments')}" in found.limits  # rich needs it
    assert not any(text.startswith(("jax", "numpy==", "scipy")) for text in found.limits)


@pytest.mark.parametrize(
    "words",
    [["train.py"], ["-u", "train.py", "--steps=1"], ["-X", "dev", "train.py"], ["-m", "train"]],
)
def test_packages_of_a_command_are_those_of_its_script_or_module(
    words: list[str], tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text("import rich\n")
    found = packages_of_command([sys.executable, *words], tmp_path)
    assert RICH in found.requirements
    assert found.origin == sys.executable


def test_a_script_with_a_first_line_for_python_is_read_and_another_program_is_not(
    tmp_path: Path,
) -> None:
    script = tmp_path / "train"
    script.write_text(f"#!{sys.executable}\nimport rich\n")
    script.chmod(0o755)
    assert RICH in packages_of_command([str(script)], tmp_path).requirements
    assert packages_of_command(["sh", "-c", "true"], tmp_path) == NO_PACKAGES


def test_a_file_that_is_no_python_needs_nothing(tmp_path: Path) -> None:
    (tmp_path / "step.py").write_text("def broken(:\n")
    assert packages_of_function("step.py:f", tmp_path).requirements == FOR_FUNCTIONS


def test_a_given_requirement_takes_the_place_of_the_installed_version(tmp_path: Path) -> None:
    (tmp_path / "step.py").write_text("import rich, yaml\n")
    found = packages_of_function("step.py:f", tmp_path)
    assert set(found.having(["Rich<14", "optax"]).requirements) == {
        *FOR_FUNCTIONS,
        "Rich<14",
        YAML,
        "optax",
    }
    assert "pygments<3" in found.having(["pygments<3"]).requirements
    assert not any(it.startswith("pygments") for it in found.having(["pygments<3"]).limits)


def test_what_is_no_requirement_is_refused() -> None:
    with pytest.raises(UsageError, match=r"--with 'flax 0\.12'"):
        NO_PACKAGES.having(["flax 0.12"])


def test_what_was_found_can_be_imported_by_this_python() -> None:
    """The modules that lower a function import nothing beyond what their environment gets."""
    code = (
        "import sys, counterpoint.compile.inputs.function_worker\n"
        "print(*{name.partition('.')[0] for name in sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split()) - set(sys.stdlib_module_names)
    others = {"google", "msgspec", "numpy", "polars", "typing_extensions", "counterpoint"}
    assert {name for name in loaded if not name.startswith("_")} <= others
