"""The pipeline of the examples: what its blocks in order compute, and permutes that overlap."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from counterpoint.compile.compiler import compile_workload
from counterpoint.compile.inputs.workload import load_workload
from counterpoint.flags.lines.source import load_settings
from counterpoint.hardware.targets import parse_target
from counterpoint.hlo.model.program import Program, launched
from counterpoint.hlo.reader import read_program
from xla_compiler import why_none

pytestmark = pytest.mark.system

HERE: Final = Path(__file__).parent
PIPELINE: Final = HERE.parents[1] / "examples" / "pipeline.py"
# Compiling is all that takes time here, so little is optimised.
QUICK: Final = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"


def run(*words: str | Path, fails: bool = False) -> str:
    """What a program in a process of its own prints, or the error that ends it."""
    done = subprocess.run(
        [sys.executable, *map(str, words)],
        env={**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": QUICK},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode != 0) == fails, done.stderr
    return done.stderr if fails else done.stdout


@pytest.mark.parametrize(
    "words",
    [
        ["--repeats=3", "--microbatches=5"],
        pytest.param(["--repeats=1", "--microbatches=2"], marks=pytest.mark.deep),
    ],
    ids=["three-rounds-and-no-slack", "one-round"],
)
def test_it_computes_what_its_blocks_in_order_do(words: list[str]) -> None:
    printed = run(PIPELINE, "--steps=2", *words)
    errors = [float(it) for it in re.findall(r": at most (\S+) from", printed)]
    assert len(errors) == 3  # the forward pass, and the gradients of two weights
    assert max(errors) < 1e-5
    losses = [float(it) for it in re.findall(r"loss (\S+)", printed)]
    assert losses == sorted(losses, reverse=True)


def test_too_few_micro_batches_are_refused() -> None:
    error = run(PIPELINE, "--microbatches=4", fails=True)
    assert error.startswith("error: 4 micro-batches ")
    assert " 4 stages " in error


def test_settings_that_make_no_step_are_refused_and_the_usual_ones_fit_every_ring() -> None:
    refused = {
        "width=0": "width=0: it is at least 1",
        "repeats=0": "repeats=0: it is at least 1",
        "dtype=foo": "dtype=foo: it is one of bfloat16,",
        "forward=perhaps": "forward=perhaps: it takes true or false",
        "stages=17": "17 stages need as many devices; there are 16",
    }
    answers = json.loads(run(HERE / "refused.py", "pipeline", "16", *refused, "rows=64"))
    assert "rows=64" not in answers
    assert [it for it in refused if not answers[it].startswith(refused[it])] == [], answers


@pytest.mark.skipif(why_none() is not None, reason=str(why_none()))
def test_the_recommended_flags_let_permutes_overlap_with_products(tmp_path: Path) -> None:
    lowered = tmp_path / "step.mlir"
    run(HERE / "lower.py", lowered, "pipeline", "4")
    workload, target = load_workload(lowered), parse_target("4xH100")
    cublas = {"xla_gpu_enable_triton_gemm": "false"}
    recipe = load_settings("pipeline-parallel").flags
    plain = compile_workload(workload, target, cublas)
    better = compile_workload(workload, target, {**recipe, **cublas})
    assert max(beside(read_program(plain.hlo))) == 0
    # One edge travels beside the first product of a block, the other beside the second.
    assert sum(1 for products in beside(read_program(better.hlo)) if products) >= 2


def beside(program: Program) -> Iterator[int]:
    """How many matrix products lie between the start and the end of each permute."""
    for computation in launched(program):
        open_: dict[str, int] = {}
        for instruction in computation.instructions:
            if instruction.opcode in ("collective-permute-start", "send"):
                open_[instruction.name] = 0
            elif instruction.opcode in ("collective-permute-done", "send-done"):
                yield open_.pop(instruction.operands[0])
            elif "matmul" in instruction.custom_call_target:
                open_ = {name: count + 1 for name, count in open_.items()}
