"""Attention of cuDNN on a machine without: JAX is told that there is one, as on a Hopper GPU.

Tracing and lowering need no more than its version and the GPU's capability.
"""

from __future__ import annotations

import sys

from .arrival import when_loaded
from .lowered import OfJax
from .virtual import Remarks

_HOME = "jax._src.cudnn.fused_attention_stablehlo"
_VERSION = 91200
_CAPABILITY = (9, 0)


def pretend(remarks: Remarks) -> None:
    """Answer for cuDNN once its module is loaded."""
    when_loaded(_HOME, lambda: _answer(sys.modules[_HOME], remarks))


def _answer(home: OfJax, remarks: Remarks) -> None:
    def check_cudnn_version() -> int:
        remarks.note(f"attention is lowered for cuDNN {_VERSION // 10000}.{_VERSION // 100 % 100}")
        return _VERSION

    home.check_cudnn_version = check_cudnn_version

    def check_compute_capability(needed: str) -> bool:
        return _parsed(needed) <= _CAPABILITY

    def is_cuda_compute_capability_equal(asked: str) -> bool:
        return _parsed(asked) == _CAPABILITY

    home.check_compute_capability = check_compute_capability
    home.is_cuda_compute_capability_equal = is_cuda_compute_capability_equal


def _parsed(capability: str) -> tuple[int, ...]:
    return tuple(int(part) for part in capability.split("."))
