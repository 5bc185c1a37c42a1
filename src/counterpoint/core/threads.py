"""Work on several cores of one process: numpy and polars release the interpreter's lock."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Final, TypeVar

__all__ = ["beside", "cores", "on_threads"]

S = TypeVar("S")
T = TypeVar("T")

_MOST: Final = 8


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(min(cores(), _MOST), "counterpoint")


def on_threads(do: Callable[[S], T], items: Iterable[S]) -> list[T]:
    """Return `do` of each item, in order; it must not wait for other work on threads itself."""
    given = list(items)
    if len(given) < 2 or cores() < 2:
        return [do(item) for item in given]
    return list(_threads().map(do, given))


def beside(do: Callable[[], T]) -> Callable[[], T]:
    """Start `do` on a thread; what is returned waits for its result. On one core it does it."""
    return do if cores() < 2 else _threads().submit(do).result
