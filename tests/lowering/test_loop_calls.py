"""A step is an iteration of the loop: what its functions are, and what they leave in memory."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest

import loop_scripts as loops
from counterpoint.compile.inputs.workload import load_workload
from counterpoint.lowering import lower_command
from counterpoint.lowering.result import Lowering

pytestmark = pytest.mark.system

WEIGHTS = 2 * 64 * 64 * 4
"""Bytes of one network."""


RESHARDED = f"""{loops.BEGIN}
mesh = jax.sharding.Mesh(np.array(jax.devices()), ("d",))
rows = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("d"))
@jax.jit
def train_step(w, x):
    return jax.tree.map(lambda a, b: a - 0.01 * b, w, jax.grad(loss)(w, x))
w = weights(0)
for turn in range(20):
    w = train_step(w, jax.device_put(batch(turn), rows))
"""
"""Its first call gets weights that are not on the mesh."""


def lower(directory: Path, script: str, devices: int = 1, program: str | None = None) -> Lowering:
    path = directory / "train.py"
    path.write_text(script)
    return lower_command(
        [sys.executable, str(path)],
        devices=devices,
        directory=directory / "lowered",
        program=program,
        timeout_s=120,
    )


def runs(found: Lowering) -> dict[str, int]:
    return dict(Counter(found.cycle[number].name.removeprefix("jit_") for number in found.order))


CYCLES: dict[str, tuple[str, dict[str, int]]] = {
    "accumulation": (
        f"TURNS = 20\n{loops.ACCUMULATION}",
        {"grad_fn": 4, "accum": 3, "apply_fn": 1},
    ),
    "two iterations": (
        f"TURNS = 2\n{loops.ACCUMULATION}",
        {"grad_fn": 4, "accum": 3, "apply_fn": 1},
    ),
    "two networks": (f"CRITICS = 1\n{loops.NETWORKS}", {"d_step": 1, "g_step": 1}),
    "five critics": (f"CRITICS = 5\n{loops.NETWORKS}", {"d_step": 5, "g_step": 1}),
    "a helper": (loops.plain(augment=True), {"augment": 1, "train_step": 1}),
    "plain": (loops.plain(), {}),
    "evaluation and average": (loops.plain(every=5), {}),
    "a last batch": (loops.plain(last=True), {}),
    "an eager sum": (
        loops.EAGER_SUM.replace("STOP", "turn > 20"),
        {"grad_fn": 4, "add": 6, "apply_fn": 1},
    ),
    "an eager average": (
        loops.plain()
        .replace("    if EVERY", "    e = [0.9 * a + 0.1 * b for a, b in zip(e, w)]\n    if EVERY")
        .replace("SIZE = 64", "SIZE = 512"),
        {"train_step": 1, "multiply": 4, "add": 2},
    ),
    "an eager update": (loops.EAGER, {"grads": 1, "multiply": 2, "subtract": 2}),
}


@pytest.mark.smoke
@pytest.mark.parametrize(("script", "expected"), CYCLES.values(), ids=CYCLES)
def test_the_functions_of_an_iteration_are_those_of_the_loop(
    tmp_path: Path, script: str, expected: dict[str, int]
) -> None:
    found = lower(tmp_path, script)

    assert runs(found) == expected
    assert not any("leaves out" in note for note in found.notes)
    for function in found.cycle:
        assert load_workload(function.directory, function.name).name == function.name


def test_an_iteration_begins_with_its_first_gradient(tmp_path: Path) -> None:
    found = lower(tmp_path, f"TURNS = 20\n{loops.ACCUMULATION}")
    order = [found.cycle[number].name for number in found.order]
    assert order[:3] == ["jit_grad_fn", "jit_grad_fn", "jit_accum"]
    assert order[-1] == "jit_apply_fn"


def test_what_stays_alive_beside_a_function_is_measured(tmp_path: Path) -> None:
    """Beside a gradient: momentum, the sum, and the gradient before it."""
    found = lower(tmp_path, f"TURNS = 40\n{loops.ACCUMULATION}")
    alive = {function.name: function.alive_bytes for function in found.cycle}
    assert alive["jit_grad_fn"] is not None
    assert 2 * WEIGHTS <= alive["jit_grad_fn"] <= 3.5 * WEIGHTS
    assert alive["jit_apply_fn"] is not None
    assert alive["jit_apply_fn"] <= 1.5 * WEIGHTS


def test_a_program_that_stands_still_for_a_while_is_waited_for(tmp_path: Path) -> None:
    """As one does whose machine does other things: it worked for a moment, however late it is."""
    stands_still = (
        "        if turn == 0 and part == 2:\n"
        "            import os, signal, subprocess\n"
        '            subprocess.Popen(["sh", "-c", f"sleep 8; kill -CONT {os.getpid()}"])\n'
        "            os.kill(os.getpid(), signal.SIGSTOP)\n"
    )
    loop = f"TURNS = 20\n{loops.ACCUMULATION}"
    found = lower(tmp_path, loop.replace("        value, d", f"{stands_still}        value, d"))
    assert runs(found) == {"grad_fn": 4, "accum": 3, "apply_fn": 1}


def test_one_iteration_shows_no_cycle(tmp_path: Path) -> None:
    found = lower(tmp_path, f"TURNS = 1\n{loops.ACCUMULATION}")
    assert found.cycle == ()
    assert any("which this prediction of jit_grad_fn leaves out" in note for note in found.notes)


@pytest.mark.parametrize(
    ("script", "told"),
    [
        (loops.plain(every=5), "no part of the step: jit_average, jit_evaluate"),
        (loops.plain(last=True), "jit_train_step is lowered for several shapes"),
        (loops.EAGER, "each operation to a program of its own: 2 x jit_multiply, 2 x jit_subtract"),
    ],
    ids=["evaluation", "shapes", "eager update"],
)
def test_what_is_no_part_of_the_step_is_told(tmp_path: Path, script: str, told: str) -> None:
    assert any(told in note for note in lower(tmp_path, script).notes)


@pytest.mark.parametrize(
    "stop",
    [
        "float(value) < 1e-6",
        "value < 1e-6",
        "float(value) < 1e-6 or not np.isfinite(float(jnp.log(value)))",
    ],
)
def test_a_loop_that_ends_when_the_loss_is_small_goes_on(tmp_path: Path, stop: str) -> None:
    """A loss of zero would end it in its first iteration."""
    found = lower(tmp_path, loops.EAGER_SUM.replace("STOP", stop))
    assert runs(found) == {"grad_fn": 4, "add": 6, "apply_fn": 1}


def test_of_a_single_iteration_no_function_is_taken_for_the_whole(tmp_path: Path) -> None:
    once = loops.NETWORKS.replace("range(20)", "range(1)")
    found = lower(tmp_path, f"CRITICS = 3\n{once}")
    assert found.cycle == ()
    note = next(note for note in found.notes if "jit_g_step" in note)
    assert "no iteration was seen to repeat before the program ended" in note


@pytest.mark.parametrize(
    ("both", "expected"), [(False, {}), (True, {"shift": 1, "solve": 1})], ids=["one", "two"]
)
def test_a_loop_without_a_backward_pass_is_ended(
    tmp_path: Path, both: bool, expected: dict[str, int]
) -> None:
    found = lower(tmp_path, f"TURNS, BOTH = 10**9, {both}\n{loops.UNTRAINED}")
    assert found.name == "jit_solve"
    assert runs(found) == expected
    assert any("jit_solve has no backward pass, and was called" in note for note in found.notes)


def test_training_may_begin_after_much_else(tmp_path: Path) -> None:
    """As the steps of a game do that fill a buffer."""
    script = f"TURNS, BOTH = 2000, False\n{loops.UNTRAINED}\n{loops.plain()}"
    assert lower(tmp_path, script).name == "jit_train_step"


def test_a_short_program_without_a_backward_pass_has_its_iteration(tmp_path: Path) -> None:
    found = lower(tmp_path, f"TURNS, BOTH = 5, True\n{loops.UNTRAINED}")
    assert runs(found) == {"shift": 1, "solve": 1}
    assert not any("no backward pass" in note for note in found.notes)


def test_functions_of_jax_that_every_iteration_calls_are_named_with_their_counts(
    tmp_path: Path,
) -> None:
    """A profile counts them as part of the step."""
    found = lower(tmp_path, loops.HELPERS)
    (note,) = (note for note in found.notes if "JAX's own" in note)
    assert "2 x jit_add" in note
    assert "exp" not in note
    assert " 2 MiB" in note
    assert found.cycle == ()


def test_too_many_operations_are_left_out_and_counted(tmp_path: Path) -> None:
    """Each slice has another shape, and is another program."""
    script = loops.EAGER.replace(
        "w = [a - 0.01 * b for a, b in zip(w, g)]",
        "w = [a - sum(b[:n].sum() for n in range(1, 64)) for a, b in zip(w, g)]",
    )
    found = lower(tmp_path, script)
    assert found.cycle == ()
    (note,) = (note for note in found.notes if "JAX's own" in note)
    assert "126 x jit_add" in note
    assert "which are left out" in note


def test_a_batch_that_one_device_makes_is_no_program_of_all(tmp_path: Path) -> None:
    script = f"""{loops.BEGIN}
