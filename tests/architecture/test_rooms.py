"""Who may import whom, and proof that the check can fail: docs/decisions/0001-rooms.md."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
ROOMS = "A room imports only rooms below it"
TERMINAL = "What draws on a terminal stays in report and cli"
JAX = "Only what runs in the user's process or in a compiler's worker imports jax"
LINT = "import sys; from importlinter.cli import lint_imports;sys.exit(lint_imports(no_cache=True))"


def lint(directory: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", LINT],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(directory / "src")},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_rooms_are_in_order() -> None:
    done = lint(CHECKOUT)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("module", "line", "broken"),
    [
        ("core/upward.py", "import counterpoint.cli.app", f"{ROOMS} BROKEN"),
        ("cupboard/__init__.py", "", "cupboard"),
        ("core/frames.py", "import polars", "core needs nothing but numpy BROKEN"),
        ("hlo/frames.py", "import polars", "polars begins at the timeline BROKEN"),
        ("hlo/spans.py", "import counterpoint.timeline", f"{ROOMS} BROKEN"),
        ("timeline/table.py", "import rich", f"{TERMINAL} BROKEN"),
        ("timeline/device.py", "import jax", f"{JAX} BROKEN"),
    ],
)
def test_a_wrong_import_is_found(tmp_path: Path, module: str, line: str, broken: str) -> None:
    shutil.copytree(CHECKOUT / "src", tmp_path / "src")
    shutil.copy(CHECKOUT / "pyproject.toml", tmp_path)
    wrong = tmp_path / "src" / "counterpoint" / module
    wrong.parent.mkdir(exist_ok=True)
    with wrong.open("a") as file:
        file.write(f"\n{line}\n")

    done = lint(tmp_path)

    assert done.returncode != 0
    assert broken in done.stdout
