"""How explaining a run grows with its hosts: 1, 4, 16 and 64 made-up ones, side by side.

Each set is explained by the command in a process of its own, the sets in turn, several times. Time
per host and memory per span must not grow. CPU seconds count the reading processes; the memory is
that of all processes at the same moment, looked at every twentieth of a second.

    python benchmarks/hosts.py
    python benchmarks/hosts.py --hosts 1,4,16 --jobs 1
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parent))

from synthetic_hosts import Cluster, host_spaces

PAGE = os.sysconf("SC_PAGE_SIZE")
PAUSE_S = 0.05


@dataclass(frozen=True, slots=True)
class Took:
    """What one run of the command took."""

    seconds: float
    cpu_seconds: float
    peak_bytes: int


def main() -> int:
    """Make the sets, measure in turn, print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--hosts", default="1,4,16,64")
    parser.add_argument("--kind", choices=("gpu", "tpu"), default="gpu")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--jobs", default="2")
    options = parser.parse_args()
    counts = [int(count) for count in options.hosts.split(",")]
    with tempfile.TemporaryDirectory(prefix="counterpoint-hosts-") as scratch:
        sets = {count: make(Path(scratch) / str(count), count, options.kind) for count in counts}
        taken: dict[int, list[Took]] = {count: [] for count in counts}
        for _ in range(options.runs):
            for count, directory in sets.items():
                taken[count].append(explain(directory, options.jobs, Path(scratch) / "out.json"))
        print_table({count: size(sets[count]) for count in counts}, taken)
    return 0


def make(directory: Path, hosts: int, kind: str) -> Path:
    """The profiles of so many hosts."""
    directory.mkdir()
    for name, data in host_spaces(Cluster(hosts=hosts, kind=kind)):
        (directory / f"{name}.xplane.pb").write_bytes(data)
    return directory


def size(directory: Path) -> int:
    """Bytes of all profiles."""
    return sum(path.stat().st_size for path in directory.iterdir())


def explain(directory: Path, jobs: str, out: Path) -> Took:
    """Run the command, and watch it and its children."""
    words = ["explain", str(directory), "--jobs", jobs, "-o", str(out), "--force"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "counterpoint", *words], stderr=subprocess.DEVNULL
    )
    peak = 0
    while process.poll() is None:
        peak = max(peak, resident(process.pid))
        time.sleep(PAUSE_S)
    seconds = time.perf_counter() - began
    if process.returncode:
        raise SystemExit(f"error: exit code {process.returncode} of counterpoint {words}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Took(seconds, cpu, peak)


def resident(pid: int) -> int:
    """Resident bytes of a process and its children."""
    try:
        own = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE
        children = [
            int(child)
            for task in Path(f"/proc/{pid}/task").iterdir()
            for child in (task / "children").read_text().split()
        ]
    except OSError:
        return 0  # it has ended
    return own + sum(resident(child) for child in children)


def print_table(sizes: dict[int, int], taken: dict[int, list[Took]]) -> None:
    """One row per set; medians."""
    print("| hosts | MB | seconds | CPU s | CPU s per host | peak MB | peak MB per host |")
    print("| ----: | ---: | ------: | ----: | -------------: | ------: | ---------------: |")
    for hosts, trials in taken.items():
        seconds = median(one.seconds for one in trials)
        cpu = median(one.cpu_seconds for one in trials)
        peak = max(one.peak_bytes for one in trials) / 1e6
        print(
            f"| {hosts} | {sizes[hosts] / 1e6:,.0f} | {seconds:.1f} | {cpu:.1f} |"
            f" {cpu / hosts:.2f} | {peak:,.0f} | {peak / hosts:,.1f} |"
        )


if __name__ == "__main__":
    sys.exit(main())
