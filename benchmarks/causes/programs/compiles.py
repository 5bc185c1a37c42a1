"""Functions that are compiled, traced or loaded again."""

from __future__ import annotations

import tempfile
from contextlib import nullcontext
from functools import partial

import jax
import jax.numpy as jnp
from recorder import Recorder

from programs.models import Array, Params, loss_of, mlp, rows


def another_shape(recorder: Recorder) -> None:
    """Each batch has another length, so each step is compiled."""
    _, params, _ = mlp(256, 3)

    @jax.jit
    def train_step(params: Params, x: Array) -> tuple[Params, Array]:
        loss, grads = jax.value_and_grad(loss_of)(params, x)
        return [w - 0.01 * g for w, g in zip(params, grads, strict=True)], loss

    for step in recorder:
        with recorder.marker(step):
            batch = jnp.asarray(rows(64 if recorder.fixed else 64 + step, 256))
            params, loss = train_step(params, batch)
            loss.block_until_ready()


def static_learning_rate(recorder: Recorder) -> None:
    """The learning rate is a static argument and changes in each step."""
    _, params, batch = mlp(256, 3)

    @partial(jax.jit, static_argnums=2)
    def train_step(params: Params, x: Array, rate: float) -> tuple[Params, Array]:
        loss, grads = jax.value_and_grad(loss_of)(params, x)
        return [w - rate * g for w, g in zip(params, grads, strict=True)], loss

    for step in recorder:
        with recorder.marker(step):
            rate = 0.01 if recorder.fixed else 0.01 / (step + 1)
            params, loss = train_step(params, batch, rate)
            loss.block_until_ready()


def new_function(recorder: Recorder) -> None:
    """A new jitted function is made in each step: traced again, and compiled."""
    _, params, batch = mlp(256, 3)

    def make() -> object:
        @jax.jit
        def train_step(params: Params, x: Array) -> tuple[Params, Array]:
            loss, grads = jax.value_and_grad(loss_of)(params, x)
            return [w - 0.01 * g for w, g in zip(params, grads, strict=True)], loss

        return train_step

    kept = make()
    for step in recorder:
        with recorder.marker(step):
            function = kept if recorder.fixed else make()
            params, loss = function(params, batch)  # type: ignore[operator]
            loss.block_until_ready()


def loaded_from_the_cache(recorder: Recorder) -> None:
    """As before, but JAX's compilation cache has the program: it is traced, lowered and loaded."""
    with tempfile.TemporaryDirectory() as cache:
        jax.config.update("jax_compilation_cache_dir", cache)
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
        new_function(recorder)


def closure(recorder: Recorder) -> None:
    """A constant that the function closes over changes in each step."""
    _, params, batch = mlp(256, 3)
    for step in recorder:
        with recorder.marker(step):
            scale = 1.0 if recorder.fixed else 1.0 + step
            if step == 0 or not recorder.fixed:

                @jax.jit
                def train_step(
                    params: Params, x: Array, scale: float = scale
                ) -> tuple[Params, Array]:
                    loss, grads = jax.value_and_grad(lambda p: scale * loss_of(p, x))(params)
                    return [w - 0.01 * g for w, g in zip(params, grads, strict=True)], loss

            params, loss = train_step(params, batch)
            loss.block_until_ready()


def first_step_compiles(recorder: Recorder) -> None:
    """The first step of the profile compiles; the others are clean."""
    train_step, params, batch = mlp()
    later = jax.jit(lambda params: [w * 0.999 for w in params])
    for step in recorder:
        with recorder.marker(step):
            params, loss = train_step(params, batch)
            if step >= recorder.first:
                params = later(params)
            loss.block_until_ready()


def lengths(recorder: Recorder) -> None:
    """Batches have one of four lengths, each compiled before: steps are short or long."""
    _, params, _ = mlp(512, 4)

    @jax.jit
    def train_step(params: Params, x: Array) -> tuple[Params, Array]:
        loss, grads = jax.value_and_grad(loss_of)(params, x)
        return [w - 0.01 * g for w, g in zip(params, grads, strict=True)], loss

    batches = [jnp.asarray(rows(count, 512)) for count in (64, 128, 512, 1024)]
    for step in recorder:
        with recorder.marker(step):
            params, loss = train_step(params, batches[2 if recorder.fixed else (step * 3) % 4])
            loss.block_until_ready()


def shape_every_fourth(recorder: Recorder) -> None:
    """Every fourth batch has a length that was not seen before."""
    _, params, _ = mlp(256, 3)

    @jax.jit
    def train_step(params: Params, x: Array) -> tuple[Params, Array]:
        loss, grads = jax.value_and_grad(loss_of)(params, x)
        return [w - 0.01 * g for w, g in zip(params, grads, strict=True)], loss

    for step in recorder:
        with recorder.marker(step):
            is_new = step % 4 == 3 and not recorder.fixed
            with recorder.loss() if is_new else nullcontext():
                batch = jnp.asarray(rows(64 + step if is_new else 64, 256))
                params, loss = train_step(params, batch)
                loss.block_until_ready()
