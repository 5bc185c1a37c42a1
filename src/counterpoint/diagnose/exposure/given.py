"""The settings and target that the profiled step was compiled for, as far as known."""

from __future__ import annotations

from collections.abc import Mapping

from counterpoint.core import CounterpointError
from counterpoint.diagnose.step_data import StepData
from counterpoint.flags.text import parse_xla_flags


def given_flags(case: StepData) -> Mapping[str, str] | None:
    """Return the flags of the Run, else those recorded by the profiler; None if not recorded."""
    if case.context.flags is not None:
        return case.context.flags
    text = case.timeline.environment.get("XLA_FLAGS")
    if text is None:
        return None
    try:
        return dict(parse_xla_flags(text))
    except CounterpointError:  # damaged, or in a file on another machine
        return None


def is_true(flags: Mapping[str, str], name: str) -> bool | None:
    """Return the value of an on/off flag; None if it was not given."""
    value = flags.get(name)
    return None if value is None else value.lower() in ("true", "1", "")


def on_gpu(case: StepData) -> bool:
    """Return whether XLA:GPU compiled the program; its flags and passes do not apply elsewhere."""
    return all(device.kind == "gpu" for device in case.timeline.devices)
