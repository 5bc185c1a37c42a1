"""Compile one FSDP step for eight absent GPUs, once for each environment that stdin names.

Reads JSON: by a name, the major compute capability and the environment of a compile. XLA reads
XLA_FLAGS once per process, and importing JAX takes longer than a fork, so each gets a fork.
Prints JSON by the same names: the schedule's fingerprint, how many collectives are asynchronous and
how many are not, and how many launches lie between starts and their dones; or what the compiler
wrote to stderr before it ended. Needs jax's CUDA plugin, and no GPU.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
import traceback
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import topologies
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

TARGET = """
gpu_device_info {
  threads_per_block_limit: 1024 threads_per_warp: 32 shared_memory_per_block: 49152
  shared_memory_per_core: 233472 threads_per_core_limit: 2048 core_count: 132 fpus_per_core: 128
  block_dim_limit_x: 2147483647 block_dim_limit_y: 65535 block_dim_limit_z: 65535
  memory_bandwidth: 3352320000000 l2_cache_size: 52428800 clock_rate_ghz: 1.98
  device_memory_size: 84942979072 shared_memory_per_block_optin: 232448
  cuda_compute_capability { major: %d }
  registers_per_core_limit: 65536 registers_per_block_limit: 65536
}
platform_name: "CUDA"
dnn_version_info { major: 9 minor: 10 patch: 0 }
"""
LAYERS, WIDTH = 6, 2048
OP = re.compile(r"^\s+(?:ROOT )?%?[\w.\-]+ = .*? ([a-z][\w\-]*)\(")
COLLECTIVE = r"(?:all-gather|all-reduce|reduce-scatter)"


def step(weights: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
    def loss(weights: jax.Array) -> jax.Array:
        def layer(x: jax.Array, w: jax.Array) -> tuple[jax.Array, None]:
            return x + jnp.tanh(x @ w), None

        return jnp.mean(jax.lax.scan(layer, x, weights)[0] ** 2)

    value, gradient = jax.value_and_grad(loss)(weights)
    return weights - 0.01 * gradient, value


def compiled_text(major: int, options: dict[str, Any]) -> str:
    topology = topologies.get_topology_desc(
        platform="cuda", target_config=TARGET % major, topology="1x1x8"
    )
    mesh = Mesh(np.array(topology.devices), ("fsdp",))

    def abstract(shape: tuple[int, ...], spec: P) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(shape, jnp.bfloat16, sharding=NamedSharding(mesh, spec))

    weights = abstract((LAYERS, WIDTH, WIDTH), P(None, "fsdp", None))
    x = abstract((8 * 512, WIDTH), P("fsdp", None))
    return jax.jit(step).lower(weights, x).compile(compiler_options=options).as_text() or ""


def schedule(text: str) -> dict[str, Any]:
    """Newer compilers write a synchronous collective as one instruction, older ones as a pair."""
    opened = between = asynchronous = blocking = 0
    for line in text.splitlines():
        match = OP.match(line)
        opcode = match[1] if match else ""
        if re.fullmatch(f"{COLLECTIVE}-start", opcode) and '"is_sync":true' not in line:
            opened += 1
            asynchronous += 1
        elif re.fullmatch(f"{COLLECTIVE}(-start)?", opcode):
            blocking += 1
        elif re.fullmatch(f"{COLLECTIVE}-done", opcode):
            opened = max(0, opened - 1)
        elif opened and opcode in ("fusion", "custom-call"):
            between += 1
    fingerprint = re.search(r'fingerprint_before_lhs="([^"]+)"', text)
    return {
        "fingerprint": fingerprint and fingerprint[1],
        "asynchronous": asynchronous,
        "blocking": blocking,
        "between": between,
    }


def in_a_fork(major: int, environment: dict[str, str]) -> dict[str, Any]:
    with tempfile.TemporaryFile() as answer, tempfile.TemporaryFile() as log:
        child = os.fork()
        if child == 0:
            os.dup2(log.fileno(), sys.stderr.fileno())
            os.environ.clear()
            os.environ.update(environment)
            status = 1
            try:
                told = schedule(compiled_text(major, {"xla_gpu_autotune_level": "0"}))
                os.write(answer.fileno(), json.dumps(told).encode())
                status = 0
            finally:
                if status:
                    traceback.print_exc()
                os._exit(status)
        if os.waitpid(child, 0)[1] == 0:
            answer.seek(0)
            return json.loads(answer.read())
        log.seek(0)
        return {"error": log.read().decode(errors="replace")}


if __name__ == "__main__":
    asked: dict[str, tuple[int, dict[str, str]]] = json.load(sys.stdin)
    print(json.dumps({name: in_a_fork(*one) for name, one in asked.items()}))
