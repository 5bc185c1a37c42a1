"""A step by `explain`, without markers, is an iteration by the program's own clock."""

from __future__ import annotations

import json
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
