"""How much memory a capture needs that exceeds 2 GB: made up, written piece by piece.

A made-up run on eight GPUs is repeated, each time later, as the pieces of one `.xplane.riegeli`:
the size asked for is that of the pieces before they are compressed. Then `counterpoint explain`
reads it in a process of its own.

    python benchmarks/pieces.py --gigabytes 4
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "timeline"))
sys.path.insert(0, str(Path(__file__).parent))

from riegeli_builder import RiegeliWriter
from xspace_builder import field_bytes

from counterpoint.core.wire import fields, varint
from fresh_process import run
from synthetic_hosts import Cluster, host_spaces

_PLANES: Final = 1
_NAME: Final = 2
_LINES: Final = 3
_TIMESTAMP: Final = 3
_STEP_NS: Final = 1_000_000_000
_MARKED: Final = b"python"
"""The thread with step numbers, which would repeat."""


def main() -> int:
    """Make the capture, explain it, print what that took."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--gigabytes", type=float, default=4.0)
    parser.add_argument("--steps", type=int, default=60, help="of each piece")
    parser.add_argument("--keep", type=Path, help="write the capture here, and keep it")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="counterpoint-pieces-") as scratch:
        path = options.keep or Path(scratch) / "host-00.xplane.riegeli"
        if not path.exists():
            size, count = write(path, options.gigabytes, options.steps)
            print(f"{size / 1e9:.2f} GB in {count} pieces, {path.stat().st_size / 1e6:,.0f} MB")
        command = [sys.executable, "-m", "counterpoint", "explain", str(path), "--json"]
        trial = run(command, Path(scratch))
        print(f"counterpoint explain: {trial}, CPU {trial.cpu_seconds:.1f} s")
    return 0


def write(path: Path, gigabytes: float, steps: int) -> tuple[int, int]:
    """Write pieces until they have that size; return it, and their number."""
    ((_, space),) = host_spaces(Cluster(hosts=1, steps=steps, slow=0))
    lasts = _lasts_ns(space)
    size = count = 0
    with path.open("wb") as file:
        writer = RiegeliWriter(file, quality=1)
        while size < gigabytes * 1e9:
            piece = later(space, count * lasts)
            writer.write([piece])
            size, count = size + len(piece), count + 1
        writer.pad()
    return size, count


def _lasts_ns(space: bytes) -> int:
    """How far apart two pieces begin: further than one lasts."""
    from counterpoint.timeline.xplane.reader import read_xplane

    spans = read_xplane(memoryview(space), "piece").spans
    ends = spans["start_ps"] + spans["dur_ps"]
    return (int(ends.max() or 0) - int(spans["start_ps"].min() or 0)) // 1000 + _STEP_NS


def later(space: bytes, by_ns: int) -> bytes:
    """The same XSpace, all of whose lines begin later."""
    return b"".join(
        field_bytes(
            number, b"".join(_later_lines(content, by_ns)) if number == _PLANES else content
        )
        for number, content in _parts(space)
    )


def _later_lines(plane: bytes, by_ns: int) -> Iterator[bytes]:
    for number, content in _parts(plane):
        if number != _LINES:
            yield field_bytes(number, content)
        elif content[:64].find(_MARKED) < 0:
            yield field_bytes(number, _later_line(content, by_ns))


def _later_line(line: bytes, by_ns: int) -> bytes:
    """The line with a later timestamp, which lies before its events."""
    for number, _, begin, end in fields(memoryview(line), 0, len(line)):
        if number == _TIMESTAMP:
            stamp, _ = varint(line, begin)
            return line[: begin - 1] + field_bytes(_TIMESTAMP, stamp + by_ns) + line[end:]
    return line


def _parts(message: bytes) -> Iterator[tuple[int, bytes]]:
    """The fields of a message that has only texts and messages."""
    for number, _, begin, end in fields(memoryview(message), 0, len(message)):
        yield number, message[begin:end]


if __name__ == "__main__":
    sys.exit(main())
