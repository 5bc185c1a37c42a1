"""What a small Llama computes, laid out and recomputed in many ways, as JSON: losses of two steps.

The second loss follows the gradients of the first step. Eight virtual CPU devices, float32.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from operator import itemgetter
from pathlib import Path

os.environ["JAX_PLATFORMS"] = "cpu"
# Compiling is all that takes time here, so little is optimised.
os.environ["XLA_FLAGS"] = (
    "--xla_force_host_platform_device_count=8 --xla_backend_optimization_level=0 "
    "--xla_llvm_disable_expensive_passes=true"
)
sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

import jax

import llama  # pyright: ignore[reportMissingImports]
from llama import Config, State, Weights  # pyright: ignore[reportMissingImports]

BASE = replace(
    llama.SIZES["tiny"],
    layers=2,
    sequence=16,
    dtype="float32",
    attention="xla",
    learning_rate=0.02,
)

# Each differs in several ways from the others: compiling is what costs.
ALIKE: dict[str, tuple[int, Config]] = {
    "one device, recompute all": (1, replace(BASE, batch=8)),
    "data 2, fsdp 2, tensor 2, keep all but mlpwi": (
        8,
        replace(BASE, data=2, tensor=2, remat="save_dot_except_mlpwi"),
    ),
    "more devices than key heads, recompute nothing": (8, replace(BASE, tensor=8, remat="none")),
    "no loop, look up by product, keep names": (
        8,
        replace(BASE, scan=False, embedding="onehot", remat="query,down"),
    ),
}


def unstacked(weights: Weights, layers: int) -> Weights:
    """A dictionary for each layer, of what one holds for all."""
    one = [jax.tree.map(itemgetter(at), weights["layers"]) for at in range(layers)]
    return {**weights, "layers": one}


def losses(devices: int, config: Config) -> list[float]:
    """Those of two steps from the same weights, whatever the layout."""
    mesh = llama.make_mesh(config, devices)
    state = jax.device_put(START, llama.state_shardings(replace(config, scan=True), mesh))
    if not config.scan:
        apart = State(*(unstacked(part, config.layers) for part in state[:3]), state.step)
        state = jax.device_put(apart, llama.state_shardings(config, mesh))
    step = llama.jit_step(config, mesh)
    found: list[float] = []
    for index in range(2):
        state, loss = step(state, *llama.make_batch(config, mesh, index))
        found.append(float(loss))
    return found


START = jax.device_get(
    llama.initial_state(replace(BASE, batch=8), llama.make_mesh(replace(BASE, batch=8), 1))
)
print(json.dumps({name: losses(*case) for name, case in ALIKE.items()}))
