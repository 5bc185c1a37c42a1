"""Python, results, threads and hooks beside the training step."""

from __future__ import annotations

import gc
import json
import threading
import time
import zlib
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from recorder import Recorder

from programs.models import Array, mlp, rows


def item_then_python(recorder: Recorder) -> None:
    """.item() waits for the step; then 30 ms of Python run while the device is idle."""
    train_step, params, batch = mlp()

    def log_metrics(value: float) -> None:
        until = time.perf_counter() + 0.03
        while time.perf_counter() < until:
            value += 1e-9

    for step in recorder:
        with recorder.marker(step):
            params, loss = train_step(params, batch)
            value = loss.item()
            if not recorder.fixed:
                with recorder.loss():
                    log_metrics(value)


def many_floats(recorder: Recorder) -> None:
    """Two hundred numbers are read one by one after each step."""
    train_step, params, batch = mlp()
    norms = jax.jit(lambda params: [jnp.sum(w[i]) for w in params for i in range(50)])
    loss: Array = None
    for step in recorder:
        with recorder.marker(step):
            params, loss = train_step(params, batch)
            found = norms(params)
            if not recorder.fixed:
                found[-1].block_until_ready()
                with recorder.loss():
                    for number in found:
                        float(number)
    loss.block_until_ready()


def metrics_every_sixth(recorder: Recorder) -> None:
    """Every sixth step fetches the loss and writes for 120 ms; the others are not waited for."""
    recorder.steps, recorder.count = 36, 24  # three of them, whole
    train_step, params, batch = mlp()

    def write_metrics(value: float) -> str:
        time.sleep(0.12)
        return f"loss {value}"

    for step in recorder:
        with recorder.marker(step):
            params, loss = train_step(params, batch)
            if step % 6 == 5 and not recorder.fixed:
                value = float(jax.device_get(loss))
                with recorder.loss():
                    write_metrics(value)
    jax.block_until_ready(params)


def checkpoint_every_fourth(recorder: Recorder) -> None:
    """Every fourth step saves the weights, compressed, on the main thread."""
    train_step, params, batch = mlp()
    place = recorder.out / "checkpoint"
    recorder.out.mkdir(parents=True, exist_ok=True)

    def save_checkpoint() -> None:
        np.savez_compressed(place, *[np.asarray(w) for w in params])

    for step in recorder:
        with recorder.marker(step):
            params, loss = train_step(params, batch)
            loss.block_until_ready()
            if step % 4 == 3 and not recorder.fixed:
                with recorder.loss():
                    save_checkpoint()


def small_checkpoint_every_third(recorder: Recorder) -> None:
    """Every third step saves the weights, uncompressed: a third of the steps are a bit longer."""
    train_step, params, batch = mlp()
    place = recorder.out / "checkpoint"
    recorder.out.mkdir(parents=True, exist_ok=True)

    def save_weights() -> None:
        for index, w in enumerate(params * 3):
            Path(f"{place}{index}").write_bytes(np.asarray(w).tobytes())

    for step in recorder:
        with recorder.marker(step):
            params, loss = train_step(params, batch)
            loss.block_until_ready()
            if step % 3 == 2 and not recorder.fixed:
                with recorder.loss():
                    save_weights()
                    time.sleep(0.02)


def hook_every_fourth(recorder: Recorder) -> None:
    """A hook of 250 ms runs in every fourth step, the first of the profile among them."""
    train_step, params, batch = mlp()

    def evaluate_bleu() -> None:
        time.sleep(0.25)

    for step in recorder:
        with recorder.marker(step):
            params, loss = train_step(params, batch)
            loss.block_until_ready()
            if step % 4 == 0 and not recorder.fixed:
                with recorder.loss():
                    evaluate_bleu()


def one_outlier(recorder: Recorder) -> None:
    """A token is refreshed once, which takes 400 ms."""
    train_step, params, batch = mlp()

    def refresh_token() -> None:
        time.sleep(0.4)

    for step in recorder:
        with recorder.marker(step):
            if step == 11 and not recorder.fixed:
                with recorder.loss():
                    refresh_token()
            params, loss = train_step(params, batch)
            loss.block_until_ready()


def validation_every_sixth(recorder: Recorder) -> None:
    """After every sixth step a validation of 90 ms of Python runs between the steps."""
    train_step, params, batch = mlp()

    def validate() -> None:
        time.sleep(0.09)

    for step in recorder:
        with recorder.marker(step):
            params, loss = train_step(params, batch)
            loss.block_until_ready()
        if step % 6 == 5 and not recorder.fixed:
            with recorder.loss():
                validate()


def garbage_collection(recorder: Recorder) -> None:
    """gc.collect runs in every step over many objects."""
    train_step, params, batch = mlp()
    objects = [] if recorder.fixed else [[i] for i in range(800_000)]
    for step in recorder:
        with recorder.marker(step):
            params, loss = train_step(params, batch)
            loss.block_until_ready()
            if not recorder.fixed:
                with recorder.loss():
                    gc.collect()
    del objects


def slow_writes(recorder: Recorder) -> None:
    """The log is written to a slow place: 4 times 12 ms per step."""
    train_step, params, batch = mlp()

    def write_line(_: str) -> None:
        time.sleep(0.012)

    for step in recorder:
        with recorder.marker(step):
            params, loss = train_step(params, batch)
            loss.block_until_ready()
            if not recorder.fixed:
                with recorder.loss():
                    for part in range(4):
                        write_line(json.dumps({"step": step, "part": part}))


