"""Who may import whom, and proof that the check can fail: docs/decisions/0001-rooms.md."""

from __future__ import annotations

import os
import re
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


@pytest.mark.system
def test_the_rooms_are_in_order() -> None:
    """As `make lint` says, too."""
    done = lint(CHECKOUT)
    assert done.returncode == 0, done.stdout + done.stderr


CORE = "core needs nothing but numpy and msgspec"
POLARS = "polars begins at the timeline"
WRONG = {
    "core/upward.py": ("import counterpoint.cli.app", ROOMS, "counterpoint.core.upward -> "),
    "cupboard/__init__.py": ("", ROOMS, "- counterpoint.cupboard\n"),
    "core/frames.py": ("import polars", CORE, "counterpoint.core.frames -> polars"),
    "hlo/frames.py": ("import polars", POLARS, "counterpoint.hlo.frames -> polars"),
    "hlo/spans.py": ("import counterpoint.timeline", ROOMS, "counterpoint.hlo.spans -> "),
    "timeline/table.py": ("import rich", TERMINAL, "counterpoint.timeline.table -> rich"),
    "timeline/model.py": ("import jax", JAX, "counterpoint.timeline.model -> jax"),
}
"""By module: a line that is wrong there, the contract it breaks, and how the place is named."""


@pytest.mark.smoke
def test_wrong_imports_are_found(tmp_path: Path) -> None:
    """All these lines at once."""
    shutil.copytree(CHECKOUT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("*.so"))
    shutil.copy(CHECKOUT / "pyproject.toml", tmp_path)
    for module, (line, _, _) in WRONG.items():
        wrong = tmp_path / "src" / "counterpoint" / module
        wrong.parent.mkdir(exist_ok=True)
        with wrong.open("a") as file:
            file.write(f"\n{line}\n")
    done = lint(tmp_path)
    assert done.returncode != 0
    findings = done.stdout.partition("Broken contracts")[2]
    parts = re.split(r"^(.+)\n-+\n$", findings, flags=re.MULTILINE)
    broken = dict(zip(parts[1::2], parts[2::2], strict=True))
    for _, contract, place in WRONG.values():
        assert place in broken[contract]
