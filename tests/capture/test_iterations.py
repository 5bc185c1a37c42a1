"""Which calls begin an iteration: those that take new weights."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

from counterpoint.capture.agent.iterations import Iterations

pytest.importorskip("jax")

Array = NDArray[np.float32]


def array(size: int = 100) -> Array:
    return np.ones(size, np.float32)


def accumulated(parts: int, turns: int) -> Iterator[tuple[Array, ...]]:
    for _ in range(turns):
        weights = array()
        for _ in range(parts):
            yield weights, array(20)


def plain(turns: int, batch: Array | None = None) -> Iterator[tuple[Array, ...]]:
    for _ in range(turns):
        yield array(), array(200) if batch is None else batch


def scheduled(turns: int) -> Iterator[tuple[Array, ...]]:
    """A learning rate that changes now and then."""
    rate = array(1)
    for turn in range(turns):
        rate = array(1) if turn % 5 == 0 else rate
        yield array(), rate


def begun(calls: Iterator[tuple[Array, ...]]) -> tuple[int, int]:
    iterations = Iterations()
    begins = [iterations.call((given, {})) for given in calls]
    return iterations.count, sum(begins)


@pytest.mark.parametrize("parts", [1, 4, 16])
def test_calls_with_the_same_weights_are_one_iteration(parts: int) -> None:
    count, _ = begun(accumulated(parts, 9))
    assert count == 9


@pytest.mark.parametrize("calls", [plain(300), plain(300, array(200)), scheduled(300)])
def test_calls_with_new_weights_are_one_each(calls: Iterator[tuple[Array, ...]]) -> None:
    assert begun(calls) == (300, 300)


def test_of_a_first_iteration_each_call_counts_until_the_next_begins() -> None:
    iterations = Iterations()
    counts = [iterations.count for given in accumulated(4, 3) if iterations.call((given, {}))]
    assert counts == [1, 2, 3, 4, 2, 3]