from jax.sharding import AxisType, NamedSharding, PartitionSpec
mesh = jax.make_mesh((jax.device_count(),), ("data",), axis_types=(AxisType.Auto,))
sharded = NamedSharding(mesh, PartitionSpec("data"))

@jax.jit
def train_step(w, x):
    value, g = jax.value_and_grad(loss)(w, x)
    return [a - 0.01 * b for a, b in zip(w, g)], value

w = weights(0)
for turn in range(20):
    x = jax.random.normal(jax.random.key(turn), (8192, SIZE))  # 2 MiB
    w, value = train_step(w, jax.device_put(x, sharded))
"""
    found = lower(tmp_path, script, devices=8)
    assert found.cycle == ()
    assert found.name == "jit_train_step"


def test_a_step_without_helpers_names_none(tmp_path: Path) -> None:
    assert not any("JAX's own" in note for note in lower(tmp_path, loops.plain()).notes)


EPOCHS = f"""{loops.BEGIN}
@jax.jit
def training_epoch(w, xs):
    def update(w, x):
        value, g = jax.value_and_grad(loss)(w, x)
        return jax.tree.map(lambda a, b: a - 0.01 * b, w, g), value
    return jax.lax.scan(update, w, xs)
w = weights(0)
for size in [3] + [7] * 8:
    w, value = training_epoch(w, np.ones((size, 16, SIZE), "float32"))
    print(float(value.mean()))
