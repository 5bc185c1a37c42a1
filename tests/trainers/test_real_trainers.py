"""Real trainers, run as their users do: steps are those of their own lines.

`tests/install_trainer.sh` installs them in a cache outside the checkout: `make trainers`, and for
MaxText and Tunix (with other frameworks) `make test-system`. Without that, these tests are skipped.
AXLearn needs a checkout of it: `make trainers AXLEARN_CHECKOUT=path`.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import counterpoint
from counterpoint.runs.reader import read_run
from installed_trainers import gpus, predicted, python_of

pytestmark = pytest.mark.system

MAXTEXT = """
    hardware=cpu attention=dot_product dataset_type=synthetic enable_checkpointing=false run_name=t
    base_output_directory=./out steps=24 base_emb_dim=256 base_num_query_heads=4
    base_num_kv_heads=4 base_mlp_dim=512 base_num_decoder_layers=4 head_dim=64
    per_device_batch_size=1 max_target_length=256 vocab_size=1024 log_config=false
    enable_goodput_recording=false monitor_goodput=false skip_jax_distributed_system=true
"""
AXLEARN = "text.gpt.c4_trainer --config=fuji-test-v1"
FILES = Path(__file__).parents[2] / "docs" / "trainers" / "files"
"""The scripts of the pages."""


def run(directory: Path, *command: str, last_step: int | None = None) -> str:
    variables = {
        "DECOUPLE_GCLOUD": "TRUE",
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": "--xla_force_host_platform_device_count=2",
    }
    ends = [] if last_step is None else [f"--stop-after-steps={last_step}"]
    words = [sys.executable, "-m", "counterpoint", "run", "-o", "run", *ends, "--", *command]
    done = subprocess.run(
        words,
        cwd=directory,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout + done.stderr


def mesh_axes(prediction: dict[str, Any]) -> set[str]:
    return {collective["kind"] for collective in prediction["collectives"]}


def test_maxtexts_step_is_predicted_for_sixteen_gpus(tmp_path: Path) -> None:
    words = [word for word in MAXTEXT.split() if not word.startswith("hardware=")]
    options = ["hardware=gpu", "ici_fsdp_parallelism=8", "dcn_data_parallelism=2"]
    program = [python_of("maxtext"), "-m", "maxtext.trainers.pre_train.train", *words, *options]

    found = predicted(tmp_path, *program, target=gpus(16))

    assert found["prediction"]["workload"] == "jit_train_step"
    assert found["prediction"]["devices"] == 16
    assert any("2 values of slice_index" in note for note in found["notes"])
    step = found["prediction"]
    assert step["tokens_per_s"] * step["step_ms"] / 1e3 == pytest.approx(16 * 1 * 256)
    assert "all-reduce" in " ".join(mesh_axes(found))


def test_tunixs_step_is_predicted(tmp_path: Path) -> None:
    found = predicted(tmp_path, python_of("frameworks"), str(FILES / "sft.py"))
    assert found["prediction"]["workload"] == "jit__train_step"
    assert found["collectives"]


@pytest.mark.parametrize(("script", "devices"), [("nnx_train.py", 1), ("eqx_train.py", 8)])
def test_a_plain_loop_is_predicted(tmp_path: Path, script: str, devices: int) -> None:
    found = predicted(tmp_path, python_of("frameworks"), str(FILES / script), target=gpus(devices))
    assert found["prediction"]["devices"] == devices
    assert bool(found["collectives"]) == (devices > 1)
    phases = found["phases"]
    assert phases["backward_ms"] > phases["forward_ms"] > 0


def test_levanters_flash_attention_is_counted_up_to_the_diagonal(tmp_path: Path) -> None:
    python = python_of("levanter")
    subprocess.run([python, str(FILES / "levanter_data.py")], cwd=tmp_path, check=True)
    (tmp_path / "nano.yaml").write_text((FILES / "nano.yaml").read_text())
    program = [python, "-m", "levanter.main.train_lm", "--config_path", "nano.yaml"]
    program += ["--model.attn_backend", "jax_flash", "--model.max_seq_len", "4096"]

    found = predicted(tmp_path, *program)  # which has no loop that is not counted

    inner = [op for op in found["ops"] if "do_inner_block" in (op["scope"] or "")]
    assert max(op["count"] for op in inner) >= 4 * (1 + 2 + 3 + 4)


def test_maxtexts_steps_take_what_it_prints(tmp_path: Path) -> None:
    program = [python_of("maxtext"), "-m", "maxtext.trainers.pre_train.train", *MAXTEXT.split()]
    printed = run(tmp_path, *program)
    # Its seconds have three decimals, too few for a short step; its rate is the same in full.
    lines = re.findall(r"completed step: (\d+), .*?Tokens/s/device: ([\d.]+)", printed)
    own = {int(step): 256 / float(rate) for step, rate in lines}
    assert sorted(own) == list(range(24))

    rank = read_run(tmp_path / "run").ranks[0]
    assert [start.step for start in rank.steps] == list(range(24))
    # MaxText's line N measures from the end of the annotation of step N-1 to that of N. Whole
    # stretches are compared, so that only their ends differ, also on a busy machine.
    assert sum(rank.step_seconds[15:23]) == pytest.approx(
        sum(own[step + 1] for step in range(15, 23)), rel=0.02
    )
    timeline = counterpoint.read(tmp_path / "run")
    # It waits for the loss of step N-2 in that time, so a device has run step N-2 meanwhile. Step 3
    # began before the profile, and the profile ended in the wait for step 12.
    runs = timeline.steps.filter(pl.col("step").is_between(4, 10), pl.col("device") == 0)
    profiled_s = sum((runs["end_ps"] - runs["start_ps"]).to_list()) / 1e12
    assert profiled_s == pytest.approx(sum(own[step + 2] for step in runs["step"]), rel=0.05)
    explanation = counterpoint.explain(timeline)
    assert "train" in timeline.step_rule
    assert explanation.steps.count >= 5
    assert explanation.phases is not None
    assert re.search(r"tokens   [\d,]+ per second, [\d,]+ on each device: 512 in a step", printed)


def test_levanters_steps_take_what_it_logs(tmp_path: Path) -> None:
    python = python_of("levanter")
    subprocess.run([python, str(FILES / "levanter_data.py")], cwd=tmp_path, check=True)
    (tmp_path / "nano.yaml").write_text((FILES / "nano.yaml").read_text())
    program = [python, "-m", "levanter.main.train_lm", "--config_path", "nano.yaml"]
    printed = run(tmp_path, *program, "--trainer.num_train_steps", "26")
    own: dict[int, float] = defaultdict(float)
    parts = ("duration", "hook_time", "loading_time")
    for step, metrics in re.findall(r'"log", "step": (\d+), "metrics": (\{[^{}]*\})', printed):
        logged = json.loads(metrics)
        own[int(step)] += sum(logged.get(f"throughput/{part}", 0) for part in parts)

    rank = read_run(tmp_path / "run").ranks[0]
    steps = range(15, 25)
    assert sum(rank.step_seconds[15:25]) == pytest.approx(
        sum(own[step] for step in steps), rel=0.02
    )
    timeline = counterpoint.read(tmp_path / "run")
    runs = timeline.steps.filter(pl.col("step").is_between(4, 7), pl.col("device") == 0)
    profiled_s = sum((runs["end_ps"] - runs["start_ps"]).to_list()) / 1e12
    assert len(runs) >= 3
    assert profiled_s == pytest.approx(sum(own[step] for step in runs["step"]), rel=0.02)


def test_tunixs_steps_are_found_by_their_markers(tmp_path: Path) -> None:
    run(tmp_path, python_of("frameworks"), str(FILES / "sft.py"))
    timeline = counterpoint.read(tmp_path / "run")
    explanation = counterpoint.explain(timeline)
    assert "train" in timeline.step_rule
    assert explanation.steps.count >= 5
    assert [program.name for program in explanation.programs if program.is_step] == [
        "jit__train_step"
    ]


def test_axlearns_steps_take_what_it_prints(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    program = [python_of("axlearn"), "-m", "axlearn.common.launch_trainer_main"]
    options = ["--trainer_dir=out", "--data_dir=FAKE", "--jax_backend=cpu"]
    every = "--trainer_log_every_n_steps=1"
    command = (*program, *f"--module={AXLEARN}".split(), *options, every)
    printed = run(tmp_path, *command, last_step=201)
    own = re.search(r"step +200\] Average step time: ([\d.]+) seconds", printed)
    assert own is not None

    rank = read_run(tmp_path / "run").ranks[0]
    assert [start.step for start in rank.steps[:200]] == list(range(1, 201))
    # It prints the mean of the last hundred, which the profile of early steps does not disturb.
    assert sum(rank.step_seconds[100:200]) / 100 == pytest.approx(float(own[1]), rel=0.02)
    explanation = counterpoint.explain(counterpoint.read(tmp_path / "run"))
    assert [program.name for program in explanation.programs if program.is_step] == [
        "jit__train_step"
    ]
    assert explanation.phases is not None


def test_axlearns_ahead_of_time_route_lowers_its_step(tmp_path: Path) -> None:
    """It calls `chex.set_n_cpu_devices` after it has seen devices."""
    program = [python_of("axlearn"), "-m", "axlearn.experiments.run_aot_compilation"]
    options = f"--module=axlearn.experiments.{AXLEARN} --topology=cpu-16".split()

    found = predicted(tmp_path, *program, *options, target=gpus(16), python=sys.executable)

    assert found["prediction"]["workload"] == "jit__train_step"
    scopes = {op["scope"] or "" for op in found["ops"]}
    assert any("transformer/repeat/layer" in scope for scope in scopes)
