"""What the name of a library's matrix kernel says of the types that it multiplies.

cuBLAS and CUTLASS write them: `ampere_sgemm_128x64_tn` and `..._ffma_...` multiply float32 on the
scalar units, `tf32` and `s1688gemm` as TF32 on the matrix units, `d884gemm` and `dgemm` float64.
What says nothing of it, or of half as wide types, is None.
"""

from __future__ import annotations

import re
from typing import Final

_TYPES: Final = (
    (re.compile(r"[bh]f?16|fp16|f16f16|bf16|e4m3|e5m2|s8|i8"), None),
    (re.compile(r"d884|(?<![a-z])dgemm|f64f64|simt_d"), "f64"),
    (re.compile(r"tf32|s1688gemm"), "tf32"),
    (re.compile(r"ffma|(?<![a-z])sgemm|gemm_f32f32_f32f32|simt_s"), "f32"),
)
"""In order: a name that tells a narrow type is not asked for more."""


def multiplied_as(kernel: str) -> str | None:
    """`f64`, `f32`, `tf32`, or None."""
    name = kernel.lower()
    return next((kind for mark, kind in _TYPES if mark.search(name)), None)
