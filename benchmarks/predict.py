"""How fast predictions are: candidates of a small model on 1,024 GPUs, and Llama-70B on 2,048.

    python benchmarks/predict.py [--candidates 12] [--json]

Steps are those of examples/llama.py, lowered before the clock starts. Nothing is taken from the
cache of compiles. A candidate is the same step under other thresholds for combining collectives;
candidates share a compiler that stays (as `predict --candidate` does), on one job, and beside that
each is asked of a process of its own, as a shell loop over `counterpoint predict` does.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import machine

os.environ["COUNTERPOINT_CACHE"] = "off"

from counterpoint.compile.assumptions import assumed_options
from counterpoint.compile.compiler import CompiledProgram
from counterpoint.compile.inputs.workload import load_workload
from counterpoint.compile.pool import compile_all
from counterpoint.compile.task import CompileTask
from counterpoint.cost.build import build_model
from counterpoint.hardware.targets import parse_target
from counterpoint.simulate.simulation import simulate

LOWER = Path(__file__).parent / "published_lower.py"
SMALL = ("1024", "100m", ("layers=8", "batch=1", "data=128", "fsdp=8"), "128x8xH100")
LARGE = ("2048", "70b", ("batch=1", "remat=full"), "256x8xH100")
THRESHOLD = "xla_gpu_all_gather_combine_threshold_bytes"
POLL_S = 0.02


@dataclass(frozen=True, kw_only=True)
class Candidates:
    """Many candidates of one step, on one job."""

    count: int
    seconds: float  # of all, workers started and ended
    cpu_seconds: float  # of the workers
    compile_s: float  # of one, median, as the worker measured it
    simulate_s: float  # of one, median: model built, program read, step run
    alone_s: float  # of one in a process of its own, median


@dataclass(frozen=True, kw_only=True)
class Large:
    """One large prediction, as a command."""

    lower_s: float
    seconds: float
    peak_bytes: int  # of the command and all it starts, together


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="How fast predictions are.")
    parser.add_argument("--candidates", type=int, default=12)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        few = measure_candidates(Path(name), options.candidates)
        large = measure_large(Path(name))
    here = machine.describe()
    if options.json:
        print(json.dumps({"machine": asdict(here), "few": asdict(few), "large": asdict(large)}))
        return
    print(f"{here.cores} cores, {here.processor}; load {here.load:.1f}; {here.versions}")
    each = few.seconds / few.count
    print(f"{few.count} candidates of 8 layers on 1,024 GPUs, one job: {each:.2f} s each,")
    print(f"  {few.cpu_seconds / few.count:.2f} s of CPU each; compile {few.compile_s:.2f} s,")
    share = few.simulate_s / few.compile_s
    print(f"  simulation {few.simulate_s * 1e3:.0f} ms: {share:.1%} of the compile")
    print(f"each in a process of its own: {few.alone_s:.2f} s ({few.alone_s / each:.1f} times)")
    print(
        f"Llama-70B on 2,048 GPUs: {large.seconds:.1f} s, {large.peak_bytes / 1e9:.2f} GB"
        f" (lowered before in {large.lower_s:.1f} s)"
    )


def measure_candidates(directory: Path, count: int) -> Candidates:
    """Compile and simulate each."""
    program, target = lower(SMALL, directory / "small.mlir.gz")[0], parse_target(SMALL[3])
    workload = load_workload(program)
    tasks: list[CompileTask] = []
    for number in range(count):
        options = assumed_options(workload, target, {THRESHOLD: str(1 << 20 + number)}, {}).options
        tasks.append(CompileTask(workload=workload, target=target, options=options))
    simulated: list[float] = []
    compiled: list[float] = []
    cpu, began = os.times(), time.perf_counter()
    for _, result in compile_all(tasks, jobs=1):
        if not isinstance(result, CompiledProgram):
            raise SystemExit(f"a candidate failed: {result}")
        compiled.append(result.seconds)
        start = time.perf_counter()
        simulate(result.program, build_model(target), target=target)
        simulated.append(time.perf_counter() - start)
    seconds, after = time.perf_counter() - began, os.times()
    alone = [
        command_seconds(program, SMALL[3], f"{THRESHOLD}={1 << 20 + number}") for number in range(3)
    ]
    return Candidates(
        count=count,
        seconds=seconds,
        cpu_seconds=after.children_user + after.children_system - cpu[2] - cpu[3],
        compile_s=median(compiled),
        simulate_s=median(simulated),
        alone_s=median(alone),
    )


def measure_large(directory: Path) -> Large:
    """Predict it with the command."""
    program, lowered = lower(LARGE, directory / "large.mlir.gz")
    with watched_memory() as peak:
        seconds = command_seconds(program, LARGE[3])
    return Large(lower_s=lowered, seconds=seconds, peak_bytes=max(peak))


def lower(what: tuple[str, str, Sequence[str], str], out: Path) -> tuple[Path, float]:
    """The step as a file, and how long that took."""
    devices, size, settings, _ = what
    began = time.perf_counter()
    command = [sys.executable, str(LOWER), devices, size, str(out), *settings]
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
    return out, time.perf_counter() - began


def command_seconds(program: Path, target: str, *settings: str) -> float:
    """How long `counterpoint predict` takes."""
    command = [sys.executable, "-m", "counterpoint", "predict", str(program), "--target", target]
    for setting in settings:
        command += ["--set", setting]
    began = time.perf_counter()
    done = subprocess.run([*command, "--json"], capture_output=True, check=False)
    seconds = time.perf_counter() - began
    if not done.stdout or "prediction" not in json.loads(done.stdout):
        raise SystemExit(done.stderr.decode())
    return seconds


@contextmanager
def watched_memory() -> Generator[list[int]]:
    """Resident bytes of all descendants of this process, looked at again and again."""
    seen = [0]
    over = threading.Event()

    def watch() -> None:
        while not over.wait(POLL_S):
            seen.append(descendants_bytes(os.getpid()))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield seen
    finally:
        over.set()
        watcher.join()


def descendants_bytes(pid: int) -> int:
    """Resident bytes of a process's children and theirs."""
    parents: dict[int, list[int]] = {}
    resident: dict[int, int] = {}
    page = os.sysconf("SC_PAGE_SIZE")
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                stat = (entry / "stat").read_text().rpartition(")")[2].split()
                pages = int((entry / "statm").read_text().split()[1])
            except (OSError, IndexError):
                continue  # it has ended
            parents.setdefault(int(stat[1]), []).append(int(entry.name))
            resident[int(entry.name)] = pages * page
    total, waiting = 0, list(parents.get(pid, ()))
    while waiting:
        child = waiting.pop()
        total += resident.get(child, 0)
        waiting += parents.get(child, ())
    return total


if __name__ == "__main__":
    main()
