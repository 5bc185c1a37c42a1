"""How long `tune --predict` and `predict` of a large program take as commands.

    python benchmarks/commands.py [--candidates 20] [--layers 32] [--jobs 2] [--json]

The search is that of docs/concepts/tune-search.md, for the 8B Llama of examples/llama.py on 512
GPUs. The large program is its 7B without a scan, lowered before the clock starts; what `predict`
adds to XLA's own seconds, as the worker measured them, is stated as a share of these. The same
command again finds the compile in the cache: that is what Counterpoint does itself, but for the
start of the worker. Nothing else comes from a cache.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import fresh_process
import machine
from fresh_process import Trial

HERE = Path(__file__).parent
STEP = f"{HERE.parent / 'examples' / 'llama.py'}:make_step"
SEARCHED = "64x8xH100:400G"
UNROLLED = ("64", "7b", ("attention=cudnn", "scan=false"), "8x8xH100:400G")
CACHE = "COUNTERPOINT_CACHE"


@dataclass(frozen=True, kw_only=True)
class Search:
    """One search, as a command."""

    candidates: int
    arms: int
    seconds: float
    cpu_seconds: float  # of all its processes
    best: str | None


@dataclass(frozen=True, kw_only=True)
class Large:
    """One prediction of a large program, as a command."""

    megabytes: float  # of StableHLO text
    seconds: float
    cpu_seconds: float
    compile_s: float  # XLA's own
    cached_s: float  # the same again, with the compile from the cache
    cached_cpu_s: float

    @property
    def added(self) -> float:
        """What the command adds to the compile, as a share of it."""
        return self.seconds / self.compile_s - 1


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="How long tune --predict and predict take.")
    parser.add_argument("--candidates", type=int, default=20)
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    here = machine.describe()
    with tempfile.TemporaryDirectory() as name:
        search = measure_search(Path(name), options.candidates, options.jobs)
        large = measure_large(Path(name), options.layers)
    if options.json:
        found = {"machine": asdict(here), "search": asdict(search), "large": asdict(large)}
        print(json.dumps(found))
        return
    print(f"{here.cores} cores, {here.processor}; load {here.load:.1f}; {here.versions}")
    print(
        f"tune --predict, {search.candidates} candidates: {search.seconds:.0f} s,"
        f" {search.cpu_seconds:.0f} s of CPU; {search.arms} arms, best: {search.best}"
    )
    print(
        f"predict of {large.megabytes:.1f} MB of StableHLO: {large.seconds:.1f} s,"
        f" {large.cpu_seconds:.1f} s of CPU; XLA's compile {large.compile_s:.1f} s,"
        f" and {large.added:.0%} more"
    )
    print(
        f"  compile from the cache: {large.cached_s:.1f} s, {large.cached_cpu_s:.1f} s of CPU,"
        f" {large.cached_s / large.compile_s:.1%} of XLA's compile"
    )


def measure_search(directory: Path, candidates: int, jobs: int) -> Search:
    """Search with the command."""
    out = str(directory / "study")
    command = ["tune", "--predict", STEP, "--target", SEARCHED, "--jobs", str(jobs), "-o", out]
    trial = counterpoint(
        [*command, "--candidates", str(candidates)], directory, {CACHE: "off", "LLAMA": "size=8b"}
    )
    found = json.loads(trial.output)
    return Search(
        candidates=candidates,
        arms=len(found["arms"]),
        seconds=trial.seconds,
        cpu_seconds=trial.cpu_seconds,
        best=found["winner"],
    )


def measure_large(directory: Path, layers: int) -> Large:
    """Predict it with the command, twice."""
    devices, size, settings, target = UNROLLED
    program = directory / "large.mlir.gz"
    lower = [sys.executable, str(HERE / "published_lower.py"), devices, size, str(program)]
    fresh_process.run([*lower, *settings, f"layers={layers}"], directory)
    cache = directory / "cache"
    command = ["predict", str(program), "--target", target]
    first, again = (counterpoint(command, directory, {CACHE: str(cache)}) for _ in range(2))
    (entry,) = cache.rglob("*.zip")
    with zipfile.ZipFile(entry) as kept:
        compile_s = float(json.loads(kept.read("compile.json"))["outcome"]["seconds"])
    return Large(
        megabytes=text_bytes(program) / 1e6,
        seconds=first.seconds,
        cpu_seconds=first.cpu_seconds,
        compile_s=compile_s,
        cached_s=again.seconds,
        cached_cpu_s=again.cpu_seconds,
    )


def text_bytes(program: Path) -> int:
    """How long the text is: gzip's last word."""
    return int.from_bytes(program.read_bytes()[-4:], "little")


def counterpoint(words: Sequence[str], directory: Path, variables: dict[str, str]) -> Trial:
    """Run one of its commands for its JSON."""
    os.environ.update(variables)
    return fresh_process.run([sys.executable, "-m", "counterpoint", *words, "--json"], directory)


if __name__ == "__main__":
    main()
