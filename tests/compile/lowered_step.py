"""A sharded training step on eight virtual CPU devices: run once, for what it leaves behind.

    python lowered_step.py [LAYERS]

Weights are gathered before they are used and gradients scattered (FSDP), layer by layer in a scan.
"""

from __future__ import annotations

import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

WIDTH, HIDDEN, BATCH, SEQUENCE = 512, 2048, 16, 128


def main(layers: int) -> None:
    mesh = Mesh(np.array(jax.devices()).reshape(8), ("data",))

    def place(shape: tuple[int, ...], *axes: str | None) -> jax.Array:
        return jax.device_put(jnp.ones(shape, jnp.bfloat16), NamedSharding(mesh, P(*axes)))

    weights = {
        "up": place((layers, WIDTH, HIDDEN), None, "data", None),
        "down": place((layers, HIDDEN, WIDTH), None, None, "data"),
    }
    x = place((BATCH, SEQUENCE, WIDTH), "data")
    jax.block_until_ready(step(weights, x))


def loss(weights: dict[str, jax.Array], x: jax.Array) -> jax.Array:
    def layer(h: jax.Array, w: dict[str, jax.Array]) -> tuple[jax.Array, None]:
        return h + jnp.tanh(h @ w["up"]) @ w["down"], None

    h, _ = jax.lax.scan(jax.checkpoint(layer), x, weights)
    return jnp.mean(h.astype(jnp.float32) ** 2)


@jax.jit
def step(weights: dict[str, jax.Array], x: jax.Array) -> tuple[jax.Array, dict[str, jax.Array]]:
    value, gradient = jax.value_and_grad(loss)(weights, x)
    return value, jax.tree.map(lambda w, g: (w - 1e-3 * g).astype(w.dtype), weights, gradient)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 4)
