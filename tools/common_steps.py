"""Small training steps of the usual kinds, on which `tried_flags.py` tries flags.

Each function makes a jitted step and its abstract arguments for so many devices. They hold what
large steps hold: a scan over layers with its backward pass, collectives of weights and gradients
in it and outside, attention, a loss over a vocabulary, and an optimizer.
"""

# JAX leaves some types open.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

LAYERS, WIDTH, HEADS, VOCABULARY, BATCH, LENGTH = 8, 2048, 16, 16384, 32, 1024
MICROBATCHES, ROWS = 8, 1024

Made = tuple[Any, Any]
Weights = dict[str, Array]


def fsdp(devices: int) -> Made:
    """Weights and batch sharded over all devices; weights are gathered layer by layer."""
    names = {"qkv": P(None, "x"), "out": P(None, "x"), "up": P(None, "x"), "down": P(None, "x")}
    return _transformer(devices, {**names, "embedding": P("x")}, P("x"))


def dp(devices: int) -> Made:
    """Whole weights on each device; gradients are reduced."""
    return _transformer(devices, {}, P("x"))


def tp(devices: int) -> Made:
    """Matrix products split over all devices."""
    names = {"qkv": P(None, None, "x"), "out": P(None, "x"), "down": P(None, "x")}
    return _transformer(devices, {**names, "up": P(None, None, "x"), "embedding": P("x")}, P())


def pp(devices: int) -> Made:
    """One layer on each device; activations are passed on around a ring."""
    mesh = Mesh(np.array(jax.devices()[:devices]), ("x",))
    ring = [(at, (at + 1) % devices) for at in range(devices)]

    def stages(weights: Array, batch: Array) -> Array:
        def tick(now: Array, at: Array) -> tuple[Array, Array]:
            fed = jnp.where(lax.axis_index("x") == 0, batch[at % MICROBATCHES], now)
            made = jnp.tanh(fed @ weights[0])
            return lax.ppermute(made, "x", ring), made

        start = lax.pcast(jnp.zeros_like(batch[0]), ("x",), to="varying")
        _, made = lax.scan(tick, start, jnp.arange(MICROBATCHES + devices - 1))
        return made[None, -MICROBATCHES:]

    run = jax.shard_map(stages, mesh=mesh, in_specs=(P("x"), P()), out_specs=P("x"))

    def step(weights: Array, batch: Array) -> tuple[Array, Array]:
        def loss(own: Array) -> Array:
            return jnp.mean(run(own.astype(jnp.bfloat16), batch).astype(jnp.float32) ** 2)

        value, gradient = jax.value_and_grad(loss)(weights)
        return weights - 1e-3 * gradient, value

    weights = jax.ShapeDtypeStruct(
        (devices, WIDTH, WIDTH), jnp.float32, sharding=NamedSharding(mesh, P("x"))
    )
    batch = jax.ShapeDtypeStruct(
        (MICROBATCHES, ROWS, WIDTH), jnp.bfloat16, sharding=NamedSharding(mesh, P())
    )
    return jax.jit(step, donate_argnums=0), (weights, batch)


