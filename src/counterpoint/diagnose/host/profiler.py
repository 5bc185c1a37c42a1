"""The profiler that recorded a host, and how to make it record more, or less."""

from __future__ import annotations

from enum import Enum
from typing import Final

from counterpoint.diagnose.host.threads import TRACED
from counterpoint.timeline.formats import NSYS_EXPORT, NSYS_REPORT
from counterpoint.timeline.model import Timeline
from counterpoint.timeline.recording import PYTHON_SAMPLED

_OF_NSYS: Final = "NvDriverVersion"
"""An entry that only Nsight Systems writes."""

_ENDINGS: Final = (*NSYS_EXPORT.endings, *NSYS_REPORT.endings)

ANNOTATE: Final = (
    "put jax.profiler.TraceAnnotation around the parts of the loop (NVTX ranges in Nsight Systems;"
    " --trace=nvtx,osrt also records waits in the operating system)"
)


class ProfilerKind(Enum):
    """A profiler, with advice on recording more of the host and on recording less."""

    JAX = (
        (
            "also record the host's Python: `counterpoint run` with --profile-python, or"
            " python_tracer_level=1 in jax.profiler.ProfileOptions"
        ),
        "profile without the Python tracer (python_tracer_level=0)",
    )
    NSYS = (ANNOTATE, "profile with less (nsys profile --sample=none --trace=cuda,nvtx)")

    @property
    def see_the_host(self) -> str:
        """Advice for recording more of the host."""
        return self.value[0]

    @property
    def cost_less(self) -> str:
        """Advice for reducing the profiler's overhead."""
        return self.value[1]


def traces_python(timeline: Timeline) -> bool:
    """Return whether each call of Python was recorded, which makes Python slower."""
    traced = any(name.startswith(TRACED) for name in timeline.host_names)
    return traced and PYTHON_SAMPLED not in timeline.environment


def profiler_of(timeline: Timeline) -> ProfilerKind:
    """Return Nsight Systems if it made the profile, or else the profiler of JAX."""
    of_nsys = any(name.endswith(_ENDINGS) for name in timeline.inputs)
    if of_nsys or _OF_NSYS in timeline.environment:
        return ProfilerKind.NSYS
    return ProfilerKind.JAX