def fetch_in_marker(recorder: Recorder) -> None:
    """Metrics are fetched and turned into text for 20 ms inside each step."""
    train_step, params, batch = mlp()

    def render(values: np.ndarray) -> str:
        until = time.perf_counter() + 0.02
        text = ""
        while time.perf_counter() < until:
            text = json.dumps(values[:20].tolist())
        return text

    for step in recorder:
        with recorder.marker(step):
            params, _ = train_step(params, batch)
            values = np.asarray(params[0][0])
            if not recorder.fixed:
                with recorder.loss():
                    render(values)


def busy_python_thread(recorder: Recorder) -> None:
    """Another thread computes in Python all the time and holds the interpreter's lock."""
    train_step, params, batch = mlp(256, 2, 64)
    step_more = jax.jit(lambda x: x + 1)
    counter = jnp.zeros(8)
    stop = threading.Event()

    def count_words() -> None:
        while not stop.is_set():
            sum(i * i for i in range(20_000))

    worker = threading.Thread(target=count_words, daemon=True)
    if not recorder.fixed:
        worker.start()
    for step in recorder:
        with recorder.marker(step):
            for _ in range(4):
                params, loss = train_step(params, batch)
                counter = step_more(counter)
            loss.block_until_ready()
    stop.set()


def compressing_threads(recorder: Recorder) -> None:
    """Three threads compress data and take the cores from the step."""
    train_step, params, batch = mlp(1024)
    data = rows(512, 1024).tobytes()
    stop = threading.Event()

    def compress() -> None:
        while not stop.is_set():
            zlib.compress(data, 6)

    workers = [threading.Thread(target=compress, daemon=True) for _ in range(3)]
    if not recorder.fixed:
        for worker in workers:
            worker.start()
    for step in recorder:
        with recorder.marker(step):
            params, loss = train_step(params, batch)
            loss.block_until_ready()
    stop.set()


def held_lock(recorder: Recorder) -> None:
    """A metrics thread holds a lock for 25 ms of each 50 that every step needs, too."""
    train_step, params, batch = mlp()
    lock, stop = threading.Lock(), threading.Event()

    def flush_metrics() -> None:
        while not stop.is_set():
            with lock:
                time.sleep(0.025)
            time.sleep(0.001)

    worker = threading.Thread(target=flush_metrics, daemon=True)
    if not recorder.fixed:
        worker.start()
    for step in recorder:
        with recorder.marker(step):
            params, loss = train_step(params, batch)
            loss.block_until_ready()
            with recorder.loss(), lock:
                pass
    stop.set()


def actor_thread(recorder: Recorder) -> None:
    """An actor on another thread runs a small policy and sleeps; the learner loses nothing."""
    train_step, params, batch = mlp(512, batch=1024)
    policy = jax.jit(jnp.tanh)
    stop = threading.Event()

    def act() -> None:
        x = jnp.zeros(64)
        while not stop.is_set():
            policy(x).block_until_ready()
            time.sleep(0.003)

    worker = threading.Thread(target=act, daemon=True)
    worker.start()
    for step in recorder:
        with recorder.marker(step):
            params, loss = train_step(params, batch)
            loss.block_until_ready()
    stop.set()


def awaited_event(recorder: Recorder) -> None:
    """Each step asks a thread to send its metrics, and waits 40 ms until they are sent."""
    train_step, params, batch = mlp()
    asked, sent, stop = threading.Event(), threading.Event(), threading.Event()

    def send_metrics() -> None:
        if not recorder.fixed:
            time.sleep(0.04)

    def serve() -> None:
        while not stop.is_set():
            if asked.wait(0.05):
                asked.clear()
                send_metrics()
                sent.set()

    worker = threading.Thread(target=serve, daemon=True)
    worker.start()
    for step in recorder:
        with recorder.marker(step):
            params, loss = train_step(params, batch)
            loss.block_until_ready()
            with recorder.loss():
                sent.clear()
                asked.set()
                sent.wait()
    stop.set()
    worker.join()


def checks_for_nan(recorder: Recorder) -> None:
    """Whether the loss is a number is asked after each step, and 20 ms of Python follow."""
    train_step, params, batch = mlp()

    def report(step: int) -> None:
        until = time.perf_counter() + 0.02
        while time.perf_counter() < until:
            step += 1

    for step in recorder:
        with recorder.marker(step):
            params, loss = train_step(params, batch)
            if bool(jnp.isnan(loss)):
                raise FloatingPointError("the loss is not a number")
            if not recorder.fixed:
                with recorder.loss():
                    report(step)


def detokenizes(recorder: Recorder) -> None:
    """A sample is fetched and decoded to text in each step."""
    train_step, params, batch = mlp()
    words = [f"word{number}" for number in range(5_000)]

    def detokenize(tokens: np.ndarray) -> str:
        return " ".join(words[int(abs(token) * 1e3) % 5_000] for token in tokens.ravel()[:60_000])

    for step in recorder:
        with recorder.marker(step):
            params, loss = train_step(params, batch)
            loss.block_until_ready()
            if not recorder.fixed:
                with recorder.loss():
                    detokenize(np.asarray(params[0]))


def appends_to_a_log(recorder: Recorder) -> None:
    """The loss of each step is appended to a file, which takes next to nothing."""
    train_step, params, batch = mlp(512, batch=1024)
    recorder.out.mkdir(parents=True, exist_ok=True)
    path = recorder.out / "log.jsonl"
    for step in recorder:
        with recorder.marker(step):
            params, loss = train_step(params, batch)
            with path.open("a") as log:
                log.write(json.dumps({"step": step, "loss": float(loss)}) + "\n")
