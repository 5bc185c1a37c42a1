"""Several devices: collectives, stragglers, pipelines. Each runs on four virtual devices."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec
from recorder import Recorder

from programs.models import Array, mesh, rows

P = PartitionSpec


def _split(x: Array, own: jax.sharding.Mesh) -> Array:
    """Place an array with its first dimension split over all devices."""
    return jax.device_put(x, NamedSharding(own, P(own.axis_names[0])))


def _whole(x: Array, own: jax.sharding.Mesh) -> Array:
    """Place a copy of an array on each device."""
    return jax.device_put(x, NamedSharding(own, P()))


def _chain(x: Array, count: int) -> Array:
    """Multiply a square matrix with itself some times."""
    return lax.fori_loop(0, count, lambda _, v: jnp.tanh(v @ v * 0.01), x)


def slow_device(recorder: Recorder) -> None:
    """Device 2 computes three times as long as the others before they sum their gradients."""
    own = mesh((4,), ("d",))

    @jax.jit
    @partial(jax.shard_map, mesh=own, in_specs=P("d"), out_specs=P("d"))
    def train_step(x: Array) -> Array:
        extra = 0 if recorder.fixed else 40
        count = jnp.where(lax.axis_index("d") == 2, 20 + extra, 20)
        y = _chain(x[0], count)
        return (x[0] + 1e-6 * lax.psum(y, "d"))[None]

    x = _split(jnp.ones((4, 192, 192)), own)
    for step in recorder:
        with recorder.marker(step):
            x = train_step(x).block_until_ready()


def slow_device_in_turn(recorder: Recorder) -> None:
    """Another device has more work in each step."""
    own = mesh((4,), ("d",))

    @jax.jit
    @partial(jax.shard_map, mesh=own, in_specs=(P("d"), P()), out_specs=P("d"))
    def train_step(x: Array, step: Array) -> Array:
        extra = 0 if recorder.fixed else 40
        count = jnp.where(lax.axis_index("d") == step % 4, 20 + extra, 20)
        y = _chain(x[0], count)
        return (x[0] + 1e-6 * lax.psum(y, "d"))[None]

    x = _split(jnp.ones((4, 192, 192)), own)
    for step in recorder:
        with recorder.marker(step):
            x = train_step(x, jnp.int32(step)).block_until_ready()


def large_all_reduce(recorder: Recorder) -> None:
    """16 MB of gradients are summed after little work."""
    own = mesh((4,), ("d",))

    @jax.jit
    @partial(jax.shard_map, mesh=own, in_specs=P("d"), out_specs=P("d"))
    def train_step(x: Array) -> Array:
        grads = jnp.sin(x)
        if not recorder.fixed:
            grads = lax.psum(grads, "d")
        return x - 1e-6 * grads

    x = _split(jnp.ones((4, 4 << 20)), own)
    for step in recorder:
        with recorder.marker(step):
            x = train_step(x).block_until_ready()


def gather_first(recorder: Recorder) -> None:
    """Weights of 16 MB are gathered before any work begins."""
    own = mesh((4,), ("d",))

    @jax.jit
    @partial(jax.shard_map, mesh=own, in_specs=(P("d"), P("d")), out_specs=P("d"), check_vma=False)
    def train_step(w: Array, x: Array) -> Array:
        whole = lax.all_gather(w, "d", tiled=True)
        return x + jnp.tanh(x @ whole[:256, :256]) * whole[-1, 0]

    w = _split(jnp.ones((2048, 2048)), own)
    x = _split(jnp.ones((1024, 256)), own)
    for step in recorder:
        with recorder.marker(step):
            x = train_step(w, x).block_until_ready()


def experts(recorder: Recorder) -> None:
    """Tokens go to experts and back: two all-to-alls of 4 MB around a small product."""
    own = mesh((4,), ("d",))

    @jax.jit
    @partial(jax.shard_map, mesh=own, in_specs=P("d"), out_specs=P("d"))
    def train_step(x: Array) -> Array:
        sent = lax.all_to_all(x, "d", 0, 0, tiled=True)
        out = jnp.tanh(sent)
        return lax.all_to_all(out, "d", 0, 0, tiled=True)

    x = _split(jnp.ones((4 * 1024, 1024)), own)
    for step in recorder:
        with recorder.marker(step):
            x = train_step(x).block_until_ready()


def chain_of_sums(recorder: Recorder) -> None:
    """A hundred tiny sums over all devices, each after the other."""
    own = mesh((4,), ("d",))

    @jax.jit
    @partial(jax.shard_map, mesh=own, in_specs=P("d"), out_specs=P("d"))
    def train_step(x: Array) -> Array:
        def body(_: int, v: Array) -> Array:
            return jnp.tanh(v + 1e-3 * lax.psum(v, "d"))

        return lax.fori_loop(0, 100, body, x)

    x = _split(jnp.ones((4, 64)), own)
    for step in recorder:
        with recorder.marker(step):
            x = train_step(x).block_until_ready()


def pipeline(recorder: Recorder) -> None:
    """Four stages and four microbatches: three of seven turns are a bubble."""
    own = mesh((4,), ("p",))
    microbatches, stages = 4, 4

    @jax.jit
    @partial(jax.shard_map, mesh=own, in_specs=(P("p"), P()), out_specs=P("p"), check_vma=False)
    def train_step(w: Array, batch: Array) -> Array:
        stage = lax.axis_index("p")
        held = jnp.zeros_like(batch[0])

        def turn(t: int, held: Array) -> Array:
            mine = t - stage
            works = (mine >= 0) & (mine < microbatches)
            x = jnp.where(stage == 0, batch[jnp.clip(t, 0, microbatches - 1)], held)
            y = lax.cond(works, lambda v: _layers(v, w[0]), lambda v: v, x)
            return lax.ppermute(y, "p", [(i, i + 1) for i in range(stages - 1)])

        return lax.fori_loop(0, microbatches + stages - 1, turn, held)[None]

    w = _split(jnp.ones((4, 256, 256)) / 256, own)
    batch = _whole(jnp.asarray(rows(4 * 256, 256)).reshape(4, 256, 256), own)
    for step in recorder:
        with recorder.marker(step):
            train_step(w, batch).block_until_ready()


def pipeline_unrolled(recorder: Recorder) -> None:
    """Three stages and three microbatches, turn after turn without a loop."""
    own = mesh((3,), ("p",))

    @jax.jit
    @partial(jax.shard_map, mesh=own, in_specs=(P("p"), P()), out_specs=P("p"), check_vma=False)
    def train_step(w: Array, batch: Array) -> Array:
        stage = lax.axis_index("p")
        held = jnp.zeros_like(batch[0])
        for turn in range(5):
            x = jnp.where(stage == 0, batch[min(turn, 2)], held)
            works = (turn >= stage) & (turn < stage + 3)
            y = lax.cond(works, lambda v: _layers(v, w[0]), lambda v: v, x)
            held = lax.ppermute(y, "p", [(0, 1), (1, 2)])
        return held[None]

    w = _split(jnp.ones((3, 256, 256)) / 256, own)
    batch = _whole(jnp.asarray(rows(3 * 256, 256)).reshape(3, 256, 256), own)
    for step in recorder:
        with recorder.marker(step):
            train_step(w, batch).block_until_ready()


def _layers(x: Array, w: Array) -> Array:
    return lax.fori_loop(0, 12, lambda _, v: jnp.tanh(v @ w), x)


def tensor_parallel(recorder: Recorder) -> None:
    """Two products of a layer are split over four devices: an all-reduce after each pair."""
    own = mesh((4,), ("m",))

    @jax.jit
    def train_step(x: Array, first: Array, second: Array) -> Array:
        for _ in range(4):
            x = jnp.tanh(jnp.tanh(x @ first) @ second)
        return x

    first = jax.device_put(jnp.ones((512, 512)) / 512, NamedSharding(own, P(None, "m")))
    second = jax.device_put(jnp.ones((512, 512)) / 512, NamedSharding(own, P("m", None)))
    x = _whole(jnp.ones((2048, 512)), own)
    for step in recorder:
        with recorder.marker(step):
            x = train_step(x, first, second).block_until_ready()


def devices_in_turn(recorder: Recorder) -> None:
    """A loop over devices waits for each before it calls the next: three of four are idle."""
    train = jax.jit(lambda x: _chain(x, 30))
    held = [jax.device_put(jnp.ones((192, 192)), device) for device in jax.devices()]
    for step in recorder:
        with recorder.marker(step):
            outs = []
            for x in held:
                out = train(x)
                if not recorder.fixed:
                    out.block_until_ready()
                outs.append(out)
            jax.block_until_ready(outs)


def balanced(recorder: Recorder) -> None:
    """Data parallel, balanced, a small all-reduce: nothing to speak of."""
    own = mesh((4,), ("d",))

    @jax.jit
    @partial(jax.shard_map, mesh=own, in_specs=P("d"), out_specs=P("d"))
    def train_step(x: Array) -> Array:
        y = _chain(x[0], 120)
        return (x[0] + 1e-6 * lax.psum(y.mean(), "d"))[None]

    x = _split(jnp.ones((4, 192, 192)), own)
    for step in recorder:
        with recorder.marker(step):
            x = train_step(x).block_until_ready()


def twice_the_work(recorder: Recorder) -> None:
    """Device 3 executes twice as many layers as the others between each two of three sums."""
    own = mesh((4,), ("d",))

    @jax.jit
    @partial(jax.shard_map, mesh=own, in_specs=P("d"), out_specs=P("d"))
    def train_step(x: Array) -> Array:
        has_more = lax.axis_index("d") == (-1 if recorder.fixed else 3)
        y = x[0]
        for _ in range(3):
            y = _chain(y, jnp.where(has_more, 40, 20))
            y = y + 1e-6 * lax.psum(y.mean(), "d")
        return y[None]

    x = _split(jnp.ones((4, 192, 192)), own)
    for step in recorder:
        with recorder.marker(step):
            x = train_step(x).block_until_ready()


def equal_devices(recorder: Recorder) -> None:
    """Devices with equal work meet six times in a step, and come as the cores let them."""
    own = mesh((4,), ("d",))

    @jax.jit
    @partial(jax.shard_map, mesh=own, in_specs=P("d"), out_specs=P("d"))
    def train_step(x: Array) -> Array:
        y = x[0]
        for _ in range(6):
            y = _chain(y, 20)
            y = y + 1e-6 * lax.psum(y.mean(), "d")
        return y[None]

    x = _split(jnp.ones((4, 288, 288)), own)
    for step in recorder:
        with recorder.marker(step):
            x = train_step(x).block_until_ready()
