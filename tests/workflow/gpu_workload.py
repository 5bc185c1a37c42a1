"""A training program whose step XLA's GPU compiler compiles, on a machine without a GPU.

    counterpoint pgle manual -- python gpu_workload.py [--steps N]

It compiles for eight H100s under the XLA_FLAGS that it is given, logs as any program does, counts
steps, and where the agent has taken a profile, puts in its place what eight GPUs would have left:
every instruction of what was compiled, at a time of its own by kind. Real are the compiler, its
log, its dumps, the agent and the steps; the kernels' times are not.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ["JAX_PLATFORMS"] = "cpu"  # the CUDA plugin then serves as a compiler only
sys.path.insert(0, str(Path(__file__).parents[1] / "program"))
sys.path.insert(0, str(Path(__file__).parents[1] / "timeline"))

import jax
import numpy as np
from jax.experimental import topologies
from jax.sharding import Mesh
from make_fixtures import (  # pyright: ignore[reportMissingImports]
    GPU_OPTIONS,
    H100,
    train_step,
)
from xspace_builder import MS, US, Plane, kernel, message, metadata, nvidia, xspace

from counterpoint.compile.toolkit import write_toolkit
from counterpoint.program import (
    Instruction,
    Program,
    collective,
    is_done,
    launches,
    read_program,
    trip_count,
)

DEVICES = 8
COLLECTIVE_US, COMPUTE_US = 900, 120


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--steps", type=int, default=14)
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory() as toolkit:
        module = compile_step(Path(toolkit))
    for step in range(given.steps):
        with jax.profiler.StepTraceAnnotation("train", step_num=step):
            time.sleep(0.01)
        print(f"step {step}", flush=True)
    replace_profile(module)


def compile_step(toolkit: Path) -> bytes:
    write_toolkit(toolkit)
    topology: Any = topologies.get_topology_desc(
        platform="cuda", target_config=H100, topology=f"1x1x{DEVICES}"
    )
    mesh = Mesh(np.array(topology.devices).reshape(4, 2), ("x", "y"))
    function, arguments = train_step(mesh, 1024)
    options = {**GPU_OPTIONS, "xla_gpu_cuda_data_dir": str(toolkit)}
    compiled = function.lower(*arguments).compile(compiler_options=options)
    data: bytes = compiled.runtime_executable().hlo_modules()[0].as_serialized_hlo_module_proto()
    return data


def replace_profile(module: bytes) -> None:
    home = os.environ.get("COUNTERPOINT_AGENT_DIR")
    if home is None:
        return
    for file in Path(home).glob("profile/plugins/profile/*/*.xplane.pb"):
        file.write_bytes(recorded(module))


def recorded(module: bytes) -> bytes:
    """What a profiler would have written of four steps on each GPU."""
    program = read_program(module)
    name = (program.name, 7)
    gpus = [nvidia(ordinal) for ordinal in range(DEVICES)]
    for gpu in gpus:
        for step in range(4):
            _execute(gpu, program, name, step * 400 * MS)
    return xspace(*gpus, metadata({name: message((1, module))}))


def _execute(gpu: Plane, program: Program, name: tuple[str, int], start_ps: int) -> None:
    now = start_ps
    for it in _in_order(program, program.computations[program.entry].instructions):
        talk = collective(program, it)
        us = COLLECTIVE_US if talk else COMPUTE_US
        stream = "Stream #21(Collective)" if talk else "Stream #20(Compute)"
        label = f"ncclDevKernel_{talk.kind}" if talk else it.name.replace(".", "_")
        kernel(gpu, stream, label, now, us * US, op=it.name, module=name)
        now += us * US


def _in_order(program: Program, instructions: tuple[Instruction, ...]) -> Iterator[Instruction]:
    for it in instructions:
        if it.opcode == "while":
            body = program.computations[it.calls[0]].instructions
            for _ in range(trip_count(program, it) or 1):
                yield from _in_order(program, body)
        elif launches(it) and not is_done(it):
            yield it


if __name__ == "__main__":
    main()
