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
    r"^aten::|^ProfilerStep#|\bat::native::|^Optimizer\.step#"
    r"|^ExecutorState|^Eager(?:Local|Kernel)?Execute|^SessionRun$|^FunctionRun$"
)
"""Events of the host and kernels that PyTorch and TensorFlow's executor name so."""

_OF_JAX: Final = re.compile(
    r"\bjax|JAX|\bjnp\b|\bjit|XLA|xla_|HLO|PGLE|Flax|Pallas|latency-hiding|donat|device_put"
    r"|shard_map|with_sharding|pinned_host|block_until_ready|python_tracer|command buffer"
)
"""What a text names that only programs of JAX have."""

_VARIABLES: Final = re.compile(r"^(?:XLA|JAX|LIBTPU)_")
"""Variables of the environment that only programs of JAX read."""

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
    "STEP303": "compile before the loop, and keep shapes the same from step to step (pad or drop"
    " the last batch), or tell the compiler which of them change",
    "STEP304": "read results later or less often (.item(), .cpu(), print), so that the host"
    " launches the next step before it waits for this one",
    "STEP305": "copy the next batch from pinned memory, without blocking, while a step runs",
    "STEP306": "run fewer and larger kernels: compile the step, or capture it in a graph",
    "STEP403": "keep less for the backward pass (checkpointed activations), reuse buffers, or shard"
    " more of the state",
    "STEP501": "let matrix products run in TF32 or bfloat16 (autocast), with sums in float32",
    "STEP506": "look at what the op computes: another kernel of a library or a fused one, 16-bit"
    " values, or another layout (channels last for convolutions)",
    "STEP511": "use FlashAttention-3, or cuDNN's attention for compute capability 9.0",
    "STEP605": "profile fewer steps, without the calls of Python and their stacks",
    "STEP606": "profile without the calls of Python (with_stack=False in PyTorch,"
    " python_tracer_level=0 in TensorFlow) to know how long steps are; gaps in this profile are"
    " upper bounds",
}
_OLD_UNITS: Final = (
    "let matrix products run in float16 (autocast), with sums in float32 and a scaled loss: this"
    " chip's matrix units take neither TF32 nor bfloat16"
)
_NO_REMEDY: Final = (
    "look at what the evidence names: what usually helps is a setting of a compiler that did not"
    " make this program"
)
_WITHOUT_HLO: Final = "without HLO in the profile, "


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
    remedy, doubt = finding.remedy, finding.doubt
    if remedy.flags or _OF_JAX.search(remedy.text):
        text = _REMEDIES.get(finding.code, _NO_REMEDY)
        if "to float16" in remedy.text:
            text = _OLD_UNITS
        remedy = Remedy(text, environment=remedy.environment)
    kept = tuple(pair for pair in remedy.environment if not _VARIABLES.match(pair[0]))
    return replace(
        finding,
        remedy=replace(remedy, environment=kept),
        doubt=None if doubt is None else doubt.replace(_WITHOUT_HLO, ""),
    )
