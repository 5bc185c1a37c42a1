"""A step by `explain`, without markers, is an iteration by the program's own clock."""

from __future__ import annotations

import json
import re
import sys
from itertools import pairwise
from pathlib import Path
from statistics import median

import pytest

import loop_scripts as loops
from command_line import in_process

pytestmark = pytest.mark.system

TIMED = """
import atexit, json, time
SLEEP, begun = 0.02, []
def turn_begins():
    begun.append(time.perf_counter())
atexit.register(lambda: open("clock.json", "w").write(json.dumps(begun)))
"""


def timed(script: str, loop: str, call: str) -> str:
    """The script with a clock at the beginning of each turn, and a pause at each call."""
    assert loop in script
    assert call in script
    return TIMED + script.replace(loop, f"{loop}\n    turn_begins()").replace(
        call, f"time.sleep(SLEEP); {call}"
    )


EAGER = """
import jax.numpy as jnp
w = jnp.ones((300, 300))
for turn in range(30):
    h = jnp.tanh(w @ w)
    h = h / jnp.sum(h)
    w = w - 0.1 * h
    w.block_until_ready()
"""
LOOPS = {
    "accumulation": (
        "TURNS = 40\n"
        + timed(
            loops.ACCUMULATION, "for turn in range(TURNS):", "value, d = grad_fn(w, batch(part))"
        ),
        {"jit_grad_fn": 4, "jit_accum": 3, "jit_apply_fn": 1},
    ),
    "five critics": (
        "CRITICS = 5\n"
        + timed(
            loops.NETWORKS,
            "for turn in range(20):",
            "d = d_step(d, g, batch(turn), batch(turn + 1))",
        ),
        {"jit_d_step": 5, "jit_g_step": 1},
    ),
    "shapes": (
        timed(
            loops.SHAPES.replace("range(20)", "range(60)"),
            "for turn in range(60):",
            "w, value = train_step(w, batch(turn, SIZE if turn % 2 else 16))",
        ),
        {"jit_train_step": 1},
    ),
    "evaluation": (
        timed(
            loops.plain(every=10),
            "for turn in range(20):",
            "w, value = train_step(w, augment(x) if AUGMENT else x)",
        ),
        {"jit_train_step": 1},
    ),
}


