"""Copies between the host and devices, and between layouts of devices."""

from __future__ import annotations

import time

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec
from recorder import Recorder

from programs.models import Array, mesh, mlp, rows

_BIG = 48 << 20
"""Floats of a large array: 192 MB."""


def big_device_put(recorder: Recorder) -> None:
    """Each step puts 192 MB of new data on the device and waits for them."""
    train_step, params, batch = mlp()
    data = np.ones(1024 if recorder.fixed else _BIG, np.float32)
    use = jax.jit(lambda x: x[:8] * 2)
    for step in recorder:
        with recorder.marker(step):
            with recorder.loss():
                x = jax.device_put(data).block_until_ready()
            params, loss = train_step(params, batch)
            use(x)
            loss.block_until_ready()


def numpy_argument(recorder: Recorder) -> None:
    """A jitted function is called with 192 MB of NumPy in each step."""
    train_step, params, batch = mlp()
    data = np.ones(1024 if recorder.fixed else _BIG, np.float32)
    use = jax.jit(lambda x, loss: x[:8] * loss)
    for step in recorder:
        with recorder.marker(step):
            params, loss = train_step(params, batch)
            use(data, loss).block_until_ready()


def transposed_device_put(recorder: Recorder) -> None:
    """64 MB that are not contiguous on the host are put on the device in each step."""
    train_step, params, batch = mlp()
    side = 32 if recorder.fixed else 4096
    data = np.ones((side, side), np.float32).T
    use = jax.jit(lambda x: x[0] * 2)
    for step in recorder:
        with recorder.marker(step):
            with recorder.loss():
                x = jax.device_put(data).block_until_ready()
            params, loss = train_step(params, batch)
            use(x)
            loss.block_until_ready()


def results_to_the_host(recorder: Recorder) -> None:
    """128 MB of activations are copied to the host in each step."""
    train_step, params, batch = mlp()
    size = 1024 if recorder.fixed else 32 << 20
    grow = jax.jit(lambda x: jnp.broadcast_to(x[:1, 0], (size,)) + 1)
    for step in recorder:
        with recorder.marker(step):
            params, loss = train_step(params, batch)
            out = grow(params[0]).block_until_ready()
            with recorder.loss():
                np.array(out)
            loss.block_until_ready()


def reshard(recorder: Recorder) -> None:
    """Each step makes 64 MB replicated that were sharded over four devices."""
    train_step, params, batch = mlp()
    own = mesh((4,), ("d",))
    sharded = NamedSharding(own, PartitionSpec("d"))
    whole = NamedSharding(own, PartitionSpec())
    side = 64 if recorder.fixed else 4096
    x = jax.device_put(np.ones((side, side), np.float32), sharded)
    for step in recorder:
        with recorder.marker(step):
            params, loss = train_step(params, batch)
            loss.block_until_ready()
            with recorder.loss():
                jax.device_put(x, whole).block_until_ready()


def offload(recorder: Recorder) -> None:
    """128 MB go to pinned host memory and come back in each step."""
    train_step, params, batch = mlp()
    size = 1024 if recorder.fixed else 32 << 20
    device = jax.devices()[0]
    there = jax.sharding.SingleDeviceSharding(device, memory_kind="pinned_host")
    back = jax.sharding.SingleDeviceSharding(device, memory_kind="device")
    state = jnp.ones(size)
    for step in recorder:
        with recorder.marker(step):
            params, loss = train_step(params, batch)
            loss.block_until_ready()
            with recorder.loss():
                out = jax.device_put(state, there)
                state = jax.device_put(out, back).block_until_ready()


def small_batches(recorder: Recorder) -> None:
    """A batch of two megabytes is put on the device in each step: nothing to speak of."""
    train_step, params, _ = mlp(512, 8, 1024)
    host_rows = rows(1024, 512)
    for step in recorder:
        with recorder.marker(step):
            params, loss = train_step(params, jax.device_put(host_rows))
            loss.block_until_ready()


def ahead(recorder: Recorder) -> None:
    """The next batch of 4 MB is put on the device while the step runs."""
    train_step, params, _ = mlp(512, 6, 2048)
    host_rows = rows(2048, 512)
    batch: Array = jax.device_put(host_rows)
    for step in recorder:
        with recorder.marker(step):
            params, loss = train_step(params, batch)
            batch = jax.device_put(host_rows)
            loss.block_until_ready()
    time.sleep(0)
