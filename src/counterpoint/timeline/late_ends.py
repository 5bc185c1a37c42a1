"""When ops of a CPU device end, by the marks that XLA leaves.

XLA runs some ops on several threads: the event of such an op is over when the thread that started
it goes on, and a mark, `end: OP`, tells on whichever thread when it has ended. Of most ops the mark
follows at once and adds nothing.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

Longs = NDArray[np.int64]

END: Final = "end: "
"""Begins the name of a mark; the op's follows."""

WAIT: Final = "ThunkExecutor::Execute (wait for completion)"
"""The event that ends when all ops of a run have ended."""

AT_ONCE_PS: Final = 5_000_000
"""An op's mark of its end that comes no later than this after its event adds nothing."""

NONE: Final = -1


def paired_at_once(
    start: Longs, duration: Longs, op: Longs, ended: Longs, work: Longs, marks: Longs
) -> tuple[NDArray[np.bool_], Longs]:
    """Return which of a thread's marks follow their op at once, and the place of it in `work`.

    Events are in order of start: `op` and `ended` are the op of each, and the op whose end it
    marks; `work` are the rows of ops and `marks` those of marks.
    """
    before = np.searchsorted(work, marks) - 1
    last = work[np.maximum(before, 0)] if len(work) else np.zeros(len(marks), np.int64)
    over = start[last] + duration[last] + AT_ONCE_PS
    return (before >= 0) & (op[last] == ended[marks]) & (start[marks] <= over), before


def over_at(start: Longs, duration: Longs, ended: Longs, marks: Longs) -> Longs:
    """Return when ops were over whose ends are marked there.

    What waits for an op runs at its end, on the thread that then marks it: if a thread has been
    doing one thing after the other until the mark, the op was over when it began with them.
    """
    own = np.flatnonzero(ended == NONE)
    before = np.searchsorted(own, marks) - 1
    if not len(own):
        return start[marks]
    began, until = start[own], np.maximum.accumulate(start[own] + duration[own])
    fresh = np.append(0, np.flatnonzero(began[1:] > until[:-1] + AT_ONCE_PS) + 1)
    last = np.maximum(before, 0)
    first = fresh[np.searchsorted(fresh, last, side="right") - 1]
    bounds = np.stack([first, last + 1], axis=1).ravel()
    empty = np.empty(0, np.int64)
    since = np.minimum.reduceat(np.append(began, 0), bounds)[::2] if len(marks) else empty
    goes_on = (before >= 0) & (start[marks] <= until[last] + AT_ONCE_PS)
    return np.where(goes_on, since, start[marks])
