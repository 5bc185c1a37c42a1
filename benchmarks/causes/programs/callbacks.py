"""Python that a compiled program calls."""

from __future__ import annotations

import time

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import io_callback
from recorder import Recorder

from programs.models import Array, mlp


def pure_callback(recorder: Recorder) -> None:
    """The step calls a function of NumPy that takes 40 ms."""
    train_step, params, batch = mlp()

    def edit_distance(x: np.ndarray) -> np.ndarray:
        began = time.perf_counter()
        time.sleep(0.0 if recorder.fixed else 0.04)
        recorder.lost[-1] += time.perf_counter() - began
        return np.float32(x.sum())

    @jax.jit
    def scored(params: list[Array], x: Array) -> Array:
        out = x[:4, :4] * params[0][:4, :4]
        return jax.pure_callback(edit_distance, jax.ShapeDtypeStruct((), jnp.float32), out)

    for step in recorder:
        with recorder.marker(step):
            params, loss = train_step(params, batch)
            scored(params, batch).block_until_ready()
            loss.block_until_ready()


def callback_in_the_step(recorder: Recorder) -> None:
    """The loss goes through a pure_callback of 25 ms in the middle of the step."""
    _, params, batch = mlp()

    def reward(x: np.ndarray) -> np.ndarray:
        began = time.perf_counter()
        time.sleep(0.0 if recorder.fixed else 0.025)
        recorder.lost[-1] += time.perf_counter() - began
        return np.float32(x.mean())

    @jax.jit
    def train_step(params: list[Array], x: Array) -> tuple[list[Array], Array]:
        for w in params:
            x = jnp.tanh(x @ w)
        scale = jax.pure_callback(reward, jax.ShapeDtypeStruct((), jnp.float32), x[:8, :8])
        return [w - 0.001 * scale * w for w in params], (x * scale).sum()

    for step in recorder:
        with recorder.marker(step):
            params, loss = train_step(params, batch)
            loss.block_until_ready()


def ordered_callback(recorder: Recorder) -> None:
    """An ordered io_callback writes metrics for 15 ms in each step."""
    _, params, batch = mlp()

    def write_metrics(value: np.ndarray) -> None:
        began = time.perf_counter()
        time.sleep(0.0 if recorder.fixed else 0.015)
        recorder.lost[-1] += time.perf_counter() - began
        del value

    @jax.jit
    def train_step(params: list[Array], x: Array) -> tuple[list[Array], Array]:
        for w in params:
            x = jnp.tanh(x @ w)
        io_callback(write_metrics, None, x.sum(), ordered=True)
        return [w * 0.999 for w in params], x.sum()

    for step in recorder:
        with recorder.marker(step):
            params, loss = train_step(params, batch)
            jax.block_until_ready((params, loss))
            jax.effects_barrier()


def debug_prints(recorder: Recorder) -> None:
    """jax.debug.print was left in a loop that runs 150 times."""
    _, params, batch = mlp(256, 2, 64)

    @jax.jit
    def train_step(params: list[Array], x: Array) -> tuple[list[Array], Array]:
        def body(x: Array, _: None) -> tuple[Array, None]:
            x = jnp.tanh(x @ params[0][:, :256])
            if not recorder.fixed:
                jax.debug.callback(lambda _: None, x[0, 0])
            return x, None

        x, _ = jax.lax.scan(body, x, None, length=150)
        return [w * 0.999 for w in params], x.sum()

    for step in recorder:
        with recorder.marker(step):
            params, loss = train_step(params, batch)
            loss.block_until_ready()
            jax.effects_barrier()
