"""Batches that come too late."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from multiprocessing.pool import ThreadPool

import jax
import numpy as np
from recorder import Recorder

from programs.models import Array, mlp, rows


def sleeping_loader(recorder: Recorder) -> None:
    """The loader takes 45 ms on the main thread, and nothing is fetched ahead."""
    train_step, params, _ = mlp()

    def load_batch() -> np.ndarray:
        if not recorder.fixed:
            time.sleep(0.045)
        return host_rows

    host_rows = rows(256, 512)
    for step in recorder:
        with recorder.marker(step):
            with recorder.loss():
                batch = load_batch()
            params, loss = train_step(params, batch)
            loss.block_until_ready()


def working_loader(recorder: Recorder) -> None:
    """The loader computes in Python for some 20 ms."""
    train_step, params, _ = mlp()
    host_rows = rows(256, 512)

    def tokenize() -> int:
        return sum(hash((word, word * 3)) % 7 for word in range(60_000))

    def get_batch() -> np.ndarray:
        if not recorder.fixed:
            tokenize()
        return host_rows

    for step in recorder:
        with recorder.marker(step):
            with recorder.loss():
                batch = get_batch()
            params, loss = train_step(params, batch)
            loss.block_until_ready()


def loader_before_the_marker(recorder: Recorder) -> None:
    """The batch is fetched before the marker begins, in a loop that is not blocked."""
    train_step, params, _ = mlp()
    host_rows = rows(256, 512)
    loss: Array = None

    def read_records() -> np.ndarray:
        if not recorder.fixed:
            time.sleep(0.07)
        return host_rows

    for step in recorder:
        with recorder.loss():
            batch = read_records()
        with recorder.marker(step):
            params, loss = train_step(params, batch)
        if recorder.fixed:  # the stopwatch of a host that is far ahead shows no step
            loss.block_until_ready()
    loss.block_until_ready()


def generator(recorder: Recorder) -> None:
    """A generator yields a batch every 35 ms; the device computes meanwhile."""
    train_step, params, _ = mlp()
    host_rows = rows(256, 512)

    def batches() -> Iterator[np.ndarray]:
        while True:
            if not recorder.fixed:
                time.sleep(0.035)
            yield host_rows

    source = batches()
    loss: Array = None
    for step in recorder:
        with recorder.marker(step):
            batch = next(source)
            if loss is not None:
                loss.block_until_ready()
            params, loss = train_step(params, batch)


def iterator_class(recorder: Recorder) -> None:
    """A data set of one's own whose __next__ decodes for 30 ms."""
    train_step, params, _ = mlp()

    class Records:
        def __iter__(self) -> Records:
            return self

        def __next__(self) -> np.ndarray:
            if not recorder.fixed:
                time.sleep(0.03)
            return host_rows

    host_rows = rows(256, 512)
    records = iter(Records())
    for step in recorder:
        with recorder.marker(step):
            with recorder.loss():
                batch = next(records)
            params, loss = train_step(params, batch)
            loss.block_until_ready()


def slow_loader_thread(recorder: Recorder) -> None:
    """A thread needs 60 ms for a batch; the loop waits in Queue.get."""
    train_step, params, _ = mlp()
    host_rows = rows(256, 512)
    ready: queue.Queue[np.ndarray] = queue.Queue(maxsize=2)
    stop = threading.Event()

    def produce() -> None:
        while not stop.is_set():
            if not recorder.fixed:
                time.sleep(0.06)
            while not stop.is_set():
                try:
                    ready.put(host_rows, timeout=0.1)
                    break
                except queue.Full:
                    continue

    worker = threading.Thread(target=produce, daemon=True)
    worker.start()
    for step in recorder:
        with recorder.marker(step):
            with recorder.loss():
                batch = ready.get()
            params, loss = train_step(params, batch)
            loss.block_until_ready()
    stop.set()
    worker.join()


def futures(recorder: Recorder) -> None:
    """Two workers prepare batches of 90 ms each; the loop waits for a future."""
    train_step, params, _ = mlp()
    host_rows = rows(256, 512)

    def prepare(_: int) -> np.ndarray:
        if not recorder.fixed:
            time.sleep(0.09)
        return host_rows

    with ThreadPoolExecutor(2) as pool:
        waiting = [pool.submit(prepare, index) for index in range(2)]
        for step in recorder:
            with recorder.marker(step):
                with recorder.loss():
                    batch = waiting.pop(0).result()
                waiting.append(pool.submit(prepare, step))
                params, loss = train_step(params, batch)
                loss.block_until_ready()


def every_fifth_batch(recorder: Recorder) -> None:
    """Every fifth batch opens a new file, which takes 150 ms."""
    recorder.count = 15  # whole periods
    train_step, params, _ = mlp()
    host_rows = rows(256, 512)

    def load_batch(step: int) -> np.ndarray:
        if step % 5 == 4 and not recorder.fixed:
            open_next_file()
        return host_rows

    def open_next_file() -> None:
        time.sleep(0.15)

    for step in recorder:
        with recorder.marker(step):
            with recorder.loss():
                batch = load_batch(step)
            params, loss = train_step(params, batch)
            loss.block_until_ready()