def ep(devices: int) -> Made:
    """Experts on different devices; tokens go to them and back by all-to-all."""
    mesh = Mesh(np.array(jax.devices()[:devices]), ("x",))

    def experts(tokens: Array, up: Array, down: Array) -> Array:
        sent = lax.all_to_all(tokens, "x", 0, 1, tiled=True)
        made = jax.nn.gelu(sent[0] @ up[0]) @ down[0]
        return lax.all_to_all(made[None], "x", 1, 0, tiled=True)

    spread = P("x")
    run = jax.shard_map(experts, mesh=mesh, in_specs=(spread,) * 3, out_specs=spread)

    def step(weights: Weights, tokens: Array) -> tuple[Weights, Array]:
        def loss(own: Weights) -> Array:
            low = {name: weight.astype(jnp.bfloat16) for name, weight in own.items()}

            def layer(x: Array, pair: tuple[Array, Array]) -> tuple[Array, None]:
                return x + run(x, *pair), None

            out, _ = lax.scan(layer, tokens, (low["up"], low["down"]))
            return jnp.mean(out.astype(jnp.float32) ** 2)

        value, gradients = jax.value_and_grad(loss)(weights)
        return jax.tree.map(lambda w, g: w - 1e-3 * g, weights, gradients), value

    by_expert = NamedSharding(mesh, P(None, "x"))
    weights = {
        "up": jax.ShapeDtypeStruct(
            (LAYERS, devices, WIDTH, 2 * WIDTH), jnp.float32, sharding=by_expert
        ),
        "down": jax.ShapeDtypeStruct(
            (LAYERS, devices, 2 * WIDTH, WIDTH), jnp.float32, sharding=by_expert
        ),
    }
    tokens = jax.ShapeDtypeStruct(
        (devices * devices, ROWS, WIDTH), jnp.bfloat16, sharding=NamedSharding(mesh, spread)
    )
    return jax.jit(step, donate_argnums=0), (weights, tokens)


STEPS: dict[str, Callable[[int], Made]] = {"fsdp": fsdp, "dp": dp, "tp": tp, "pp": pp, "ep": ep}


def _transformer(devices: int, sharded: dict[str, P], batch: P) -> Made:
    mesh = Mesh(np.array(jax.devices()[:devices]), ("x",))
    sizes = {
        "qkv": (LAYERS, WIDTH, 3 * WIDTH),
        "out": (LAYERS, WIDTH, WIDTH),
        "up": (LAYERS, WIDTH, 4 * WIDTH),
        "down": (LAYERS, 4 * WIDTH, WIDTH),
        "embedding": (VOCABULARY, WIDTH),
    }
    weights = {
        name: jax.ShapeDtypeStruct(
            size, jnp.float32, sharding=NamedSharding(mesh, sharded.get(name, P()))
        )
        for name, size in sizes.items()
    }
    kept = {name: weight.sharding for name, weight in weights.items()}
    tokens = jax.ShapeDtypeStruct(
        (BATCH, LENGTH + 1), jnp.int32, sharding=NamedSharding(mesh, batch)
    )
    placed = NamedSharding(mesh, P(*batch, None, None) if len(batch) else P())
    step = jax.jit(
        partial(_train, placed),
        donate_argnums=0,
        out_shardings=((kept, kept), NamedSharding(mesh, P())),
    )
    return step, ((weights, weights), tokens)


def _train(
    placed: NamedSharding, state: tuple[Weights, Weights], tokens: Array
) -> tuple[tuple[Weights, Weights], Array]:
    weights, momentum = state
    value, gradients = jax.value_and_grad(_loss)(weights, tokens, placed)
    momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, gradients)
    return (jax.tree.map(lambda w, m: w - 1e-3 * m, weights, momentum), momentum), value


def _loss(weights: Weights, tokens: Array, placed: NamedSharding) -> Array:
    x = weights["embedding"].astype(jnp.bfloat16)[tokens[:, :-1]]
    layers = {name: weights[name] for name in ("qkv", "out", "up", "down")}
    x, _ = lax.scan(partial(_layer, placed), x, layers)
    logits = (x @ weights["embedding"].T.astype(jnp.bfloat16)).astype(jnp.float32)
    chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), tokens[:, 1:, None], -1)
    return -jnp.mean(chosen)


def _layer(placed: NamedSharding, x: Array, weights: Weights) -> tuple[Array, None]:
    low = {name: weight.astype(jnp.bfloat16) for name, weight in weights.items()}
    x = lax.with_sharding_constraint(x, placed)
    heads = [
        part.reshape(*part.shape[:2], HEADS, WIDTH // HEADS)
        for part in jnp.split(x @ low["qkv"], 3, -1)
    ]
    mixed = jax.nn.dot_product_attention(heads[0], heads[1], heads[2], is_causal=True)
    x = x + mixed.reshape(x.shape) @ low["out"]
    return x + jax.nn.gelu(x @ low["up"]) @ low["down"], None
