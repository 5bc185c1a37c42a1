"""Take XLA's table of measured collectives out of its source file, or of a compiled plugin.

    python tools/extract_collectives.py SOURCE VERSION

It writes a file for each device, beside its chip's. SOURCE is
`xla/service/gpu/model/collective_interpolator_data.h` of an XLA checkout, or the shared object of a
compiler plugin, which holds the same text. XLA states bytes per second, where the bytes are those
of the instruction's shape (for a reduce-scatter, times the number of ranks).
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import counterpoint.hardware
from counterpoint.core.errors import InputError, UsageError

COLLECTIVE_FILES: Final = {
    "sm_90": "h100.collectives.csv",
    "sm_100_B200": "b200.collectives.csv",
    "sm_100_GB200": "gb200.collectives.csv",
    "sm_103": "gb300.collectives.csv",
}
"""The files of XLA's devices in hardware/chips."""
_RATE: Final = "network_throughput_bytes_per_sec:"
_HEADER: Final = (
    "# Microseconds of collectives within one NVLink domain, measured by XLA's developers:\n"
    "# openxla/xla, xla/service/gpu/model/collective_interpolator_data.h (Apache-2.0), as in {}.\n"
    "# kind,ranks,groups or pattern,bytes=microseconds ... Bytes as nccl-tests counts.\n"
)

Key = tuple[str, str, int, str]


def extract(text: str) -> dict[Key, dict[int, float]]:
    """Seconds by size, for each device, kind, number of ranks and layout."""
    found: dict[Key, dict[int, float]] = {}
    device = ""
    for between in _entries(text):
        device = _word(between, "key") or device
        # One entry of the table has no rate: only the text from the last instruction on counts.
        entry = between[between.rindex("instruction {") :]
        kind = _word(entry, "opcode")
        ranks, layout = _layout(kind, entry)
        size = _bytes(entry) * (ranks if kind == "reduce-scatter" else 1)
        found.setdefault((device, kind, ranks, layout), {})[size] = size / _number(entry, _RATE)
    return found


def _entries(text: str) -> Iterator[str]:
    """The text of each entry, from the end of the previous one to its rate."""
    start = text.rfind("entries {", 0, max(text.find("instruction {", text.find(_RATE) - 4000), 0))
    before = max(start - 200, 0)
    while (at := text.find(_RATE, before)) >= 0:
        end = text.find("\n", at)
        entry = text[before:end]
        if "instruction {" in entry and len(entry) < 100_000:
            yield entry
        before = end


def _word(entry: str, name: str) -> str:
    found = re.search(rf'{name}: "([\w-]+)"', entry)
    return found[1] if found else ""


def _layout(kind: str, body: str) -> tuple[int, str]:
    if kind == "collective-permute":
        pairs = list(_pairs(body))
        both = {(to, source) for source, to in pairs} == set(pairs)
        one_way = not {source for source, _ in pairs} & {to for _, to in pairs}
        return 2 * len(pairs) if one_way else len(pairs), (
            "one way" if one_way else "pairs" if both else "ring"
        )
    return _number(body, "num_devices_per_group"), str(_number(body, "num_replica_groups"))


def _pairs(body: str) -> Iterator[tuple[int, int]]:
    for written in re.findall(r"source_target_pairs \{([^}]*)\}", body):
        source, to = (re.search(rf"{end}: (\d+)", written) for end in ("source", "target"))
        yield int(source[1]) if source else 0, int(to[1]) if to else 0


def _bytes(entry: str) -> int:
    shape = entry[entry.index("shape {") : entry.index("layout {")]
    # All of them are float32.
    return math.prod(map(int, re.findall(r"dimensions: (\d+)", shape)), start=4)


def _number(entry: str, name: str) -> int:
    found = re.search(rf"{name}:? (\d+)", entry)
    return int(found[1]) if found else 1


def _main(arguments: list[str]) -> None:
    if len(arguments) != 2:
        raise UsageError("expected two arguments: SOURCE and VERSION", next=(__doc__ or "").strip())
    text = Path(arguments[0]).read_bytes().decode("latin-1")
    found = extract(text)
    if not found:
        raise InputError(f"{arguments[0]} holds no table of collectives")
    for device, name in COLLECTIVE_FILES.items():
        lines = [
            ",".join((*map(str, layout), _points(seconds)))
            for (measured, *layout), seconds in sorted(found.items())
            if measured == device
        ]
        file = Path(counterpoint.hardware.__file__).with_name("chips") / name
        file.write_text(_HEADER.format(arguments[1]) + "\n".join(lines) + "\n", "utf-8")


def _points(seconds: dict[int, float]) -> str:
    return " ".join(f"{size}={it * 1e6:.6g}" for size, it in sorted(seconds.items()))


if __name__ == "__main__":
    _main(sys.argv[1:])
