"""What the profiled step was compiled with and for, as far as anybody knows."""

from __future__ import annotations

from collections.abc import Mapping

from counterpoint.core import CounterpointError
from counterpoint.diagnose.case import Case
from counterpoint.flags.text import parse_xla_flags


def given_flags(case: Case) -> Mapping[str, str] | None:
    """Of the Run, else what the profiler noted of the environment; None where nobody noted it."""
    if case.context.flags is not None:
        return case.context.flags
    text = case.timeline.environment.get("XLA_FLAGS")
    if text is None:
        return None
    try:
        return dict(parse_xla_flags(text))
    except CounterpointError:  # damaged, or in a file that is elsewhere
        return None


def is_true(flags: Mapping[str, str], name: str) -> bool | None:
    """What a flag that is on or off was set to; None where it was not given."""
    value = flags.get(name)
    return None if value is None else value.lower() in ("true", "1", "")


def on_gpu(case: Case) -> bool:
    """Whether XLA:GPU made the program: flags and passes of it say nothing of other compilers."""
    return all(device.kind == "gpu" for device in case.timeline.devices)