def slower_and_slower(recorder: Recorder) -> None:
    """Each batch takes 3 ms longer than the one before."""
    train_step, params, _ = mlp()
    host_rows = rows(256, 512)

    def load_batch(step: int) -> np.ndarray:
        if not recorder.fixed:
            time.sleep(0.003 * step)
        return host_rows

    for step in recorder:
        with recorder.marker(step):
            with recorder.loss():
                batch = load_batch(step)
            params, loss = train_step(params, batch)
            loss.block_until_ready()


def annotated(recorder: Recorder) -> None:
    """The user's own annotation says that 50 ms are spent on data."""
    train_step, params, _ = mlp()
    host_rows = rows(256, 512)
    for step in recorder:
        with recorder.marker(step):
            with recorder.loss(), jax.profiler.TraceAnnotation("data"):
                if not recorder.fixed:
                    time.sleep(0.05)
            params, loss = train_step(params, host_rows)
            loss.block_until_ready()


def fast_loader_thread(recorder: Recorder) -> None:
    """A thread prepares batches faster than they are used: nothing is lost."""
    train_step, params, _ = mlp(512, batch=1024)
    host_rows = rows(1024, 512)
    ready: queue.Queue[Array] = queue.Queue(maxsize=4)
    stop = threading.Event()

    def produce() -> None:
        while not stop.is_set():
            time.sleep(0.001)
            try:
                ready.put(jax.device_put(host_rows), timeout=0.1)
            except queue.Full:
                continue

    worker = threading.Thread(target=produce, daemon=True)
    worker.start()
    time.sleep(0.05)
    for step in recorder:
        with recorder.marker(step):
            params, loss = train_step(params, ready.get())
            loss.block_until_ready()
    stop.set()
    worker.join()


def thread_pool(recorder: Recorder) -> None:
    """A pool of two threads decodes the batches, two ahead: 100 ms each."""
    train_step, params, _ = mlp()
    host_rows = rows(256, 512)

    def decode(_: int) -> np.ndarray:
        if not recorder.fixed:
            time.sleep(0.1)
        return host_rows

    with ThreadPool(2) as pool:
        waiting = [pool.apply_async(decode, (index,)) for index in range(2)]
        for step in recorder:
            with recorder.marker(step):
                with recorder.loss():
                    batch = waiting.pop(0).get()
                waiting.append(pool.apply_async(decode, (step,)))
                params, loss = train_step(params, batch)
                loss.block_until_ready()


def own_buffer(recorder: Recorder) -> None:
    """A buffer of one's own, with a condition, is filled every 50 ms."""
    train_step, params, _ = mlp()
    host_rows = rows(256, 512)
    ready: list[np.ndarray] = []
    filled = threading.Condition()
    stop = threading.Event()

    def read_shard() -> np.ndarray:
        if not recorder.fixed:
            time.sleep(0.05)
        return host_rows

    def fill() -> None:
        while not stop.is_set():
            shard = read_shard()
            with filled:
                ready[:] = [*ready[-2:], shard]
                filled.notify()

    def take() -> np.ndarray:
        with filled:
            filled.wait_for(lambda: ready)
            return ready.pop()

    worker = threading.Thread(target=fill, daemon=True)
    worker.start()
    for step in recorder:
        with recorder.marker(step):
            with recorder.loss():
                batch = take()
            params, loss = train_step(params, batch)
            loss.block_until_ready()
    stop.set()
    worker.join()


def collated(recorder: Recorder) -> None:
    """Each batch is put together from many small arrays."""
    train_step, params, _ = mlp()
    samples = [rows(1, 512, seed) for seed in range(64)]

    def collate() -> np.ndarray:
        if recorder.fixed:
            return samples[0].repeat(256, axis=0)
        picked = [samples[(7 * turn) % 64] * 1.0 for turn in range(6_000)]
        return np.concatenate(picked)[-256:]

    for step in recorder:
        with recorder.marker(step):
            with recorder.loss():
                batch = collate()
            params, loss = train_step(params, batch)
            loss.block_until_ready()


def prefetched(recorder: Recorder) -> None:
    """A thread prepares batches two steps ahead, and fast enough: nothing is lost."""
    train_step, params, _ = mlp(512, batch=1024)
    batches = queue.Queue[np.ndarray](maxsize=2)
    stop = threading.Event()

    def prepare() -> None:
        while not stop.is_set():
            time.sleep(0.004)
            with suppress(queue.Full):
                batches.put(rows(1024, 512), timeout=0.1)

    threading.Thread(target=prepare, daemon=True).start()
    ahead = jax.device_put(batches.get())
    for step in recorder:
        with recorder.marker(step):
            params, loss = train_step(params, ahead)
            ahead = jax.device_put(batches.get())
            loss.block_until_ready()
    stop.set()
