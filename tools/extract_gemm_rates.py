"""Take XLA's table of measured GEMM rates out of its source file, or of a compiled plugin.

    python tools/extract_gemm_rates.py matmul_interpolator_data.h 0.10.2

Both hold the table as text: the FLOP/s of each device, batch and shape, by type. The price needs 3
digits of it, in a file for each device beside its chip's, with a line for each type. Types with
rates above the chip's peak are left out, because they are measurement errors (FP8 on sm_90).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import counterpoint.hardware

AXIS: Final = (256, 512, 1024, 2048, 4096)
BATCHES: Final = (1, 2, 4)
GEMM_FILES: Final = {"sm_90": "h100.gemm.txt", "sm_100_B200": "b200.gemm.txt"}
"""The files of XLA's devices in hardware/chips."""
_WRONG: Final = {("sm_90", "f8")}
_TYPES: Final = {"bf16xbf16->bf16": "bf16", "f32xf32->f32": "f32", "f8e4m3fnxf8e4m3fn->bf16": "f8"}
_DEVICE: Final = re.compile(
    rb'\n  entries \{\n    key: "(sm_\w+)"\n    value \{\n(?=[^"]{0,80}b: )'
)
_SHAPE: Final = re.compile(rb"b: (\d+)\s+m: (\d+)\s+n: (\d+)\s+k: (\d+)\s((?:\s*flops \{[^}]*\})+)")
_RATE: Final = re.compile(rb'key: "([^"]+)" value: (\d+)')

Key = tuple[str, str]
Shape = tuple[int, int, int, int]


def read_rates(data: bytes) -> dict[Key, dict[Shape, float]]:
    """FLOP/s by device and type, and by batch, m, n, k."""
    starts = list(_DEVICE.finditer(data))
    rates: dict[Key, dict[Shape, float]] = {}
    for start, after in zip(starts, [*starts[1:], None], strict=True):
        part = data[start.end() : after.start() if after else start.end() + (1 << 20)]
        for key, shape, rate in _rows(start[1].decode(), part):
            rates.setdefault(key, {})[shape] = rate
    return rates


def _rows(device: str, part: bytes) -> Iterator[tuple[Key, Shape, float]]:
    for match in _SHAPE.finditer(part):
        batch, m, n, k = map(int, match.groups()[:4])
        for types, rate in _RATE.findall(match[5]):
            kind = _TYPES.get(types.decode())
            if kind and (device, kind) not in _WRONG:
                yield (device, kind), (batch, m, n, k), float(rate)


def lines(rates: dict[Key, dict[Shape, float]], device: str, version: str) -> Iterator[str]:
    """The file of a device that we ship."""
    yield f"# GEMM rates that XLA ships (openxla/xla, Apache-2.0, as in jaxlib {version}),"
    yield "# xla/service/gpu/model/matmul_interpolator_data.h; made by tools/extract_gemm_rates.py."
    yield "# Type, then TFLOP/s for batch 1 2 4, m, n, k 256 512 1024 2048 4096, k fastest."
    shapes = [(b, m, n, k) for b in BATCHES for m in AXIS for n in AXIS for k in AXIS]
    for (measured, kind), by_shape in sorted(rates.items()):
        if measured == device:
            yield f"{kind} " + " ".join(f"{by_shape[it] / 1e12:.3g}" for it in shapes)


def main(source: str, version: str) -> None:
    """Write the tables where the package reads them."""
    rates = read_rates(Path(source).read_bytes())
    for device, name in GEMM_FILES.items():
        file = Path(counterpoint.hardware.__file__).with_name("chips") / name
        file.write_text("\n".join(lines(rates, device, version)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:3])