"""


@pytest.mark.parametrize("program", [None, "training_epoch"])
def test_of_two_shapes_of_a_function_the_one_that_is_called_most_is_the_step(
    tmp_path: Path, program: str | None
) -> None:
    found = lower(tmp_path, EPOCHS, program=program)

    text = load_workload(found.directory, found.name).program
    assert b"7x16x64" in text
    assert b"3x16x64" not in text
    assert [note for note in found.notes if "several shapes" in note]


@pytest.mark.parametrize("program", [None, "train_step"])
def test_the_step_is_lowered_as_later_calls_run_it(tmp_path: Path, program: str | None) -> None:
    found = lower(tmp_path, RESHARDED, devices=2, program=program)
    assert not any("several shapes" in note for note in found.notes)
    (note,) = (note for note in found.notes if "lowered twice" in note)
    assert note.startswith("jit_train_step is lowered twice: its first call gets arrays with other")
    text = load_workload(found.directory, found.name).program.decode()
    (main,) = (line for line in text.splitlines() if " @main(" in line)
    arguments = main.partition(") -> ")[0]
    assert arguments.count("sdy.sharding = ") == 3  # both weights, and the batch


def test_a_function_that_is_named_is_the_step_alone(tmp_path: Path) -> None:
    found = lower(tmp_path, f"TURNS = 20\n{loops.ACCUMULATION}", program="apply_fn")
    assert found.name == "jit_apply_fn"
    assert found.cycle == ()
    assert not any("grad_fn" in note for note in found.notes)
