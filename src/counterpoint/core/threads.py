"""Work on several cores of one process: numpy and polars release the interpreter's lock."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Final, TypeVar

__all__ = ["MANY_ROWS", "beside", "cores", "on_threads"]

S = TypeVar("S")
T = TypeVar("T")

_MOST: Final = 8
MANY_ROWS: Final = 1 << 17
"""Rows from which on numpy spends more time without the interpreter's lock than with it."""


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(min(cores(), _MOST), "counterpoint")


def on_threads(do: Callable[[S], T], items: Iterable[S], *, rows: int = MANY_ROWS) -> list[T]:
    """Return `do` of each item, in order; it must not wait for other work on threads itself.

    If the items have few `rows` in all, threads would cost more than they save.
    """
    given = list(items)
    if len(given) < 2 or rows < MANY_ROWS or cores() < 2:
        return [do(item) for item in given]
    return list(_threads().map(do, given))


def beside(do: Callable[[], T]) -> Callable[[], T]:
    """Start `do` on a thread; what is returned waits for its result. On one core it does it."""
    return do if cores() < 2 else _threads().submit(do).result
