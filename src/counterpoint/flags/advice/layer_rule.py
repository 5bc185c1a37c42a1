"""The rule of thumb for thresholds: at least one layer's weights in one all-gather.

Llama-2 7B has 32 layers of 218 million weights, in bfloat16 436 MB each. For all-reduces: as large
as fills the links, and small enough to begin before the last gradient is there, so a few powers of
two are worth a try. See docs/GPU_performance.md of NVIDIA's JAX-Toolbox.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Final

from counterpoint.core.errors import UsageError
from counterpoint.flags.advice.combiner import DEFAULT
from counterpoint.flags.advice.thresholds import SMALLEST

BYTES: Final = {
    "f64": 8, "f32": 4, "float32": 4, "fp32": 4, "tf32": 4,
    "bf16": 2, "bfloat16": 2, "f16": 2, "fp16": 2, "float16": 2,
    "f8": 1, "fp8": 1, "int8": 1, "s8": 1,
    "int4": 0.5, "s4": 0.5, "fp4": 0.5, "f4": 0.5, "nvfp4": 0.5, "mxfp4": 0.5,
}  # fmt: skip
_SCALE: Final = {"": 1.0, "K": 1e3, "M": 1e6, "B": 1e9, "G": 1e9, "T": 1e12}
_COUNT: Final = re.compile(r"(?P<figure>\d+(?:\.\d+)?(?:[eE][+]?\d+)?)(?P<scale>[KMBGT]?)")
_MOST: Final = 1e15


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerRule:
    """What the rule says of a model. `shard` is what the combiner counts of a reduce-scatter."""

    params: int
    dtype: str
    layers: int | None
    devices: int | None

    @property
    def layer_bytes(self) -> int:
        """Weights, or gradients, of one layer: the least threshold for all-gathers."""
        return math.ceil(self.params * BYTES[self.dtype])

    @property
    def shard_bytes(self) -> int | None:
        """What a device keeps of a layer's gradients: enough for reduce-scatters."""
        return None if self.devices is None else -(-self.layer_bytes // self.devices)

    @property
    def gather_threshold(self) -> int | None:
        """What to set for all-gathers; None where the default merges a layer's as it is."""
        return self.layer_bytes if self.layer_bytes > DEFAULT else None

    @property
    def scatter_threshold(self) -> int | None:
        """The same for reduce-scatters, counted as a device keeps them where that is known."""
        counted = self.layer_bytes if self.shard_bytes is None else self.shard_bytes
        return counted if counted > DEFAULT else None

    @property
    def gradient_bytes(self) -> int | None:
        return None if self.layers is None else self.layer_bytes * self.layers

    @property
    def candidates(self) -> tuple[int, ...]:
        """Powers of two from 16 MiB to the gradients' size, or one layer's where that is all."""
        found: list[int] = []
        power = SMALLEST
        while power <= (self.gradient_bytes or self.layer_bytes):
            found.append(power)
            power *= 2
        return tuple(found)


def layer_rule(
    params: str,
    dtype: str = "bf16",
    layers: int | None = None,
    devices: int | None = None,
    *,
    whole: bool = False,
) -> LayerRule:
    """The rule for so many weights in each layer; in all layers together where they are `whole`."""
    kind = dtype.casefold()
    if kind not in BYTES:
        raise UsageError(f"--dtype {dtype}: not known", why=f"known are {', '.join(BYTES)}")
    if layers is not None and layers < 1:
        raise UsageError(f"--layers takes a number from 1 on, not {layers}")
    option = "--total-params" if whole else "--params"
    count = parse_count(params, option)
    if whole and layers is None:
        raise UsageError(
            f"{option} {params}: of how many layers?", next=f"{option} {params} --layers 32"
        )
    if whole and layers is not None:
        count //= layers
    return LayerRule(params=count, dtype=kind, layers=layers, devices=devices)


def parse_count(text: str, option: str = "--params") -> int:
    """A number of weights as people write it: 218e6, 218M, 0.218B, 218_000_000."""
    found = _COUNT.fullmatch(text.strip().replace("_", "").replace(",", ""))
    value = float(found["figure"]) * _SCALE[found["scale"]] if found else 0.0
    if not 1 <= value <= _MOST:
        raise UsageError(
            f"{option} {text}: not a number of weights",
            why="it is a number from 1 on, such as 218e6, 218M or 0.218B",
            next=f"{option} 218e6",
        )
    return round(value)
