"""A notebook is a workload: its code cells run in order, and what only IPython reads is named."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from command_line import in_process
from counterpoint.core.notebook import notebook_cells, notebook_command
from counterpoint.lowering import lower_command

CELLS = (
    "%matplotlib inline\n!pip install flax\nfound = !ls\nsize = 64\nif size:\n    %config X\n",
    "%%bash\nrm -rf data\n",
    '%%time\ntext = """\n%kept\n"""\nassert size == 64 and "%kept" in text\n',
    "rest = 7 \\\n% 4\nprint?\nassert rest == 3\n",
    "print('where', __name__, __file__)\ndisplay(size)",
)
TRAINING = """
import jax, jax.numpy as jnp
@jax.jit
def train_step(w, x):
    return w - jax.grad(lambda w: jnp.mean((x @ w) ** 2))(w)
w = train_step(jnp.ones((size, size)), jnp.ones((8, size)))
"""


def notebook(path: Path, *cells: str) -> Path:
    code = [{"cell_type": "code", "source": cell.splitlines(keepends=True)} for cell in cells]
    text = {"cell_type": "markdown", "source": "# Training\n%not code"}
    path.write_text(json.dumps({"cells": [text, *code], "nbformat": 4}))
    return path


def test_what_only_ipython_reads_is_left_out(tmp_path: Path) -> None:
    cells = notebook_cells(str(notebook(tmp_path / "a.ipynb", *CELLS)))

    assert [cell.number for cell in cells] == [2, 3, 4, 5, 6]
    assert [cell.left_out for cell in cells] == [
        ("%matplotlib inline", "!pip install flax", "found = !ls", "%config X"),
        ("%%bash",),
        ("%%time",),
        ("% 4", "print?"),
        (),
    ]


def test_a_notebook_is_run_and_says_what_it_left_out(tmp_path: Path) -> None:
    cells = (*CELLS[:3], CELLS[4])
    path = notebook(tmp_path / "train.ipynb", *cells)
    (tmp_path / "beside.py").write_text("value = 1\n")
    path = notebook(path, *cells, "import beside, os\nprint(os.getcwd())\n", "1 / 0")

    done = in_process("run", "-o", tmp_path / "recorded", path)

    assert done.returncode == 1
    assert f"where __main__ {path}" in done.stdout
    assert str(tmp_path) in done.stdout.splitlines()
    assert "not run, since only IPython reads them: %matplotlib inline (cell 2)" in done.stderr
    assert f"{path}:cell_7" in done.stderr


@pytest.mark.system
def test_the_step_of_a_notebook_is_lowered(tmp_path: Path) -> None:
    path = notebook(tmp_path / "train.ipynb", CELLS[0], TRAINING)
    _, *rest = notebook_command(str(path))

    found = lower_command([sys.executable, *rest], devices=1, directory=tmp_path / "lowered")

    assert found.name == "jit_train_step"


@pytest.mark.parametrize("content", ["no json", "[]", "{}", '{"cells": [1]}'])
def test_a_file_that_is_no_notebook_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "train.ipynb"
    path.write_text(content)

    done = in_process("run", path)

    assert done.returncode == 3
    assert "train.ipynb: not a notebook" in done.stderr


def test_a_prediction_names_the_notebook_as_it_was_typed(tmp_path: Path) -> None:
    notebook(tmp_path / "train.ipynb", "size = 64", TRAINING)

    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    words = ("predict", "--target", "1xH100", "train.ipynb")
    done = in_process(*words, cwd=tmp_path, environment={**os.environ, "PATH": path})

    assert done.returncode == 0, done.stderr
    assert "jit_train_step, from train.ipynb\n" in done.stdout
    assert done.stdout.endswith(" -- train.ipynb\n")
    assert "notebook.py" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        ("tune --dry-run -o study --arm xla_cpu_enable_fast_math=true -- train.ipynb", 0, ""),
        ("pgle manual --print-only -- train.ipynb", 0, "notebook.py train.ipynb"),
        ("upgrade --from 0.9.2 -- train.ipynb", 2, "use --target 8xH100"),
    ],
    ids=["tune", "pgle", "upgrade"],
)
def test_a_notebook_is_a_command_wherever_one_is_taken(
    tmp_path: Path, words: str, code: int, told: str
) -> None:
    notebook(tmp_path / "train.ipynb", CELLS[0], TRAINING)
    done = in_process(*words.split(), cwd=tmp_path)
    assert done.returncode == code, done.stderr
    assert told in done.stdout + done.stderr
    assert "train.ipynb: not run, since only IPython reads them: %matplotlib" in done.stderr


def test_what_is_no_notebook_is_refused_by_tune(tmp_path: Path) -> None:
    (tmp_path / "train.ipynb").write_text("[]")
    done = in_process("tune", "--", "train.ipynb", cwd=tmp_path)
    assert done.returncode == 3
    assert "train.ipynb: not a notebook" in done.stderr
