"""The arithmetic of a convolution, without the taps of its kernel that meet padding."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from counterpoint.hlo.model.instruction import Instruction, Shape, WindowDimension

_MOST_TAPS: Final = 1 << 16
_MOST_OUTPUTS: Final = 1 << 24
"""With more of either, padding counts as data."""


def convolution_flops(
    instruction: Instruction, result: Shape, kernels: list[Shape], image: Shape | None = None
) -> int | None:
    """Return two operations per multiply-add; without the image, padding counts as data."""
    dims = instruction.convolution
    if dims is None or not kernels or dims.kernel_output_feature >= len(kernels[0].dims):
        return None
    outputs = kernels[0].dims[dims.kernel_output_feature]
    if not outputs:
        return 0
    whole = 2 * result.elements * kernels[0].elements // outputs
    if image is None:
        return whole
    for dimension in dims.window:
        met, of = _taps(dimension, image, result)
        whole = whole * met // of
    return whole


def _taps(dimension: WindowDimension, image: Shape, result: Shape) -> tuple[int, int]:
    """Return how many of a kernel's taps meet data, not padding, and how many there are.

    libtpu writes products of matrices as convolutions of which most taps meet padding; the
    compiler's own count of FLOPs leaves those out, too.
    """
    if dimension.base is None or dimension.result is None:
        return 1, 1
    if dimension.base >= len(image.dims) or dimension.result >= len(result.dims):
        return 1, 1
    outputs = result.dims[dimension.result]
    if outputs <= _MOST_OUTPUTS and _is_plain(dimension):
        met = _met_by_outputs(dimension, outputs, image.dims[dimension.base])
        return met, max(outputs * dimension.size, 1)
    if dimension.size > _MOST_TAPS:
        return 1, 1
    last = (image.dims[dimension.base] - 1) * dimension.base_dilation
    met = sum(_meets(dimension, tap, outputs, last) for tap in range(dimension.size))
    return met, max(outputs * dimension.size, 1)


def _is_plain(dimension: WindowDimension) -> bool:
    """Return whether the kernel has no holes, and its numbers are those of a real program."""
    numbers = (dimension.size, dimension.stride, abs(dimension.padding_low))
    if min(dimension.stride, dimension.base_dilation) < 1 or dimension.window_dilation != 1:
        return False
    return max(*numbers, dimension.base_dilation) <= _MOST_OUTPUTS


def _met_by_outputs(dimension: WindowDimension, outputs: int, inputs: int) -> int:
    """Return how many pairs of an output and an input a tap of an undilated kernel joins."""
    start = np.arange(outputs, dtype=np.int64) * dimension.stride - dimension.padding_low
    first = np.maximum(-(-start // dimension.base_dilation), 0)
    last = np.minimum((start + dimension.size - 1) // dimension.base_dilation, inputs - 1)
    return int(np.maximum(last - first + 1, 0).sum())


def _meets(dimension: WindowDimension, tap: int, outputs: int, last: int) -> int:
    """Return at how many outputs a tap meets an element of the input, which ends at `last`."""
    offset = tap * dimension.window_dilation - dimension.padding_low
    lowest = max(-(offset // dimension.stride), 0)
    highest = min((last - offset) // dimension.stride, outputs - 1)
    for first in range(lowest, min(lowest + dimension.base_dilation, highest + 1)):
        if (first * dimension.stride + offset) % dimension.base_dilation == 0:
            apart = dimension.base_dilation // math.gcd(dimension.stride, dimension.base_dilation)
            return (highest - first) // apart + 1
    return 0
