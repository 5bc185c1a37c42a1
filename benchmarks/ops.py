"""Predict small programs of one kind of work each, beside the least time that any kernel needs.

    python benchmarks/ops.py [--target 1xH100] [NAME ...]

Each program has a bound, written by hand: the bytes that it must move at the memory's data sheet
rate, and the operations that it must do at the peak of their type. A price below it is wrong
whatever the kernel. How far above it a real kernel is depends on its kind; `within` is a generous
limit for work that libraries do well, and more for what indices or a chain of steps decide. The
score is the share of programs whose range lies above the bound and whose price is within the limit.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import jax.numpy as jnp
from jax import lax

from counterpoint.compile.assumptions import assumed_options
from counterpoint.compile.compiler import CompiledProgram
from counterpoint.compile.inputs.workload import Workload
from counterpoint.compile.job import ProgramForm
from counterpoint.compile.pool import compile_all
from counterpoint.compile.task import CompileTask
from counterpoint.cost.build import build_model
from counterpoint.hardware.target import Target
from counterpoint.hardware.targets import parse_target
from counterpoint.simulate.simulation import simulate
from counterpoint.workflow.forecast.step_range import step_range

M = 1 << 20
F32, BF16, I32 = "float32", "bfloat16", "int32"
Array = Any
Spec = tuple[tuple[int, ...], str]


@dataclass(frozen=True)
class Case:
    """A program, the bytes and operations that it needs, and how far above them it may be."""

    name: str
    function: Callable[..., Array]
    inputs: Sequence[Spec]
    bytes: float  # read and written at least
    flops: float = 0.0
    type: str = "f32"  # of the operations, as chips' rates name it
    within: float = 3.0
    donated: Sequence[int] = field(default=())

    def least_s(self, target: Target) -> float:
        """Return the bound; what the cache holds may already be there, starting takes a while."""
        chip, gpu = target.chip, target.known_gpu
        cached = gpu.l2_bytes if gpu else 0
        rate = chip.flops.get(self.type, chip.bf16_flops)
        return max((self.bytes - cached) / chip.hbm_bytes, self.flops / rate, 1e-6)


def product(a: Array, b: Array) -> Array:
    """Multiply, by the default precision."""
    return a @ b


def cross_entropy(logits: Array, labels: Array) -> Array:
    """Return the mean loss of integer labels."""
    rows = jnp.arange(labels.shape[0])
    return -jnp.mean(jax.nn.log_softmax(logits.astype(F32))[rows, labels])


def pooled(x: Array) -> Array:
    """Add up windows of 31 x 31."""
    return lax.reduce_window(x, 0.0, lax.add, (1, 31, 31, 1), (1, 1, 1, 1), "SAME")


def cases() -> list[Case]:
    """Return the programs; sizes are far above what the cache holds."""
    rows, width = 32 * 1024, 4096
    big: Spec = ((rows, width), F32)
    size = rows * width * 4
    vocabulary, tokens = 50_304, 131_072
    table: Spec = ((vocabulary, 768), F32)
    ids: Spec = ((tokens,), I32)
    updates: Spec = ((tokens, 768), F32)
    moved = tokens * 768 * 4
    some = 16_384
    logits, labels = ((some, vocabulary), BF16), ((some,), I32)
    flat: Spec = ((64 * M,), F32)
    image: Spec = ((16, 512, 512, 8), F32)
    return [
        Case("add", jnp.add, [big, big], 3 * size),
        Case("exp", jnp.exp, [big], 2 * size),
        Case("transpose", jnp.transpose, [big], 2 * size),
        Case("concatenate", lambda a, b: jnp.concatenate([a, b]), [big, big], 4 * size),
        Case("reduce_rows", lambda x: x.sum(1), [big], size),
        Case("reduce_columns", lambda x: x.sum(0), [big], size),
        Case("softmax", jax.nn.softmax, [big], 2 * size),
        Case("cumsum", lambda x: jnp.cumsum(x, 1), [big], 2 * size, within=6),
        Case("gemm_bf16", product, [((8192, 8192), BF16)] * 2, 3 * 8192**2 * 2, 2 * 8192**3,
             "bf16", 1.8),
        Case("gemm_f32", product, [((8192, 8192), F32)] * 2, 3 * 8192**2 * 4, 2 * 8192**3,
             "tf32", 1.8),
        Case("gemm_c64", product, [((4096, 4096), "complex64")] * 2, 3 * 4096**2 * 8,
             8 * 4096**3, "tf32", 2.5),
        Case("gemv", product, [((16384, 16384), BF16), ((16384,), BF16)], 16384**2 * 2),
        Case("conv", lambda x, k: lax.conv_general_dilated(
            x, k, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")),
            [((64, 56, 56, 256), BF16), ((3, 3, 256, 256), BF16)], 2 * 64 * 56 * 56 * 256 * 2,
            2 * 64 * 56 * 56 * 9 * 256**2 * 0.95, "bf16", 3),
        Case("pool", pooled, [image], 16 * 512 * 512 * 8 * 4 * 2, 16 * 497 * 497 * 8 * 961,
             within=8),
        Case("cross_entropy", cross_entropy, [logits, labels], some * vocabulary * 2, within=4),
        Case("cross_entropy_grad", jax.grad(cross_entropy), [logits, labels],
             2 * some * vocabulary * 2, within=8),
        Case("embedding", lambda t, i: t[i], [((500_000, 768), F32), ((256 * 1024,), I32)],
             2 * 256 * 1024 * 768 * 4),
        Case("gather_elements", lambda t, i: t[i], [flat, ((64 * M,), I32)], 3 * 64 * M * 4,
             within=12),
        Case("scatter_rows", lambda t, i, u: t.at[i].add(u), [table, ids, updates], moved,
             within=25, donated=(0,)),
        Case("scatter_rows_unique", lambda t, i, u: t.at[i].set(u, unique_indices=True),
             [((500_000, 768), F32), ids, updates], 2 * moved, within=8, donated=(0,)),
        Case("scatter_elements", lambda t, i, u: t.at[i].add(u),
             [flat, ((64 * M,), I32), flat], 3 * 64 * M * 4, within=20, donated=(0,)),
        Case("histogram", lambda i: jnp.bincount(i, length=256), [((64 * M,), I32)],
             64 * M * 4, within=150),
        Case("segment_sum", lambda x, i: jax.ops.segment_sum(x, i, 100_000),
             [((M, 128), F32), ((M,), I32)], M * 128 * 4, within=20),
        Case("update_slice", lambda x, u, i: lax.dynamic_update_slice(x, u, (i, 0)),
             [big, ((rows // 4, width), F32), ((), I32)], size / 2, donated=(0,)),
        Case("sort", jnp.sort, [flat], 2 * 64 * M * 4, within=20),
        Case("argsort", jnp.argsort, [flat], 2 * 64 * M * 4, within=30),
        Case("sort_rows", lambda x: jnp.sort(x, 1), [((8192, 4096), F32)], 2 * 8192 * 4096 * 4,
             within=60),
        Case("top_k", lambda x: lax.top_k(x, 8), [((8192, 16384), F32)], 8192 * 16384 * 4,
             within=30),
        Case("fft", jnp.fft.fft, [((16384, 4096), "complex64")], 2 * 16384 * 4096 * 8),
        Case("fft_long", jnp.fft.fft, [((64 * M,), "complex64")], 2 * 64 * M * 8, within=6),
        Case("fft_2d", jnp.fft.fft2, [((16, 2048, 2048), "complex64")], 2 * 16 * 2048**2 * 8,
             within=4),
        Case("random", lambda k: jax.random.normal(k, (256 * M,)), [((2,), "uint32")], 256 * M * 4,
             within=20),
        Case("cholesky", jnp.linalg.cholesky, [((8192, 8192), F32)], 8192**2 * 4, 8192**3 / 3,
             "f32", within=20),
        Case("cholesky_many", jnp.linalg.cholesky, [((65536, 64, 64), F32)], 65536 * 64**2 * 8,
             within=60),
        Case("eigh_many", jnp.linalg.eigh, [((65536, 32, 32), F32)], 65536 * 32**2 * 8,
             within=2000),
        Case("triangular", lambda a, b: lax.linalg.triangular_solve(a, b, left_side=True),
             [((8192, 8192), F32)] * 2, 3 * 8192**2 * 4, 8192**3, within=5),
    ]  # fmt: skip


def workload_of(case: Case) -> Workload:
    """Return the program, lowered here."""
    inputs = [jax.ShapeDtypeStruct(*spec) for spec in case.inputs]
    jitted = jax.jit(case.function, donate_argnums=tuple(case.donated))
    lowered = jitted.trace(*inputs).lower(lowering_platforms=("cuda",))
    return Workload(
        name=case.name,
        form=ProgramForm.MLIR,
        program=lowered.as_text().encode(),
        origin="benchmarks/ops.py",
    )


def main(words: Sequence[str] | None = None) -> int:
    """Print the table and the score."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", default="1xH100")
    parser.add_argument("names", nargs="*")
    asked = parser.parse_args(words)
    target = parse_target(asked.target)
    chosen = [case for case in cases() if not asked.names or case.name in asked.names]
    workloads = [workload_of(case) for case in chosen]
    tasks = [
        CompileTask(
            workload=workload,
            target=target,
            options=assumed_options(workload, target, {}, {}).options,
        )
        for workload in workloads
    ]
    good = 0
    print(f"| program | ms on {target} | range | bound | times the bound | verdict |")
    print("|---|---:|---|---:|---:|---|")
    results = dict(compile_all(tasks))
    for number, case in enumerate(chosen):
        compiled = results[number]
        if not isinstance(compiled, CompiledProgram):
            print(f"| {case.name} | | | | | {compiled} |")
            continue
        simulation = simulate(compiled.program, build_model(target), target=target)
        reach, step_s, least_s = step_range(simulation), simulation.step_s, case.least_s(target)
        times = step_s / least_s
        verdict = "below the bound" if simulation.low_s < least_s * 0.999 else ""
        verdict = verdict or ("far above" if times > case.within else "good")
        good += verdict == "good"
        span = f"{reach.low * 1e3:.3g} to {reach.high * 1e3:.3g}"
        row = f"{step_s * 1e3:.3g} | {span} | {least_s * 1e3:.3g} | {times:.2f} | {verdict}"
        print(f"| {case.name} | {row} |")
    print(f"\n{good} of {len(chosen)} good: none of their range is below the bound")
    return 0 if good == len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
