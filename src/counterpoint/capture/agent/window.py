"""The profile window, and the reasons why there was none."""

from __future__ import annotations

import json
from typing import NamedTuple


class WindowRequest(NamedTuple):
    """A window from step `start_step` on, for `steps` steps: counted in this process, from 0.

    The program's own step numbers count, too, if they begin at or below that. Without `start_step`:
    after `calm_steps` in a row without a compile, or once nothing has been compiled for `quiet_s`.
    Then the next whole steps; if there are none, `seconds`, and no more than `longest_s`.
    `processes`: only on these (jax.process_index).
    """

    start_step: int | None = None
    steps: int = 10
    quiet_s: float = 1.0
    calm_steps: int | None = None
    seconds: float = 3.0
    longest_s: float | None = None
    perfetto_link: bool = False
    profile: bool = True
    processes: tuple[int, ...] | None = None


NONE = WindowRequest(profile=False)
PATIENCE_FACTOR = 2
"""After this many times `quiet_s` without a compile or a step, no step is expected any more."""
OPENED_BY_TIME = "no step was seen, so the profile was taken by time"
NOT_REQUESTED = "no profile was requested of this process"


def parse_window(text: str | None) -> WindowRequest:
    """Parse JSON; missing fields keep their defaults, unknown ones are ignored."""
    if not text:
        return NONE
    given = json.loads(text)
    known = {name: given[name] for name in WindowRequest._fields if given.get(name) is not None}
    if isinstance(known.get("processes"), str):
        del known["processes"]  # "all"
    elif "processes" in known:
        known["processes"] = tuple(known["processes"])
    return WindowRequest(**known)


class ProcessState(NamedTuple):
    """The state of a process when it ends."""

    now_s: float
    compiled: int
    busy: bool
    last_compile_s: float | None
    steps: int
    last_compiled: str | None = None
    times: int = 0  # number of its compiles
    executed: str | None = None  # the function whose executions were counted as steps


_AGAIN = 3  # minimum compiles of one name to mention


def why_never(window: WindowRequest, seen: ProcessState) -> str:
    """Return the reason why the window did not open."""
    if not window.profile:
        return NOT_REQUESTED
    if window.start_step is not None:
        return _too_few_steps(window.start_step, seen)
    if seen.busy:
        return "the program ended while it was compiling"
    if seen.last_compile_s is None or not seen.compiled:
        return "the program never compiled anything"
    quiet_s = seen.now_s - seen.last_compile_s
    if quiet_s < window.quiet_s:
        few = f" or {window.calm_steps} steps without one" if window.calm_steps else ""
        return (
            f"the program ended {quiet_s:.1f} s after its last compile; "
            f"a profile begins after {window.quiet_s:g} s{few}{_compiled_again(seen)}"
        )
    return "the program ended before its next step"


def _compiled_again(seen: ProcessState) -> str:
    if seen.times < _AGAIN or not seen.last_compiled:
        return ""
    return f": {seen.last_compiled} was compiled last, {seen.times} times in all"


def _too_few_steps(start_step: int, seen: ProcessState) -> str:
    if seen.steps:
        only = f"only {seen.steps} step{'s' * (seen.steps != 1)} began"
        if seen.executed:
            times = f"{seen.steps} time{'s' * (seen.steps != 1)}"
            only = f"{seen.executed} was executed only {times}"
        return f"{only}, and the profile was to start with step {start_step}, counted from 0"
    missing = (
        "no step was seen: steps are counted from jax.profiler.StepTraceAnnotation, "
        "counterpoint.StepProfiler, or executions of the largest compiled function"
    )
    return missing if seen.compiled else f"{missing}; the program never compiled anything either"
