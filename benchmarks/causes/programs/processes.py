"""Several processes of one job, each with a part of its devices."""

from __future__ import annotations

import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from recorder import Recorder

from programs.models import Array


def _step(recorder: Recorder, load_batch: Callable[[], None]) -> None:
    """Train on rows that each process has a part of."""
    rows = NamedSharding(Mesh(np.array(jax.devices()), ("d",)), PartitionSpec("d"))

    @jax.jit
    def train_step(w: Array, x: Array) -> Array:
        return w - 0.01 * jax.grad(lambda w: jnp.mean(jnp.tanh(x @ w) ** 2))(w)

    w = jnp.ones((192, 192))
    own = np.ones((16384 * jax.local_device_count(), 192), np.float32)
    x = jax.make_array_from_process_local_data(rows, own)
    for step in recorder:
        with recorder.marker(step):
            load_batch()
            w = train_step(w, x).block_until_ready()


def sleeping_process(recorder: Recorder) -> None:
    """Process 1 waits 40 ms for each of its batches, and the other for it."""

    def load_batch() -> None:
        if jax.process_index() == 1 and not recorder.fixed:
            with recorder.loss():
                time.sleep(0.04)

    _step(recorder, load_batch)


def even_processes(recorder: Recorder) -> None:
    """Both processes do the same."""

    def load_batch() -> None:
        time.sleep(0.0)

    _step(recorder, load_batch)
