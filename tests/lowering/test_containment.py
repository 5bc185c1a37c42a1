"""What an emulated program writes, in whatever language, does not reach the user's files."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from counterpoint.core.errors import InputError
from counterpoint.lowering import lower_command
from counterpoint.lowering.containment import LAYER
from counterpoint.lowering.result import Lowering

pytestmark = pytest.mark.system

if importlib.util.find_spec("jax") is None:
    pytest.skip("JAX is not installed", allow_module_level=True)

STEP = """
import os, subprocess, sys
import jax, jax.numpy as jnp
init = jax.jit(lambda key: jax.random.normal(key, (16384, 8192)))
w = init(jax.random.key(0))  # zeros: too large to be run
step = jax.jit(lambda w, x: w - jax.grad(lambda w: jnp.mean((x @ w) ** 2))(w), donate_argnums=0)
"""
LAST = "step(w, jnp.ones((8, 16384)))\n"
CHILD = """
subprocess.run("dd if=/dev/zero of=checkpoint/latest bs=64 count=1 2> /dev/null;"
               "cp checkpoint/latest checkpoint/new; rm checkpoint/old", shell=True, check=True)
print(sorted(os.listdir("checkpoint")), os.path.getsize("checkpoint/latest"), flush=True)
"""
ORBAX = """
import orbax.checkpoint as ocp
manager = ocp.CheckpointManager(os.path.abspath("checkpoint"))
manager.save(manager.latest_step() + 1, args=ocp.args.StandardSave({"w": w[:64]}))
manager.wait_until_finished()
print("latest", manager.latest_step(), flush=True)
"""
REAL = """
import os
import jax.numpy as jnp, orbax.checkpoint as ocp
manager = ocp.CheckpointManager(os.path.abspath("checkpoint"))
manager.save(7, args=ocp.args.StandardSave({"w": jnp.ones((64, 64))}))
manager.wait_until_finished()
"""
ON_LAYER = "ran on a temporary layer over your files (overlayfs)"
GUARDED = "your files were protected only from Python's own writes"


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith(("XLA_", "JAX_"))]:
        monkeypatch.delenv(name)
    Path("checkpoint").mkdir()
    for name in ("latest", "old"):
        Path("checkpoint", name).write_text("precious\n")


def lower(script: str, *, before: Sequence[str] = (), contain: bool = True) -> Lowering:
    Path("train.py").write_text(script)
    command = [*before, sys.executable, "train.py"]
    return lower_command(command, devices=1, directory=Path("lowered"), contain=contain)


def checkpoint() -> dict[str, str]:
    return {path.name: path.read_text() for path in Path("checkpoint").iterdir()}


PRECIOUS = {"latest": "precious\n", "old": "precious\n"}


@pytest.mark.smoke
def test_other_programs_that_a_program_starts_write_to_a_layer_that_is_thrown_away() -> None:
    found = lower(STEP + CHILD + LAST)

    (note,) = (note for note in found.notes if "your files" in note)
    if GUARDED in note:
        pytest.skip(f"no layer: {note}")
    assert note.startswith(f"the program {ON_LAYER}; ")
    assert str(Path("checkpoint/latest").absolute()) in note
    assert Path("lowered/stdout").read_text() == "['latest', 'new'] 64\n"  # it saw what it wrote
    assert checkpoint() == PRECIOUS
    assert not Path("lowered", LAYER).exists()


def test_without_privileges_it_is_a_layer_of_the_user() -> None:
    setpriv = shutil.which("setpriv")
    if os.geteuid() != 0 or setpriv is None:
        pytest.skip("there are no privileges to drop")
    Path("train.py").write_text(STEP + CHILD + LAST)
    ours = (
        "import sys; from pathlib import Path; from counterpoint.lowering import lower_command;"
        "print(*lower_command([sys.executable, 'train.py'], devices=1,"
        " directory=Path('lowered')).notes)"
    )
    done = subprocess.run(
        [setpriv, "--bounding-set=-sys_admin", sys.executable, "-c", ours],
        capture_output=True,
        text=True,
        check=True,
    )
    if "Operation not permitted" in done.stdout:
        pytest.skip(f"no user namespaces: {done.stdout}")
    assert ON_LAYER in done.stdout
    assert checkpoint() == PRECIOUS


def test_without_a_layer_the_guard_in_python_stays_and_the_reason_is_given() -> None:
    Path("lowered").mkdir()
    Path("lowered", LAYER).write_text("in the way\n")
    saved = "open('checkpoint/latest', 'w').write('zeros')\n"

    found = lower(STEP + saved + LAST)

    (note,) = (note for note in found.notes if GUARDED in note)
    assert f"{LAYER}: File exists" in note
    assert any(note.startswith("not changed") for note in found.notes)
    assert checkpoint() == PRECIOUS


def test_a_program_that_fails_of_the_layer_runs_again_without() -> None:
    shared = (
        "if 'upperdir' in open('/proc/self/mountinfo').read():\n"
        "    raise SystemExit('OSError: [Errno 75] Value too large for defined data type')\n"
    )
    found = lower(STEP + shared + LAST)

    assert any("Value too large" in note for note in found.notes) or any(
        GUARDED in note for note in found.notes
    )


def test_a_directory_that_a_layer_can_not_rename_stays() -> None:
    found = lower(STEP + "os.rename('checkpoint', 'checkpoint.old')\n" + LAST)

    assert checkpoint() == PRECIOUS
    assert not Path("checkpoint.old").exists()
    assert any(words in note for note in found.notes for words in (ON_LAYER, GUARDED))


def test_a_program_that_fails_otherwise_fails_once() -> None:
    once = "print('ran', flush=True)\nraise SystemExit('broken')\n"

    with pytest.raises(InputError, match="broken"):
        lower(STEP + once)

    assert Path("lowered/stdout").read_text() == "ran\n"


@pytest.mark.parametrize("contain", [True, False], ids=["layer", "guard"])
def test_a_checkpoint_of_orbax_does_not_become_the_latest(contain: bool) -> None:
    """Its files are written by C++: the guard does not see them, the layer does."""
    if importlib.util.find_spec("orbax") is None:
        pytest.skip("orbax-checkpoint is not installed")
    shutil.rmtree("checkpoint")
    subprocess.run(
        [sys.executable, "-c", REAL], check=True, env={**os.environ, "JAX_PLATFORMS": "cpu"}
    )
    found = lower(STEP + ORBAX + LAST, contain=contain)

    assert Path("lowered/stdout").read_text() == "latest 8\n"
    on_layer = any(ON_LAYER in note for note in found.notes)
    steps = sorted(path.name for path in Path("checkpoint").iterdir())
    assert steps == (["7"] if on_layer else ["7", "8"])
