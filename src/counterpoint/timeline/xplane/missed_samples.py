"""What Python did where no sample was taken, as the same place of other steps shows it.

A sampler runs only while it has the interpreter's lock, so it comes late where a thread computes in
Python, and misses what is over before. A stretch is the time of a thread between two borders of its
recorded events, such as from the start of a step's marker to the next call of a jitted function. If
samples in some stretches with the same borders agree, and a stretch that lasts about as long has
none, it is taken to be the same.
"""

from __future__ import annotations

from itertools import chain
from statistics import median
from typing import Final

import numpy as np
from numpy.typing import NDArray

from counterpoint.timeline.xplane.python_samples import Sample, in_common

_LEAST_PS: Final = 100_000_000
"""Shorter stretches are not worth a sample."""
_SAMPLED: Final = 2
"""So many stretches must have been sampled: one alone may have done something else."""
_LIKE: Final = 2.0
"""A stretch is like others if it lasts no more than so many times as long, or as short."""


def with_missed(
    samples: list[Sample],
    start: NDArray[np.int64],
    end: NDArray[np.int64],
    name: NDArray[np.int64],
) -> list[Sample]:
    """Return the samples of a thread, and one for each stretch that none hit, if it is known.

    `start`, `end` and `name` are of the thread's recorded events.
    """
    border = np.concatenate([start, end])
    order = np.argsort(border, kind="stable")
    border, kind = border[order], np.concatenate([2 * name, 2 * name + 1])[order]
    long = np.flatnonzero(np.diff(border) >= _LEAST_PS)
    ordered = sorted(samples, key=lambda sample: sample.at_ps)
    at = np.array([sample.at_ps for sample in ordered], np.int64)
    first, last = np.searchsorted(at, border[long]), np.searchsorted(at, border[long + 1])
    alike: dict[tuple[int, int], list[int]] = {}
    for number, row in enumerate(long.tolist()):
        alike.setdefault((int(kind[row]), int(kind[row + 1])), []).append(number)
    missed: list[Sample] = []
    for stretches in alike.values():
        sampled = [it for it in stretches if first[it] < last[it]]
        if not _SAMPLED <= len(sampled) < len(stretches):
            continue
        stacks = chain.from_iterable(
            (sample.stack for sample in ordered[first[it] : last[it]]) for it in sampled
        )
        stack = next(stacks)
        for other in stacks:
            stack = stack[: in_common(stack, other)]
        took = {it: int(border[long[it] + 1] - border[long[it]]) for it in stretches}
        usual = median(took[it] for it in sampled)
        missed += (
            Sample(int(border[long[it]]) + took[it] // 2, stack)
            for it in stretches
            if it not in sampled and usual / _LIKE <= took[it] <= usual * _LIKE
        )
    return [*samples, *(it for it in missed if it.stack)]
