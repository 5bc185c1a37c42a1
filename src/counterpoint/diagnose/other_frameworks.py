"""Profiles of programs that XLA did not compile: PyTorch's, and TensorFlow's without XLA.

Their losses are found like those of JAX, but XLA's flags and JAX's functions would not help.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from counterpoint.diagnose.finding import Finding, Remedy
from counterpoint.diagnose.step_data import StepData

_NAMES: Final = re.compile(
    r"^aten::|^ProfilerStep#|\bat::native::|^Optimizer\.step#|^ExecutorState"
)
"""Events of the host and kernels that PyTorch and TensorFlow's executor name so."""

_OF_JAX: Final = re.compile(
    r"\bjax\b|\bjit|XLA|PGLE|latency-hiding|donat|block_until_ready|python_tracer|command buffer"
)
"""What a remedy names that only programs of JAX have."""

_REMEDIES: Final = {
    "STEP101": "start communication earlier, in buckets of tens of megabytes, and give it work to"
    " overlap that does not depend on it; or send fewer bytes",
    "STEP103": "send fewer and larger buckets",
    "STEP106": "send fewer bytes: a narrower type, or another way of sharding",
    "STEP107": "combine small collectives, or use those that need no rendezvous of a library",
    "STEP301": "launch less and larger work: compile the step, or capture it in a CUDA or HIP"
    " graph, so that one call launches many kernels; move Python out of the loop. Python frames"
    " (with_stack=True) or annotations in the profile show what the host does instead",
    "STEP302": "load batches in other processes, some steps ahead, into pinned memory",
    "STEP304": "read results later or less often (.item(), .cpu(), print), so that the host"
    " launches the next step before it waits for this one",
    "STEP305": "copy the next batch from pinned memory, without blocking, while a step runs",
    "STEP306": "run fewer and larger kernels: compile the step, or capture it in a graph",
}


def is_foreign(data: StepData) -> bool:
    """Return whether no XLA program ran, and another framework's names are in the profile."""
    return data.cached(_is_foreign)


def _is_foreign(data: StepData) -> bool:
    timeline = data.timeline
    if timeline.programs:
        return False
    names = [*timeline.host_names, *timeline.ops["name"].to_list()]
    return any(_NAMES.search(name) for name in names)


def in_neutral_words(data: StepData, finding: Finding) -> Finding:
    """Return a finding with a remedy that does not need JAX or XLA, if they made no program."""
    if not is_foreign(data):
        return finding
    remedy = finding.remedy
    if not remedy.flags and not _OF_JAX.search(remedy.text):
        return finding
    return replace(finding, remedy=Remedy(_REMEDIES.get(finding.code, remedy.text)))
