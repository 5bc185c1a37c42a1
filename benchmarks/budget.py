"""What `explain` may cost, counted so that a busy machine changes nothing; CI runs it.

A capture is made from a seed, read and explained. For every table and rule it counts how many
queries polars ran, how many cells those returned, and how many elements numpy sorted or searched.
Each has a limit in budget.toml: what was counted when it was last written, plus a tenth. So a rule
that becomes dearer fails by its name, on any machine. The levels that `view` draws are a part, too.
The operations on sets of intervals, which everything is made of, are counted one by one on sets of
their own: a sort in one of them alone would be lost in the parts that use it.

One share is counted, too: the bytes of events that threads decode, outside the interpreter's lock.
What a second core gains depends on it, but no less on the machine, so that gain itself is none.

Two figures are measured: memory above that of the loaded program, per byte of the capture, and
processor time after reading, as a share of reading. Their limits leave room for noise.

    python benchmarks/budget.py            exit code 1 if a limit is exceeded
    python benchmarks/budget.py --write    write today's counts into budget.toml
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Lock, current_thread, main_thread
from typing import Any, Final, ParamSpec, TypeVar, cast
from unittest import mock

sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
import polars as pl

from counterpoint.core.columns import union, values_of
from counterpoint.core.stopwatch import Stopwatch
from counterpoint.diagnose.explanation import explain
from counterpoint.timeline.model import Timeline
from counterpoint.timeline.reading import read
from counterpoint.timeline.xplane import native
from counterpoint.view.picture import draw
from synthetic_hosts import Cluster, host_spaces

LIMITS: Final = Path(__file__).with_name("budget.toml")
CAPTURE: Final = Cluster(hosts=1, devices=8, steps=40, layers=24, kernels=8, slow=3)
MORE: Final = 1.1
SLIGHT: Final[dict[str, int]] = {"queries": 1, "cells": 1000, "sorted": 1000, "searched": 1000}
"""What may always be added: of little, a tenth more means nothing."""

SORTS: Final = ("unique", "sort", "argsort", "lexsort")
SEARCHES: Final = ("searchsorted", "isin")
COLLECTS: Final = ("collect", "_collect_eager")
KIBIBYTE: Final = 1024
SETS: Final = 10_000
"""Intervals of the sets on which operations are counted: far more than what may always be added."""

REPEATS: Final = 3

COUNTED: Final[tuple[str, ...]] = ("queries", "cells", "sorted", "searched")
Counts = dict[str, dict[str, int]]
P = ParamSpec("P")
R = TypeVar("R")


class Counter:
    """Counts queries, their cells, and what numpy sorts and searches, while it watches."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = dict.fromkeys(COUNTED, 0)
        self._lock = Lock()  # tables of several devices are computed on threads

    @contextmanager
    def watching(self) -> Generator[None]:
        """Count from here on."""
        with ExitStack() as patches:
            for names, kind in ((SORTS, "sorted"), (SEARCHES, "searched")):
                for name in names:
                    counted = self._sized(getattr(np, name), kind)
                    patches.enter_context(mock.patch.object(np, name, counted))
            for name in COLLECTS:
                counted = self._query(getattr(pl.LazyFrame, name))
                patches.enter_context(mock.patch.object(pl.LazyFrame, name, counted))
            yield

    def _add(self, kind: str, count: int) -> None:
        with self._lock:
            self.counts[kind] += count

    def _sized(self, function: Callable[P, R], kind: str) -> Callable[P, R]:
        def counted(*args: P.args, **options: P.kwargs) -> R:
            self._add(kind, sum(np.size(cast("Any", of)) for of in args[:2]))
            return function(*args, **options)

        return counted

    def _query(self, function: Callable[P, pl.DataFrame]) -> Callable[P, pl.DataFrame]:
        def counted(*args: P.args, **options: P.kwargs) -> pl.DataFrame:
            found = function(*args, **options)
            self._add("queries", 1)
            self._add("cells", found.height * found.width)
            return found

        return counted


