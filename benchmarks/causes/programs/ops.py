"""One operation that takes most of the step."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from recorder import Recorder

from programs.models import Array, mlp, rows


def _loop(recorder: Recorder, function: object, *arguments: Array) -> None:
    """Call one jitted function in each step, beside a small training step."""
    train_step, params, batch = mlp(256, 2, 64)
    jitted = jax.jit(function)  # type: ignore[arg-type]
    for step in recorder:
        with recorder.marker(step):
            params, loss = train_step(params, batch)
            jax.block_until_ready((jitted(*arguments), loss))


def sort(recorder: Recorder) -> None:
    """Ranks are found by sorting a quarter of a million numbers."""

    def train_step(x: Array) -> Array:
        return jnp.max(x) if recorder.fixed else jnp.sort(x)[-10:]

    _loop(recorder, train_step, jnp.asarray(rows(1, 1 << 18)[0]))


def scatter(recorder: Recorder) -> None:
    """A histogram: four million single numbers are added to a table."""

    def train_step(table: Array, ids: Array, grads: Array) -> Array:
        if recorder.fixed:
            return table + grads.sum() + ids.sum()
        return table.at[ids].add(grads)

    ids = jnp.asarray(jax.random.randint(jax.random.key(1), (1 << 22,), 0, 2000))
    _loop(recorder, train_step, jnp.zeros(2000), ids, jnp.asarray(rows(1, 1 << 22)[0]))


def gather(recorder: Recorder) -> None:
    """Four million single numbers are looked up."""

    def train_step(table: Array, ids: Array) -> Array:
        return table.sum() if recorder.fixed else table[ids].sum()

    ids = jax.random.randint(jax.random.key(1), (4 << 20,), 0, 1 << 22)
    _loop(recorder, train_step, jnp.ones(1 << 22), ids)


def cumulative_sum(recorder: Recorder) -> None:
    """A cumulative sum over a long axis, which becomes a reduce-window."""

    def train_step(x: Array) -> Array:
        return x.sum(1) if recorder.fixed else jnp.cumsum(x, 1)[:, -1]

    _loop(recorder, train_step, jnp.asarray(rows(64, 1 << 14)))


def transposes(recorder: Recorder) -> None:
    """A large array is transposed back and forth."""

    def train_step(x: Array) -> Array:
        if recorder.fixed:
            return x * 2
        y = lax.optimization_barrier(jnp.transpose(x, (2, 1, 0)))
        return lax.optimization_barrier(jnp.transpose(jnp.sin(y), (1, 0, 2)))

    _loop(recorder, train_step, jnp.ones((128, 256, 256)))


def random_masks(recorder: Recorder) -> None:
    """Dropout masks of three million numbers are drawn with threefry."""

    def train_step(key: Array, x: Array) -> Array:
        if recorder.fixed:
            return x * 0.9
        keys = jax.random.split(key, 3)
        return sum(x * jax.random.bernoulli(k, 0.9, x.shape) for k in keys)

    _loop(recorder, train_step, jax.random.key(2), jnp.ones(1 << 20))


def float64(recorder: Recorder) -> None:
    """One NumPy constant made all products float64."""
    jax.config.update("jax_enable_x64", True)
    kind = jnp.float32 if recorder.fixed else jnp.float64
    x, w = jnp.ones((512, 1024), kind), jnp.ones((1024, 1024), kind) / 1024

    def train_step(x: Array, w: Array) -> Array:
        for _ in range(6):
            x = jnp.tanh(x @ w)
        return x

    _loop(recorder, train_step, x, w)


def convolution(recorder: Recorder) -> None:
    """A convolution takes most of the step: that is its work."""

    def train_step(x: Array, w: Array) -> Array:
        out = lax.conv_general_dilated(
            x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        return out.mean()

    _loop(recorder, train_step, jnp.ones((16, 64, 64, 32)), jnp.ones((3, 3, 32, 32)))


def copies_in_a_loop(recorder: Recorder) -> None:
    """A scan carries 64 MB that it changes in a way that must be copied in each turn."""

    def train_step(x: Array) -> Array:
        def body(x: Array, i: Array) -> tuple[Array, Array]:
            if recorder.fixed:
                return x.at[i].add(1.0), x[i, 0]
            other = jnp.roll(x, 1, 0)
            return other.at[i].set(x[i]), x[i, 0]

        return lax.scan(body, x, jnp.arange(6))[0]

    _loop(recorder, train_step, jnp.ones((4096, 2048)))


def no_donation(recorder: Recorder) -> None:
    """A state of 200 MB is updated in one place, but not donated: all of it is copied."""
    donated = (0,) if recorder.fixed else ()

    @partial(jax.jit, donate_argnums=donated)
    def train_step(state: Array, i: Array) -> Array:
        return state.at[i].add(1.0)

    state = jnp.ones((12_500, 4096))
    for step in recorder:
        with recorder.marker(step):
            state = train_step(state, jnp.int32(step))
            state.block_until_ready()


def rematerialised(recorder: Recorder) -> None:
    """All layers are checkpointed though memory is plenty."""

    def layer(x: Array, w: Array) -> Array:
        return jnp.tanh(jnp.tanh(x @ w) @ w)

    if not recorder.fixed:
        layer = jax.checkpoint(layer)

    @jax.jit
    def train_step(params: list[Array], x: Array) -> list[Array]:
        def loss_of(params: list[Array]) -> Array:
            y = x
            for w in params:
                y = layer(y, w)
            return jnp.mean(y**2)

        grads = jax.grad(loss_of)(params)
        return [w - 0.01 * g for w, g in zip(params, grads, strict=True)]

    _, params, x = mlp(512, 6, 512)
    for step in recorder:
        with recorder.marker(step):
            params = jax.block_until_ready(train_step(params, x))


def one_hot(recorder: Recorder) -> None:
    """A product with a one-hot matrix of 4,000 columns looks up the embedding."""

    def train_step(table: Array, ids: Array) -> Array:
        if recorder.fixed:
            return table[ids].sum()
        return (jax.nn.one_hot(ids, 4000) @ table).sum()

    ids = jax.random.randint(jax.random.key(1), (2048,), 0, 4000)
    _loop(recorder, train_step, jnp.ones((4000, 256)), ids)


def segment_sum(recorder: Recorder) -> None:
    """Messages of a graph are summed at their targets, number by number."""

    def train_step(messages: Array, targets: Array) -> Array:
        if recorder.fixed:
            return messages.sum() + targets.sum()
        return jax.ops.segment_sum(messages, targets, 50_000)

    targets = jax.random.randint(jax.random.key(1), (1 << 21,), 0, 50_000)
    _loop(recorder, train_step, jnp.asarray(rows(1, 1 << 21)[0]), targets)


def argsort(recorder: Recorder) -> None:
    """Examples are ordered by their length."""

    def train_step(lengths: Array) -> Array:
        return lengths if recorder.fixed else jnp.argsort(lengths)

    _loop(recorder, train_step, jnp.asarray(rows(1, 1 << 17)[0]))


def noise(recorder: Recorder) -> None:
    """Normal noise is added to the inputs of a perceptron."""
    train_step, params, x = mlp(512, 4, 512)

    @jax.jit
    def noisy(key: Array, x: Array) -> Array:
        return x if recorder.fixed else x + 0.1 * jax.random.normal(key, (4, *x.shape)).sum(0)

    keys = jax.random.split(jax.random.key(3), recorder.steps)
    for step in recorder:
        with recorder.marker(step):
            params, loss = train_step(params, noisy(keys[step], x))
            jax.block_until_ready((params, loss))


def float64_constant(recorder: Recorder) -> None:
    """A float64 table of NumPy meets float32 activations."""
    jax.config.update("jax_enable_x64", True)
    kind = np.float32 if recorder.fixed else np.float64
    scale = np.linspace(0.9, 1.1, 768).astype(kind)

    def train_step(x: Array, w: Array) -> Array:
        x = x * scale
        for _ in range(5):
            x = jnp.tanh(x @ w)
        return x

    _loop(recorder, train_step, jnp.ones((512, 768), "f4"), jnp.ones((768, 768), "f4") / 768)


def undonated_cache(recorder: Recorder) -> None:
    """A cache of 64 MB gets one row in each step, and is not donated."""
    _cache(recorder, donated=recorder.fixed)


def donated_cache(recorder: Recorder) -> None:
    """The same cache, donated."""
    _cache(recorder, donated=True)


def _cache(recorder: Recorder, *, donated: bool) -> None:
    @partial(jax.jit, donate_argnames=("cache",) if donated else ())
    def train_step(cache: dict[str, Array], x: Array, w: Array, at: Array) -> dict[str, Array]:
        for _ in range(4):
            x = jnp.tanh(x @ w)
        return {
            name: jax.lax.dynamic_update_slice(rows_of, x[None, 0], (at, 0))
            for name, rows_of in cache.items()
        }

    cache = {"keys": jnp.zeros((16_384, 512)), "values": jnp.zeros((16_384, 512))}
    x, w = jnp.ones((256, 512)), jnp.ones((512, 512)) / 512
    for step in recorder:
        with recorder.marker(step):
            cache = jax.block_until_ready(train_step(cache, x, w, jnp.int32(step)))


def small_sort(recorder: Recorder) -> None:
    """A sort of a few numbers beside large products."""
    train_step, params, x = mlp(512, 4, 1024)
    ordered = jax.jit(jnp.sort)
    scores = jnp.asarray(rows(1, 1 << 11)[0])
    for step in recorder:
        with recorder.marker(step):
            params, loss = train_step(params, x)
            jax.block_until_ready((ordered(scores), loss))