@pytest.mark.parametrize(("script", "programs"), LOOPS.values(), ids=LOOPS)
def test_a_step_is_an_iteration_of_the_loop(
    tmp_path: Path, script: str, programs: dict[str, int]
) -> None:
    (tmp_path / "train.py").write_text(script)
    ran = in_process("run", "-o", "kept", "--", sys.executable, "train.py", cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    begun = json.loads((tmp_path / "clock.json").read_text())
    found = json.loads(in_process("explain", "kept", "--json", cwd=tmp_path).stdout)

    own = median(after - before for before, after in pairwise(begun[3:]))
    assert found["steps"]["median_ms"] == pytest.approx(own * 1e3, rel=0.15)
    parts = {it["name"]: it["runs_per_step"] for it in found["programs"] if it["runs_per_step"]}
    assert {name: parts.get(name) for name in programs} == programs


def test_the_programs_of_a_step_are_in_their_order_and_add_up(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(EAGER)
    words = ("run", "-o", "kept", "--profile-start-step", "0", "--", sys.executable, "train.py")
    assert in_process(*words, cwd=tmp_path).returncode == 0
    found = json.loads(in_process("explain", "kept", "--json", cwd=tmp_path).stdout)
    parts = [it for it in found["programs"] if it["runs_per_step"]]
    spent = sum(it["step_ms"] for it in parts)
    main = [it for it in parts if it["step_ms"] >= 0.01 * spent]
    assert found["steps"]["execution_ms"] == pytest.approx(
        sum(it["step_ms"] for it in main), abs=1e-5
    )
    for part in main:
        own = sum(it["self_ms"] for it in found["ops"] if it["program"] == part["index"])
        assert own <= part["step_ms"] * 1.001
    order = [it["name"] for it in sorted(main, key=lambda it: it["place"])]
    called = ["jit_matmul", "jit_tanh", "jit__reduce_sum", "jit_true_divide", "jit_multiply"]
    assert [name for name in order if name in called] == [name for name in called if name in order]
    told = in_process("explain", "kept", cwd=tmp_path).stdout
    (line,) = re.findall(r"one step runs (.*?)\n\n", told, re.DOTALL)
    assert re.findall(r"jit_\w+", line) == order
    rule = found["steps"]["how"]
    assert [name for name in re.findall(r"jit_\w+", rule) if name in order] == order


def test_steps_of_several_shapes_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(loops.SHAPES)
    words = ("run", "-o", "kept", "--profile-start-step", "2", "--", sys.executable, "train.py")
    assert in_process(*words, cwd=tmp_path).returncode == 0
    found = json.loads(in_process("explain", "kept", "--json", cwd=tmp_path).stdout)
    builds = [it for it in found["programs"] if it["name"] == "jit_train_step"]
    (part,) = (it for it in builds if it["runs_per_step"])
    assert sorted(part["builds"]) == sorted(it["index"] for it in builds)
    assert found["steps"]["execution_ms"] == pytest.approx(part["step_ms"])
    (note,) = (note for note in found["notes"] if "by build" in note)
    assert note.startswith("median step by build of jit_train_step: ")
    told = in_process("explain", "kept", cwd=tmp_path).stdout
    assert f"{sum(it['executions'] for it in builds)} runs of 2 builds on each device" in told


def test_a_new_shape_now_and_then_is_a_step_too(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(loops.NEW_SHAPES)
    words = ("run", "-o", "kept", "--profile-start-step", "2", "--", sys.executable, "train.py")
    assert in_process(*words, cwd=tmp_path).returncode == 0
    found = json.loads(in_process("explain", "kept", "--json", cwd=tmp_path).stdout)
    builds = [it for it in found["programs"] if it["name"] == "jit_train_step"]
    assert len(builds) > 2
    (main,) = (it for it in builds if it["is_step"])
    assert main["executions"] == max(it["executions"] for it in builds)
    # all but the last, whose end is not recorded, and the profile's first
    assert found["steps"]["count"] == sum(it["executions"] for it in builds) - 2


def test_builds_with_weights_of_their_own_are_parts_of_one_step(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(loops.ONE_FUNCTION)
    words = ("run", "-o", "kept", "--profile-start-step", "2", "--", sys.executable, "train.py")
    assert in_process(*words, cwd=tmp_path).returncode == 0
    found = json.loads(in_process("explain", "kept", "--json", cwd=tmp_path).stdout)
    parts = [it for it in found["programs"] if it["runs_per_step"]]
    assert [it["name"] for it in parts] == ["jit_step", "jit_step"]
    assert sorted(it["place"] for it in parts) == [0, 1]


def test_functions_of_one_name_and_builds_within_a_step_are_no_news(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(loops.ANONYMOUS)
    words = ("run", "-o", "kept", "--profile-start-step", "2", "--", sys.executable, "train.py")
    assert in_process(*words, cwd=tmp_path).returncode == 0
    found = json.loads(in_process("explain", "kept", "--json", cwd=tmp_path).stdout)
    assert not [note for note in found["notes"] if "programs named" in note or "by build" in note]
    parts = {(it["name"], it["runs_per_step"]) for it in found["programs"] if it["runs_per_step"]}
    assert {("jit__lambda", 4), ("jit__lambda", 1), ("jit_add", 3), ("jit_add", 1)} <= parts


def evaluated(rows: int) -> str:
    """A loop with an evaluation of so many rows after every fifth turn."""
    script = loops.plain(every=5).replace("evaluate(w, batch(n))", f"evaluate(w, batch(n, {rows}))")
    assert str(rows) in script
    return script.replace("range(20)", "range(60)")


@pytest.mark.parametrize("rows", [64, 16384], ids=["light", "heavy"])
def test_an_evaluation_is_no_part_of_a_step_and_that_is_known(tmp_path: Path, rows: int) -> None:
    (tmp_path / "train.py").write_text(evaluated(rows))
    words = ("run", "-o", "kept", "--profile-steps", "60", "--", sys.executable, "train.py")
    assert in_process(*words, cwd=tmp_path).returncode == 0
    found = json.loads(in_process("explain", "kept", "--json", cwd=tmp_path).stdout)
    took = {it["name"]: it["device_ms"] for it in found["programs"]}
    assert (took["jit_evaluate"] > took["jit_train_step"]) is (rows > 64)
    assert [it["name"] for it in found["programs"] if it["is_step"]] == ["jit_train_step"]
    assert "jit_evaluate" not in found["steps"]["how"]
    told = in_process("explain", "kept", cwd=tmp_path).stdout
    assert "mark steps" not in told
    assert "% of device time" in told  # the evaluation is counted, without advice


def test_a_prediction_of_a_run_has_all_programs_of_its_step(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(f"TURNS = 40\n{loops.ACCUMULATION}")
    ran = in_process("run", "-o", "kept", "--", sys.executable, "train.py", cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    words = ("predict", "kept", "--target", "1xH100", "--json")
    whole = json.loads(in_process(*words, cwd=tmp_path).stdout)
    runs = {it["name"]: it["runs"] for it in whole["programs_of_step"]}
    assert runs == {"jit_grad_fn": 4, "jit_accum": 3, "jit_apply_fn": 1}

    (lost,) = (tmp_path / "kept").glob("rank0/ir/*jit_accum_compile.mlir")
    lost.unlink()
    rest = json.loads(in_process(*words, cwd=tmp_path).stdout)
    runs = {it["name"]: it["runs"] for it in rest["programs_of_step"]}
    assert runs == {"jit_grad_fn": 4, "jit_apply_fn": 1}
    (note,) = (note for note in rest["notes"] if "did not keep" in note)
    assert note == "the step takes longer: it also runs 3 x jit_accum, which the Run did not keep"
    alone = json.loads(in_process(*words, "--program", "jit_apply_fn", cwd=tmp_path).stdout)
    assert not alone["programs_of_step"]


def test_a_prediction_of_a_run_is_of_what_trains(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(evaluated(16384))
    words = ("run", "-o", "kept", "--profile-steps", "60", "--", sys.executable, "train.py")
    assert in_process(*words, cwd=tmp_path).returncode == 0
    words = ("predict", "kept", "--target", "1xH100", "--json")
    assert (
        json.loads(in_process(*words, cwd=tmp_path).stdout)["prediction"]["workload"]
        == "jit_train_step"
    )
