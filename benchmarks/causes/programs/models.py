"""Small models that the programs train."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

Array = Any
Params = list[Array]
TrainStep = Callable[[Params, Array], tuple[Params, Array]]


def weights(width: int, depth: int) -> Params:
    """Return the weights of a perceptron."""
    keys = jax.random.split(jax.random.key(0), depth)
    return [jax.random.normal(key, (width, width)) / width**0.5 for key in keys]


def forward(params: Params, x: Array) -> Array:
    """Return what the perceptron makes of x."""
    for w in params:
        x = jnp.tanh(x @ w)
    return x


def loss_of(params: Params, x: Array) -> Array:
    """Return the mean square of the outputs."""
    return jnp.mean(forward(params, x) ** 2)


@partial(jax.jit, donate_argnums=0)
def train_step(params: Params, x: Array) -> tuple[Params, Array]:
    """Take one step of gradient descent."""
    loss, grads = jax.value_and_grad(loss_of)(params, x)
    return [w - 0.01 * g for w, g in zip(params, grads, strict=True)], loss


@jax.jit
def eval_step(params: Params, x: Array) -> Array:
    """Return the loss alone."""
    return loss_of(params, x)


def rows(count: int, width: int, seed: int = 0) -> np.ndarray:
    """Return a batch on the host."""
    return np.random.default_rng(seed).standard_normal((count, width), np.float32)


def mlp(width: int = 512, depth: int = 4, batch: int = 256) -> tuple[TrainStep, Params, Array]:
    """Return a jitted step, its weights and a batch on the device.

    XLA on a CPU copies most of the donated weights in each step, which is 2 to 5% of it where they
    are larger than the batch. So a program that is to lose nothing has small weights.
    """
    return train_step, weights(width, depth), jnp.asarray(rows(batch, width))


def mesh(shape: Sequence[int], names: Sequence[str]) -> jax.sharding.Mesh:
    """Return a mesh of the devices that there are; XLA chooses what is not told."""
    kinds = (jax.sharding.AxisType.Auto,) * len(names)
    return jax.make_mesh(tuple(shape), tuple(names), axis_types=kinds)
