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
from pathlib import Path
from typing import Any

os.environ["JAX_PLATFORMS"] = "cpu"  # the CUDA plugin then serves as a compiler only
sys.path.insert(0, str(Path(__file__).parents[1] / "hlo"))
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
from simulated_gpu import DEVICES, as_xspace

from counterpoint.compile.toolkit import write_toolkit


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
        file.write_bytes(as_xspace(module))


if __name__ == "__main__":
    main()
