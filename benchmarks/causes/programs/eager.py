"""Code that is not jitted, or hardly."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax
from recorder import Recorder

from programs.models import Array, loss_of, mlp, weights


def eager_update(recorder: Recorder) -> None:
    """Gradients are jitted; Adam is written out for 40 arrays, op by op."""
    params = weights(32, 40)
    gradients = jax.jit(jax.grad(loss_of))
    x = jnp.ones((32, 32))
    first = [jnp.zeros_like(w) for w in params]
    second = [jnp.zeros_like(w) for w in params]

    def update(params: list[Array], first: list[Array], second: list[Array], grads: list[Array]):  # noqa: ANN202
        first = [0.9 * m + 0.1 * g for m, g in zip(first, grads, strict=True)]
        second = [0.99 * v + 0.01 * g * g for v, g in zip(second, grads, strict=True)]
        params = [
            w - 0.01 * m / (jnp.sqrt(v) + 1e-8)
            for w, m, v in zip(params, first, second, strict=True)
        ]
        return params, first, second

    if recorder.fixed:
        update = jax.jit(update)
    for step in recorder:
        with recorder.marker(step):
            grads = gradients(params, x)
            params, first, second = update(params, first, second, grads)
            jax.block_until_ready(params)


def not_jitted(recorder: Recorder) -> None:
    """Nothing is jitted: forward, backward and update run op by op."""
    params = weights(128, 8)
    x = jnp.ones((64, 128))

    def train_step(params: list[Array], x: Array) -> tuple[list[Array], Array]:
        loss, grads = jax.value_and_grad(loss_of)(params, x)
        return [w - 0.01 * g for w, g in zip(params, grads, strict=True)], loss

    if recorder.fixed:
        train_step = jax.jit(train_step)
    for step in recorder:
        with recorder.marker(step):
            params, loss = train_step(params, x)
            loss.block_until_ready()


def disabled_jit(recorder: Recorder) -> None:
    """jax.disable_jit() was left in from debugging."""
    train_step, params, x = mlp(128, 6, 64)
    for step in recorder:
        with recorder.marker(step), jax.disable_jit(not recorder.fixed):
            loss, grads = jax.value_and_grad(loss_of)(params, x)
            params = [w - 0.01 * g for w, g in zip(params, grads, strict=True)]
            loss.block_until_ready()
    del train_step


def schedule(recorder: Recorder) -> None:
    """A learning rate schedule of some sixty small operations is computed op by op."""
    train_step, params, batch = mlp(128, 2, 32)

    def rate(step: int) -> Array:
        value = jnp.float32(step)
        for k in range(20):
            value = jnp.where(value > k, value * 0.99, jnp.cos(value) + k)
        return value

    if recorder.fixed:
        rate = jax.jit(rate)
    for step in recorder:
        with recorder.marker(step):
            factor = rate(step)
            params, loss = train_step(params, batch * factor)
            loss.block_until_ready()


def tiny_steps(recorder: Recorder) -> None:
    """A jitted step of a few microseconds is called 300 times in each marked step."""
    tick = jax.jit(lambda x: x * 0.99 + 1)
    many = jax.jit(lambda x: lax.fori_loop(0, 300, lambda _, v: v * 0.99 + 1, x))
    x = jnp.ones(16)
    for step in recorder:
        with recorder.marker(step):
            if recorder.fixed:
                x = many(x)
            else:
                for _ in range(300):
                    x = tick(x)
            x.block_until_ready()


def hidden_schedule(recorder: Recorder) -> None:
    """Some thirty small operations run op by op while the device is busy: nothing is lost."""
    train_step, params, batch = mlp(512, 4, 2048)
    loss: Array = None
    for step in recorder:
        with recorder.marker(step):
            params, loss = train_step(params, batch)
            rate = jnp.float32(step)
            for k in range(15):
                rate = rate * 0.99 + k
    jax.block_until_ready((loss, rate))
