"""Compile small sharded programs for TPUs with libtpu, and write their HLO, as proto and as text.

    python tests/hlo/make_tpu_fixtures.py OUT

Needs JAX and the libtpu that matches it (pip install 'jax[tpu]'), but no TPU. It takes a minute or
two. tests/hlo/data/tpu_* was written with jax 0.10.2 and libtpu 0.0.42.1.
"""

from __future__ import annotations

import argparse
import lzma
import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias, cast

os.environ |= {
    "JAX_PLATFORMS": "cpu",
    "TPU_SKIP_MDS_QUERY": "1",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
}

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import topologies
from jax.experimental.pallas.ops.tpu.splash_attention import (
    splash_attention_kernel as splash,
)
from jax.experimental.pallas.ops.tpu.splash_attention import (
    splash_attention_mask as masks,
)
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

# Paths of the machine that made the fixtures don't belong in them.
jax.config.update("jax_hlo_source_file_canonicalization_regex", ".*/")

Array = jax.Array
Shape = jax.ShapeDtypeStruct
Compiled: TypeAlias = jax.stages.Compiled

LAYERS, WIDTH, HEADS, SEQUENCE = 3, 1024, 8, 1024


def attention(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
    """Splash attention: a kernel that lowers to Mosaic."""
    mask = masks.MultiHeadMask([masks.CausalMask((SEQUENCE, SEQUENCE)) for _ in range(HEADS)])
    kernel = splash.make_splash_mha(mask, head_shards=1, q_seq_shards=1)
    mapped: Callable[..., jax.Array] = jax.vmap(cast("Callable[..., jax.Array]", kernel))
    return mapped(q, k, v)


def layer(x: jax.Array, w: dict[str, jax.Array]) -> jax.Array:
    with jax.named_scope("attention"):
        heads = [
            jnp.einsum("bsd,dhk->bhsk", x, w[name], preferred_element_type=jnp.bfloat16)
            for name in ("q", "k", "v")
        ]
        mixed = jax.shard_map(
            attention, in_specs=(P("data"),) * 3, out_specs=P("data"), check_vma=False
        )(*heads)
        x = x + jnp.einsum("bhsk,hkd->bsd", mixed, w["o"])
    with jax.named_scope("mlp"):
        return x + jax.nn.gelu(x @ w["up"]) @ w["down"]


def step(weights: dict[str, jax.Array], x: jax.Array) -> tuple[dict[str, jax.Array], jax.Array]:
    """One step of training: forward, backward and an update, the layers in a loop."""

    def loss(weights: dict[str, jax.Array]) -> jax.Array:
        cast = jax.tree.map(lambda w: w.astype(jnp.bfloat16), weights)
        out, _ = jax.lax.scan(lambda x, w: (jax.checkpoint(layer)(x, w), None), x, cast)
        return (out.astype(jnp.float32) ** 2).mean()

    value, gradients = jax.value_and_grad(loss)(weights)
    with jax.named_scope("optimizer"):
        return jax.tree.map(lambda w, g: w - 1e-3 * g, weights, gradients), value


def arguments(mesh: Mesh, batch: P) -> tuple[dict[str, Shape], Shape]:
    def array(shape: tuple[int, ...], dtype: type, spec: P) -> Shape:
        return jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(mesh, spec))

    head = WIDTH // HEADS
    shapes = {
        **dict.fromkeys(("q", "k", "v"), (WIDTH, HEADS, head)),
        "o": (HEADS, head, WIDTH),
        "up": (WIDTH, 4 * WIDTH),
        "down": (4 * WIDTH, WIDTH),
    }
    weights = {
        name: array((LAYERS, *shape), jnp.float32, P(None, "data"))
        for name, shape in shapes.items()
    }
    return weights, array((2 * mesh.size, SEQUENCE, WIDTH), jnp.bfloat16, batch)


def one_slice() -> Compiled:
    topology = topologies.get_topology_desc(platform="tpu", topology_name="v5e:2x4")
    mesh = Mesh(np.array(topology.devices), ("data",))
    return compiled(mesh, P("data"))


def two_slices() -> Compiled:
    """Weights in each slice; gradients are summed over the data center's network."""
    topology = topologies.get_topology_desc(platform="tpu", topology_name="v5e:2x2", num_slices=2)
    devices = sorted(topology.devices, key=lambda device: (device.slice_index, device.id))
    mesh = Mesh(np.array(devices).reshape(2, 4), ("slice", "data"))
    return compiled(mesh, P(("slice", "data")))


def compiled(mesh: Mesh, batch: P) -> Compiled:
    weights, x = arguments(mesh, batch)
    with jax.set_mesh(mesh):
        return jax.jit(step, donate_argnums=0).lower(weights, x).compile()


PROGRAMS: dict[str, Callable[[], Compiled]] = {"tpu_step": one_slice, "tpu_slices": two_slices}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", choices=list(PROGRAMS))
    given = parser.parse_args()
    for name, make in PROGRAMS.items():
        if given.only in (None, name):
            executable = make().runtime_executable()
            if executable is None:
                raise SystemExit(f"{name} was not compiled")
            module = executable.hlo_modules()[0]
            proto, text = module.as_serialized_hlo_module_proto(), module.to_string()
            (given.out / f"{name}.hlo.pb.xz").write_bytes(lzma.compress(proto))
            (given.out / f"{name}.txt.xz").write_bytes(lzma.compress(text.encode()))


if __name__ == "__main__":
    main()
