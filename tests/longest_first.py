"""The order of the tests: those that start programs come first, so that no worker ends last alone.

xdist gives each worker an equal part of the list, and a worker that is done takes tests from the
end of another's part. So each part begins with modules of slow tests and ends with quick ones.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import islice

import pytest

SLOW = ("slow", "compiler")
"""The marks of tests that start many programs, or wait for them."""
SHARED = ("running_slurm",)
"""Fixtures that cost so much that all their tests are one worker's."""


class LongestFirst:
    """Orders the tests of each of xdist's workers; without workers they stay as they are."""

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        workers: int = getattr(config, "workerinput", {}).get("workercount", 1)
        if workers > 1:
            order = longest_first([(_module(it), _is_slow(it)) for it in items], workers)
            items[:] = [items[at] for at in order]


def longest_first(tests: Sequence[tuple[str, bool]], workers: int) -> list[int]:
    """Return the order of tests, given the module of each and whether it is slow."""
    modules: defaultdict[str, list[int]] = defaultdict(list)
    for at, (module, _) in enumerate(tests):
        modules[module].append(at)
    slow = Counter(module for module, is_slow in tests if is_slow)
    parts: list[list[int]] = [[] for _ in range(workers)]
    loads = [0] * workers
    for module in sorted(slow, key=lambda it: (-slow[it], it)):
        least = loads.index(min(loads))
        loads[least] += slow[module]
        parts[least] += modules[module]
    quick = iter([at for at, (module, _) in enumerate(tests) if module not in slow])
    for part in parts:
        part.extend(islice(quick, max(0, len(tests) // workers - len(part))))
    parts[-1].extend(quick)
    return [at for part in parts for at in part]


def _module(item: pytest.Item) -> str:
    names = getattr(item, "fixturenames", ())
    return next((it for it in SHARED if it in names), str(item.path))


def _is_slow(item: pytest.Item) -> bool:
    return any(item.get_closest_marker(name) for name in SLOW)
