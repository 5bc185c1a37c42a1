"""The Llama of the examples: the same numbers however it is laid out, and a step that is lean."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from counterpoint.compile.compiler import compile_workload
from counterpoint.compile.inputs.workload import load_workload
from counterpoint.hardware.targets import parse_target
from counterpoint.hlo.collectives import collective
from counterpoint.hlo.model.program import launched
from counterpoint.hlo.reader import read_program
from xla_compiler import why_none

pytestmark = pytest.mark.system

HERE: Final = Path(__file__).parent
EXAMPLES: Final = HERE.parents[1] / "examples"
MIB: Final = 1 << 20
# Compiling is all that takes time here, so little is optimised.
QUICK: Final = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"

REFUSED: Final = {
    "size=9b": "size=9b: it is one of tiny, 100m, 1b,",
    "batches=2": "'batches' is no setting; there are layers,",
    "tensor=3": "data 1 x fsdp 2 x tensor 3 are not 8 devices",
    "mlp=foo": "mlp=foo: it is one of swiglu, gelu",
    "embedding=foo": "embedding=foo: it is one of lookup, onehot",
    "tied=perhaps": "tied=perhaps: it takes true or false",
    "layers=many": "layers=many: it takes a whole number",
    "heads=0": "heads=0: it is at least 1",
    "heads=7": "width=4096 heads=7 kv_heads=8: heads share the width",
    "remat=foo": "remat=foo: none, full,",
}


def run(*words: str | Path, given: str = "") -> str:
    """What a program in a process of its own prints; `given` is its stdin."""
    done = subprocess.run(
        [sys.executable, *map(str, words)],
        env={**os.environ, "XLA_FLAGS": QUICK},
        input=given,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_layout_and_policy_computes_the_same() -> None:
    found: dict[str, list[float]] = json.loads(run(HERE / "llama_numbers.py"))
    expected = found.pop("one device, recompute all")
    assert expected[1] < expected[0]
    for name, losses in found.items():
        assert losses == pytest.approx(expected, rel=1e-5), name


def test_it_trains_and_is_recorded(tmp_path: Path) -> None:
    printed = run(
        EXAMPLES / "llama.py",
        *("--size=tiny", "--layers=1", "--fsdp=4", "--tensor=2", "--steps=8", "--sequence=16"),
        *("--profile", tmp_path, "--profile-start=2", "--profile-steps=2"),
    )
    assert "on 8 devices" in printed
    losses = [float(it) for it in re.findall(r"loss (\S+)", printed)]
    assert len(losses) == 8
    assert losses[-1] < losses[0]
    assert list(tmp_path.rglob("*.xplane.pb"))


def test_what_can_not_be_trained_here_is_said() -> None:
    reasons = {
        "--fsdp=3": "data 1 x fsdp 3 x tensor 1 are not 8 devices",
        "--batch=0.5": "batch=0.5 on 8 devices is 4 sequences",
        "--devices=0": "--devices 0: at least one",
        "--mlp=foo": "invalid choice: 'foo' (choose from",
        "--attention=cudnn": "attention=cudnn runs on GPUs only",
    }
    told = json.loads(run(HERE / "refused_commands.py", "llama", given=json.dumps([*reasons])))
    assert [it for it in reasons if reasons[it] not in told.get(it, "")] == [], told


def test_settings_that_make_no_step_are_refused_in_words() -> None:
    refused = json.loads(run(HERE / "refused.py", "llama", "8", *REFUSED))
    assert [it for it in REFUSED if not refused[it].startswith(REFUSED[it])] == [], refused


@pytest.mark.skipif(why_none() is not None, reason=str(why_none()))
def test_seventy_billion_weights_gather_weights_and_scatter_gradients(tmp_path: Path) -> None:
    lowered = tmp_path / "step.mlir"
    words = ("llama", "64", "size=70b", "batch=2", "remat=save_dot_except_mlpwi")
    run(HERE / "lower.py", lowered, *words)
    compiled = compile_workload(load_workload(lowered), parse_target("8x8xH100"))
    program = read_program(compiled.hlo)
    moved = [
        (it.kind, it.bytes)
        for computation in launched(program)
        for instruction in computation.instructions
        if (it := collective(program, instruction)) is not None
    ]
    largest = {kind: max(size for it, size in moved if it == kind) for kind, _ in moved}
    assert set(largest) == {"all-gather", "reduce-scatter", "all-reduce"}
    assert largest["all-reduce"] < MIB  # of norms and losses
    # No more than all that a layer has, or the embedding and the logits: no activations.
    assert largest["all-gather"] < 2100 * MIB
    assert any(it.custom_call_target == "__cudnn$fmhaSoftmax" for it in program.instructions)
