"""Words in a log by which a machine is at fault rather than the settings that ran on it.

Few and sure: a fault that is taken for a crash costs a second trial, a crash that is taken for a
fault costs one after the other. Each pattern stands with its source.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_XIDS: Final = "48|63|64|74|79|94|95|119|120"


@dataclass(frozen=True, slots=True)
class _Sign:
    pattern: re.Pattern[str]
    why_not_with: str = ""  # a prefix of variables by which settings may bring it about
    needs_lost_rank: bool = False


def _sign(pattern: str, why_not_with: str = "", *, needs_lost_rank: bool = False) -> _Sign:
    return _Sign(re.compile(rf"^.*(?:{pattern}).*$", re.MULTILINE), why_not_with, needs_lost_rank)


_SIGNS: Final = (
    # CUDA Driver API, CUresult: the device's memory, NVLink, or the device itself failed.
    _sign(r"CUDA_ERROR_ECC_UNCORRECTABLE|uncorrectable ECC error"),
    _sign(r"CUDA_ERROR_NVLINK_UNCORRECTABLE|uncorrectable NVLink error"),
    _sign(r"CUDA_ERROR_SYSTEM_NOT_READY|CUDA_ERROR_DEVICE_UNAVAILABLE"),
    # NVIDIA, "XID Errors": those of hardware. 13, 31, 43 and 45 are the program's own.
    _sign(rf"NVRM: Xid \([^)]*\): (?:{_XIDS})\b"),
    _sign(r"GPU has fallen off the bus|GPU is lost"),
    # NCCL, "Troubleshooting": a call to the system failed: links, /dev/shm, sockets.
    _sign(r"ncclSystemError|NCCL.*unhandled system error", "NCCL_"),
    # Linux: file systems of a network that went away.
    _sign(r"Stale file handle|Transport endpoint is not connected|\[Errno 5\] Input/output error"),
    # XLA, coordination_service.cc: a peer is silent. Of a peer that crashed there are words, too.
    _sign(r"heartbeat timeout\. This indicates that the remote task has", needs_lost_rank=True),
)


def node_fault(text: str, variables: frozenset[str], *, lost_rank: bool) -> str | None:
    """The line that blames a machine.

    Args:
        text: What a rank printed last.
        variables: Names of those that the settings change.
        lost_rank: Whether there is a rank that nobody knows the end of.
    """
    for sign in _SIGNS:
        if sign.needs_lost_rank and not lost_rank:
            continue
        if sign.why_not_with and any(it.startswith(sign.why_not_with) for it in variables):
            continue
        if found := sign.pattern.search(text):
            return found[0].strip()[:300]
    return None
