"""Waiting for a gang, with an eye on the clock and on whoever wants to stop."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from counterpoint.core.errors import CounterpointError
from counterpoint.runs.outcome import TIMED_OUT
from counterpoint.tune.executors.executor import Ended, EndedKind, Gang, Limits, Queues

GRACE_S: Final = 120.0
"""`counterpoint run` keeps the time limit itself, and needs some to end its ranks and to write."""
_LOOK_S: Final = 0.25


def wait_for(
    gang: Gang, limits: Limits, stop: Callable[[], bool], *, grace_s: float = GRACE_S
) -> Ended:
    """How the gang ended. It is killed where `stop` says so, and where nobody else kept its time.

    Time in a scheduler's queue doesn't count. Whatever is raised meanwhile, Ctrl-C for one, kills
    the gang, too.
    """
    began = time.monotonic()
    try:
        while True:
            ended = gang.poll()
            if ended is not None:
                return ended
            if stop():
                gang.kill()
                return Ended(kind=EndedKind.KILLED, detail="it was asked to stop")
            now = time.monotonic()
            if isinstance(gang, Queues) and gang.is_queued():
                began = now
            if limits.timeout_s is not None and now - began > limits.timeout_s + grace_s:
                gang.kill()
                detail = f"still there {grace_s:g} s after its time limit of {limits.timeout_s:g} s"
                return Ended(kind=EndedKind.KILLED, exit_code=TIMED_OUT, detail=detail)
            time.sleep(_LOOK_S)
    except BaseException:
        with suppress(CounterpointError):  # what went wrong first is what has to be told
            gang.kill()
        raise