def main() -> int:
    """Count, measure, and compare with the limits."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--write", action="store_true", help="write today's counts as limits")
    writes = parser.parse_args().write
    loaded = peak()
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "made.xplane.pb"
        path.write_bytes(next(data for _, data in host_spaces(CAPTURE)))
        size = path.stat().st_size
        timeline, on_threads = read_counted(path)
        explain(timeline)
        memory = (peak() - loaded) / size
        counts = count(timeline) | {"levels": count_of(lambda: draw(timeline))}
        share = min(share_after_reading(path) for _ in range(REPEATS))
    counts |= count_operations()
    if writes:
        LIMITS.write_text(as_toml(counts, tomllib.loads(LIMITS.read_text())), encoding="utf-8")
        print(f"wrote {LIMITS}")
        return 0
    limits = tomllib.loads(LIMITS.read_text(encoding="utf-8"))
    exceeded = [*compare(counts, limits["counted"])]
    for name, found in (("memory_per_byte", memory), ("share_after_reading", share)):
        limit = limits["measured"][name]
        print(f"{name}: {found:.2f}, limit {limit}")
        if found > limit:
            exceeded.append(f"{name}: {found:.2f} exceeds {limit}")
    least = limits["counted_share"]["decoded_on_threads"]
    if on_threads is not None:
        print(f"decoded_on_threads: {on_threads:.4f}, at least {least}")
        if on_threads < least:
            exceeded.append(f"decoded_on_threads: {on_threads:.4f} is less than {least}")
    totals = (f"{sum(row[what] for row in counts.values()):,} {what}" for what in COUNTED)
    print(f"{len(counts)} parts: {', '.join(totals)}")
    for line in exceeded:
        print(f"error: {line}", file=sys.stderr)
    if exceeded:
        print("  next: make it cheaper, or accept it: python benchmarks/budget.py --write")
    return 1 if exceeded else 0


def read_counted(path: Path) -> tuple[Timeline, float | None]:
    """Read; also return the share of the events' bytes that threads took; None: not compiled."""
    if not native.is_available():
        return read(path), None
    sizes, lock = {True: 0, False: 0}, Lock()
    measure: Callable[..., tuple[int, int]] = vars(native)["_measure"]

    def counted(data: native.Bytes) -> tuple[int, int]:
        size, events = measure(data)
        with lock:
            sizes[current_thread() is main_thread()] += size
        return size, events

    with mock.patch.object(native, "_measure", counted):
        timeline = read(path)
    return timeline, sizes[False] / max(1, sum(sizes.values()))


def count(timeline: Timeline) -> Counts:
    """The queries and elements of each part of an explanation, without those of parts inside."""
    counter, found = Counter(), Counts()
    for what in COUNTED:
        watch = Stopwatch(lambda what=what: float(counter.counts[what]))
        with counter.watching():
            explain(timeline, stopwatch=watch)
        for part, spent in watch.spent.items():
            found.setdefault(part, {})[what] = round(spent)
    return found


def count_operations() -> Counts:
    """The elements that each operation on sets of intervals sorts and searches."""
    start = np.arange(SETS, dtype=np.int64) * 10
    one, other = union(start, start + 6), union(start + 4, start + 8)
    operations: dict[str, Callable[[], object]] = {
        "and": lambda: one & other,
        "or": lambda: one | other,
        "sub": lambda: one - other,
        "clip": lambda: one.clip(5, 10 * SETS - 5),
        "covered": lambda: one.covered(other.start, other.end),
        "union": lambda: union(start, start + 6),
        "values_of": lambda: values_of(start),
    }
    return {f"intervals {name}": count_of(each) for name, each in operations.items()}


def count_of(operation: Callable[[], object]) -> dict[str, int]:
    """The queries and elements of one operation."""
    counter = Counter()
    with counter.watching():
        operation()
    return counter.counts


def share_after_reading(path: Path) -> float:
    """Processor time of explaining, as a share of that of reading."""
    began = time.process_time()
    timeline = read(path)
    between = time.process_time()
    explain(timeline)
    return (time.process_time() - between) / (between - began)


def compare(counts: Counts, limits: Counts) -> Iterator[str]:
    """What exceeds its limit."""
    for part, row in sorted(counts.items()):
        limit: dict[str, int] = limits.get(part) or dict.fromkeys(COUNTED, 0)
        for what, found in row.items():
            if found > max(limit[what] * MORE, limit[what] + SLIGHT[what]):
                yield f"{part}: {found:,} {what}, {limit[what]:,} when last written"


def as_toml(counts: Counts, before: dict[str, Any]) -> str:
    """The table of limits."""
    lines = [
        "# Written by benchmarks/budget.py --write, but for [measured] and [counted_share].",
        "",
        "[measured]",
    ]
    lines += [f"{name} = {value}" for name, value in before["measured"].items()]
    lines += ["", "[counted_share]"]
    lines += [f"{name} = {value}" for name, value in before["counted_share"].items()]
    lines += ["", "[counted]"]
    for part, row in sorted(counts.items()):
        cells = ", ".join(f"{what} = {row[what]}" for what in COUNTED)
        lines.append(f'"{part}" = {{ {cells} }}')
    return "\n".join(lines) + "\n"


def peak() -> int:
    """The largest resident set so far, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KIBIBYTE


if __name__ == "__main__":
    sys.exit(main())
