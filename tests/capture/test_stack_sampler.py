"""The sampler of stacks: which functions it names, and what it tells of a thread's work."""

from __future__ import annotations

import sys
import threading
import time
import zlib
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import pytest

from counterpoint.capture.agent import stack_sampler
from counterpoint.capture.agent.stack_sampler import StackSampler

Said = dict[str, Any]


@contextmanager
def sampling() -> Generator[list[Said]]:
    """Collect the samples that are taken meanwhile."""
    found: list[Said] = []

    def annotation(name: str, **said: object) -> AbstractContextManager[None]:
        found.append({"name": name, **said})
        return nullcontext()

    sampler = StackSampler(annotation)
    sampler.start()
    yield found
    sampler.stop()


def samples_of(works: Callable[[], object]) -> list[Said]:
    """The samples of a thread that does this for some time."""
    over = threading.Event()

    def go_on() -> None:
        while not over.is_set():
            works()

    thread = threading.Thread(target=go_on, daemon=True)
    thread.start()
    own: list[Said] = []
    with sampling() as found:
        deadline = time.monotonic() + 20
        while len(own) < 20 and time.monotonic() < deadline:
            time.sleep(0.1)
            own = [it for it in found if it["thread"] == thread.native_id and "stack" in it]
    over.set()
    thread.join()
    return own


def ran_us(samples: list[Said]) -> int:
    return int(samples[-1]["ran"] - samples[0]["ran"])


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux counts it")
def test_a_sample_tells_whether_a_thread_runs_python_native_code_or_nothing() -> None:
    text = bytes(range(256)) * 4000
    python = samples_of(lambda: sum(number * number for number in range(20_000)))
    native = samples_of(lambda: zlib.compress(text, 9))
    asleep = samples_of(lambda: time.sleep(0.01))
    assert sum(it["python"] for it in python) > len(python) / 2
    assert sum(it["python"] for it in native) < len(native) / 2
    assert ran_us(python) > 10 * ran_us(asleep)
    assert ran_us(native) > 10 * ran_us(asleep)


def test_functions_of_counterpoint_itself_are_not_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stack_sampler, "_OWN", __file__)
    with sampling() as found:
        time.sleep(0.1)
    assert not any("test_stack_sampler" in it["stack"] for it in found if "stack" in it)


def test_functions_of_the_program_are_named() -> None:
    with sampling() as found:
        time.sleep(0.1)
    assert any("test_stack_sampler" in it["stack"] for it in found if "stack" in it)
