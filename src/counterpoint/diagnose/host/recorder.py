"""Which profiler wrote a profile, as far as a remedy has to name its options."""

from __future__ import annotations

from enum import Enum
from pathlib import PurePath
from typing import Final

from counterpoint.timeline.model import Timeline

_OF_NSYS: Final = "NvDriverVersion"
"""What Nsight Systems writes of its target, and no other profiler."""

_SUFFIXES: Final = (".sqlite", ".nsys-rep")


_ANNOTATE: Final = (
    "put jax.profiler.TraceAnnotation around the parts of the loop (Nsight Systems shows them as"
    " NVTX ranges, with --trace=nvtx,osrt also waits of the operating system)"
)


class Recorder(Enum):
    """Each with how to record what the host does between calls, and how to record less."""

    JAX = (
        "record the host's Python too (python_tracer_level=1)",
        "profile without the Python tracer (python_tracer_level=0)",
    )
    NSYS = (_ANNOTATE, "profile with less (nsys profile --sample=none --trace=cuda,nvtx)")

    @property
    def see_the_host(self) -> str:
        """To see more of it."""
        return self.value[0]

    @property
    def cost_less(self) -> str:
        """To disturb it less."""
        return self.value[1]


def recorder_of(timeline: Timeline) -> Recorder:
    """Nsight Systems, or else the profiler of JAX."""
    suffixes = {PurePath(name).suffix for name in timeline.inputs}
    if _OF_NSYS in timeline.environment or suffixes & {*_SUFFIXES}:
        return Recorder.NSYS
    return Recorder.JAX
