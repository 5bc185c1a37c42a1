"""Compile small sharded programs and write their HLO, as proto and as text.

    python tests/hlo/make_fixtures.py OUT            on eight virtual CPU devices
    python tests/hlo/make_fixtures.py OUT --gpu      by XLA's GPU compiler, for eight H100

The GPU compiler needs jax-cuda13-pjrt and jax-cuda13-plugin of jaxlib's version (installed with
--no-deps) and a CUDA toolkit for ptxas, but no GPU. tests/hlo/data was written with jax 0.10.2.
"""

from __future__ import annotations

import argparse
import lzma
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import topologies
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

# Paths of the machine that made the fixtures don't belong in them.
jax.config.update("jax_hlo_source_file_canonicalization_regex", ".*/")

# Facts about an H100, for a compiler that has none to ask.
H100 = """
gpu_device_info {
  threads_per_block_limit: 1024 threads_per_warp: 32 shared_memory_per_block: 49152
  shared_memory_per_core: 233472 threads_per_core_limit: 2048 core_count: 132 fpus_per_core: 128
  block_dim_limit_x: 2147483647 block_dim_limit_y: 65535 block_dim_limit_z: 65535
  memory_bandwidth: 3352320000000 l2_cache_size: 52428800 clock_rate_ghz: 1.98
  device_memory_size: 84942979072 shared_memory_per_block_optin: 232448
  cuda_compute_capability { major: 9 feature_extension: ACCELERATED_FEATURES }
  registers_per_core_limit: 65536 registers_per_block_limit: 65536
  thread_dim_limit_x: 1024 thread_dim_limit_y: 1024 thread_dim_limit_z: 64
  device_vendor: "NVIDIA Corporation" name: "NVIDIA H100 80GB HBM3"
  driver_version: "13.0.0" runtime_version: "12.8.0" compile_time_toolkit_version: "12.8.0"
  dnn_version: "9.10.0"
}
platform_name: "CUDA"
dnn_version_info { major: 9 minor: 10 patch: 0 }
device_description_str: "NVIDIA H100 80GB HBM3"
"""
GPU_OPTIONS = {"xla_gpu_autotune_level": 0, "xla_gpu_enable_triton_gemm": False}
PIPELINED = {
    "xla_gpu_enable_while_loop_double_buffering": True,
    "xla_gpu_enable_pipelined_all_gather": True,
    "xla_gpu_enable_pipelined_reduce_scatter": True,
    "xla_gpu_enable_pipelined_all_reduce": True,
}

Array = jax.Array
Tree = tuple[jax.Array, ...]
Program = tuple[Callable[..., Any], Sequence[Any]]


def train_step(mesh: Mesh, width: int = 64) -> Program:
    """A scanned, rematerialised two-layer MLP with momentum, sharded over both axes."""

    def layer(x: Array, weights: Tree) -> tuple[Array, None]:
        with jax.named_scope("mlp"):
            return x + jnp.tanh(x @ weights[0]) @ weights[1], None

    def loss(weights: Tree, x: Array) -> Array:
        x, _ = jax.lax.scan(jax.checkpoint(layer), x, weights)
        return jnp.mean(x**2)

    def step(weights: Tree, momentum: Tree, x: Array) -> tuple[Tree, Tree, Array]:
        value, gradient = jax.value_and_grad(loss)(weights, x)
        momentum = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, momentum, gradient)
        return jax.tree.map(lambda w, m: w - 0.01 * m, weights, momentum), momentum, value

    weights = (
        abstract((4, width, 4 * width), "bfloat16", mesh, P(None, "x", "y")),
        abstract((4, 4 * width, width), "bfloat16", mesh, P(None, "y", "x")),
    )
    x = abstract((4 * width, width), "bfloat16", mesh, P("x", None))
    return jax.jit(step, donate_argnums=(0, 1)), (weights, weights, x)


def zoo(mesh: Mesh) -> Program:
    """Every collective that jax has a name for, loops with and without a count, odd types."""

    def talk(a: Array) -> Array:
        ring = [(i, (i + 1) % 4) for i in range(4)]
        swapped = jax.lax.all_to_all(a, "x", 1, 0, tiled=True)
        moved = jax.lax.ppermute(a, "x", ring)
        scattered = jax.lax.psum_scatter(a, "y", scatter_dimension=1, tiled=True)
        gathered = jax.lax.all_gather(scattered, "y", axis=1, tiled=True)
        return gathered + moved + swapped.reshape(a.shape) + jax.lax.psum(a, ("x", "y"))

    def double_until(x: Array) -> Array:
        return jax.lax.while_loop(lambda c: jnp.sum(c) < 1e6, lambda c: c * 2 + 1, x)

    def run(
        a: Array, image: Array, kernel: Array, index: Array, narrow: Array, eight: Array
    ) -> Tree:
        a = jax.shard_map(talk, mesh=mesh, in_specs=P("x", "y"), out_specs=P("x", "y"))(a)
        a = jax.lax.fori_loop(0, 7, lambda i, c: jnp.sin(c) * i, a)
        a = jax.lax.cond(jnp.sum(a) > 0, double_until, lambda c: c - 1, a)
        blurred = jax.lax.conv(image, kernel, (1, 1), "SAME")
        picked = jnp.sort(a, axis=0)[index].at[index].add(1.0)
        noise = jax.random.normal(jax.random.key(1), a.shape)
        heavy = eight.astype("float32") @ eight.astype("float32").T
        return a + noise, blurred, picked, narrow.astype("float32") * 2, heavy

    return jax.jit(run), (
        abstract((64, 64), "float32", mesh, P("x", "y")),
        abstract((8, 3, 16, 16), "float32", mesh, P("x")),
        abstract((4, 3, 3, 3), "float32", mesh, P()),
        abstract((16,), "int32", mesh, P()),
        abstract((33,), "int4", mesh, P()),
        abstract((32, 32), "float8_e4m3fn", mesh, P()),
    )


def abstract(shape: tuple[int, ...], dtype: str, mesh: Mesh, spec: P) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(mesh, spec))


def write(name: str, program: Program, out: Path, options: dict[str, Any] | None = None) -> None:
    """Compile and write NAME.hlo.pb.xz and NAME.txt.xz."""
    function, arguments = program
    lowered: Any = function.lower(*arguments)  # type: ignore[attr-defined]
    compiled = lowered.compile(compiler_options=options)
    module = compiled.runtime_executable().hlo_modules()[0]
    for suffix, data in (
        ("hlo.pb.xz", module.as_serialized_hlo_module_proto()),
        ("txt.xz", compiled.as_text().encode()),
    ):
        (out / f"{name}.{suffix}").write_bytes(lzma.compress(data))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--gpu", action="store_true")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    if arguments.gpu:
        topology = topologies.get_topology_desc(
            platform="cuda", target_config=H100, topology="1x1x8"
        )
        mesh = Mesh(np.array(topology.devices).reshape(4, 2), ("x", "y"))
        write("gpu_step", train_step(mesh, 1024), arguments.out, GPU_OPTIONS)
        write("gpu_pipelined", train_step(mesh, 1024), arguments.out, GPU_OPTIONS | PIPELINED)
        write("gpu_zoo", zoo(mesh), arguments.out, GPU_OPTIONS)
    else:
        mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("x", "y"))
        write("cpu_step", train_step(mesh), arguments.out)
        write("cpu_zoo", zoo(mesh), arguments.out)


if __name__ == "__main__":
    main()
