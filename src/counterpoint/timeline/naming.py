"""What an op is, told by its name alone.

The last resort, for profiles without HLO: HLO instruction names start with their opcode, and
kernels of the known libraries say what they compute. A name that says nothing stays "other".
"""

from __future__ import annotations

import re
from typing import Final

from counterpoint.timeline.model import Lane

_NUMBERING: Final = re.compile(r"(\.(\d+|clone|remat\d*|sunk))+$")

_COLLECTIVE_OPCODES: Final = (
    "all-reduce",
    "all-gather",
    "reduce-scatter",
    "all-to-all",
    "ragged-all-to-all",
    "collective-permute",
    "collective-broadcast",
    "send",
    "recv",
)

_CONTROL_OPCODES: Final = ("while", "conditional", "call")

_NCCL_KINDS: Final = {
    "allreduce": "all-reduce",
    "allgather": "all-gather",
    "reducescatter": "reduce-scatter",
    "alltoall": "all-to-all",
    "broadcast": "collective-broadcast",
    "sendrecv": "collective-permute",
    "reduce": "all-reduce",
}
_LIBRARIES: Final = ("nccl", "rccl", "msccl")

_KERNELS: Final = (
    (re.compile(r"memcpy|copybuffer|memset|fillbuffer|copy_bytes", re.IGNORECASE), "copy"),
    (re.compile(r"fmha|flash|attention|sdpa", re.IGNORECASE), "attention"),
    (re.compile(r"conv(?!ert)|im[23]d?2?col|winograd|implicit_gemm", re.IGNORECASE), "convolution"),
    (
        re.compile(r"gemm|cutlass|cublas|nvjet|^Cijk_|matmul|xmma|_dot_|^dot|wgmma", re.IGNORECASE),
        "matmul",
    ),
    (re.compile(r"reduce|softmax|norm", re.IGNORECASE), "reduction"),
    (re.compile(r"sort|topk", re.IGNORECASE), "sort"),
    (re.compile(r"scatter|gather|dynamic-(update-)?slice", re.IGNORECASE), "scatter/gather"),
    (re.compile(r"transpose|^copy", re.IGNORECASE), "copy"),
    (
        re.compile(
            r"fusion|elementwise|broadcast|wrapped|loop|triton|add|mul|convert", re.IGNORECASE
        ),
        "fusion",
    ),
)

_LANES: Final = {
    "collective": Lane.COLLECTIVE,
    "copy": Lane.COPY,
    "host": Lane.COPY,
    "control": Lane.CONTROL,
}


def lane(category: str, opcode: str) -> Lane:
    """The lane of a category. A fusion that transposes moves data, but it is a kernel.

    A call to the host holds its stream up as a kernel does, and is no copy.
    """
    if category == "host" and opcode.startswith("custom-call"):
        return Lane.COMPUTE
    if category == "copy" and ("fusion" in opcode or "transpose" in opcode):
        return Lane.COMPUTE
    return _LANES.get(category, Lane.COMPUTE)


def opcode(name: str) -> str | None:
    """The HLO opcode an instruction's name starts with, when it is one that has meaning here."""
    stem = _NUMBERING.sub("", name)
    for known in (*_COLLECTIVE_OPCODES, *_CONTROL_OPCODES, "copy"):
        if stem == known or stem in (f"{known}-start", f"{known}-done"):
            return stem
    return None


def collective_kind(name: str) -> str | None:
    """The kind of collective behind an HLO name or an NCCL kernel's name."""
    stem = opcode(name)
    if stem is not None:
        bare = stem.removesuffix("-start").removesuffix("-done")
        return bare if bare in _COLLECTIVE_OPCODES else None
    text = name.lower().replace("_", "")
    if any(library in text for library in _LIBRARIES):
        return next((kind for word, kind in _NCCL_KINDS.items() if word in text), "unknown")
    return None


def category(name: str, kernel: str, hint: str | None) -> str:
    """The category of an op by its HLO name, its kernel's name and the profiler's hint."""
    if collective_kind(name) or collective_kind(kernel):
        return "collective"
    if opcode(name) in _CONTROL_OPCODES:
        return "control"
    if opcode(name) is not None:
        return "copy"
    for text in (hint or "", name, kernel):
        for pattern, found in _KERNELS:
            if text and pattern.search(text):
                return found
    return "other"
