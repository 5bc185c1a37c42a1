"""`make growth`: how the CPU time of a command grows with the size of each shape of text."""

from __future__ import annotations

import argparse
import math
import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from shapes import SHAPES, Shape
from worker import Ending, load_commands, run_case

MOST = 1.3
"""The largest exponent: 1 is in proportion to the size, 2 is its square."""
COUNTS_S = 0.2
"""A time that is shorter at the largest size says nothing about growth."""


def main() -> int:
    """Print a table of all shapes, and return 1 if one grows too fast."""
    options = argparse.ArgumentParser()
    options.add_argument("--only", default="")
    given = options.parse_args()
    load_commands()
    scratch = Path(tempfile.mkdtemp(prefix="fuzz-"))
    wrong = 0
    try:
        for shape in SHAPES:
            if given.only not in shape.name:
                continue
            line, well = measure(shape, scratch / "case")
            wrong += not well
            print(line, flush=True)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    print(f"{wrong} of {len(SHAPES)} shapes grow too fast, or end badly")
    return int(wrong > 0)


def measure(shape: Shape, place: Path) -> tuple[str, bool]:
    """Run the command at n, 2n and 4n, and compare the times beyond what a tiny text takes."""
    base = _ended(shape, 1, place).cpu
    sizes = [shape.most // 4, shape.most // 2, shape.most]
    endings = [_ended(shape, size, place) for size in sizes]
    times = [max(ending.cpu - base, 1e-3) for ending in endings]
    exponent = math.log2(times[2] / times[0]) / 2
    verdicts = {ending.verdict for ending in endings} - {"ok"}
    well = not verdicts and (exponent < MOST or times[2] < COUNTS_S)
    shown = f"{exponent:4.2f}" if times[2] >= COUNTS_S else "   -"
    seconds = "  ".join(f"{time:6.2f}" for time in times)
    mark = "" if well else "  <-- " + (", ".join(sorted(verdicts)) or "grows too fast")
    return f"{shown}  {seconds} s  {shape.file:16} {shape.name}{mark}", well


def _ended(shape: Shape, size: int, place: Path) -> Ending:
    """Return the quicker of two runs."""
    found: list[Ending] = []
    for _ in range(2):
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        (place / shape.file).write_bytes(shape.text(size))
        words = [shape.file if word == "@" else word for word in shape.command]
        found.append(run_case(words, place, 60))
    return min(found, key=lambda ending: ending.cpu)


if __name__ == "__main__":
    sys.exit(main())
