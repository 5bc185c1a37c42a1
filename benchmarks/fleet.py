"""How `explain --executor` grows with hosts: 1 to 1,024 synthetic ones of 8 GPUs x 10 steps.

Profiles are generated in batches, reduced to extracts, and deleted, so that the disk holds few. The
driver is a process of its own, whose peak memory counts; generation is not measured.

    python benchmarks/fleet.py
    python benchmarks/fleet.py --hosts 1,8,64 --executor ray --workers 2
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from counterpoint.fleet.tasks import ExtractExecutor

BATCH = 32
MEMORY = 2 << 30


def main() -> int:
    """Measure each size, print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--hosts", default="1,8,64,1024")
    parser.add_argument("--executor", choices=("local", "ray"), default="local")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--keep", help="write the extracts of the last size to this file")
    parser.add_argument("--drive", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.drive:
        drive(options.executor, options.workers, options.keep)
        return 0
    print(
        "| hosts | MB read | seconds | CPU s | CPU s per host | driver's peak MB | KB of extract |"
    )
    print(
        "| ----: | ------: | ------: | ----: | -------------: | ---------------: | -----------: |"
    )
    for count in map(int, options.hosts.split(",")):
        told = measure(count, options.executor, options.workers, options.keep)
        cpu = told["cpu_s"]
        print(
            f"| {count:,} | {told['read_bytes'] / 1e6:,.0f} | {told['seconds']:,.1f} | {cpu:,.1f} |"
            f" {cpu / count:.2f} | {told['peak_bytes'] / 1e6:,.0f} |"
            f" {told['extract_bytes'] / count / 1e3:,.0f} |",
            flush=True,
        )
        print(f"<!-- {told['late']} -->", flush=True)
    return 0


def measure(hosts: int, executor: str, workers: int, keep: str | None) -> dict[str, Any]:
    """Give a driver the profiles batch by batch; return what it tells at the end."""
    words = [sys.executable, __file__, "--drive", "--executor", executor, "--workers", str(workers)]
    words += ["--keep", keep] if keep else []
    with (
        subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as driver,
        tempfile.TemporaryDirectory(prefix="counterpoint-fleet-") as scratch,
    ):
        if driver.stdin is None or driver.stdout is None:
            raise SystemExit("error: no pipes")
        for paths in batches(hosts, Path(scratch)):
            driver.stdin.write(json.dumps([str(path) for path in paths]) + "\n")
            driver.stdin.flush()
            driver.stdout.readline()
            for path in paths:
                path.unlink()
        driver.stdin.close()
        return json.loads(driver.stdout.readline())


def batches(hosts: int, into: Path) -> Iterator[list[Path]]:
    """Write the profiles of some hosts at a time."""
    from synthetic_hosts import Cluster, host_spaces

    spaces = host_spaces(
        Cluster(
            hosts=hosts, devices=8, steps=10, layers=4, kernels=4, host_events=200, slow=hosts * 5
        )
    )
    while batch := list(islice(spaces, BATCH)):
        paths: list[Path] = []
        for name, data in batch:
            paths.append(into / f"{name}.xplane.pb")
            paths[-1].write_bytes(data)
        yield paths


def drive(executor: str, workers: int, keep: str | None) -> None:
    """Reduce batches until there are no more, then arrange and summarize all of them."""
    from counterpoint.fleet.extract import merge, to_bytes
    from counterpoint.fleet.fleet import arrange
    from counterpoint.fleet.summary import summarize
    from counterpoint.fleet.tasks import gather_extracts

    chosen = made(executor, workers)
    whole, seconds, read_bytes, last = None, 0.0, 0, None
    for line in sys.stdin:
        began = time.perf_counter()
        last = gather_extracts(json.loads(line), chosen, memory_bytes=MEMORY, strict=True)
        whole = last.extracts if whole is None else merge(whole, last.extracts)
        read_bytes += last.read_bytes
        seconds += time.perf_counter() - began
        print("done", flush=True)
    if whole is None or last is None:
        raise SystemExit("error: nothing to do")
    began = time.perf_counter()
    summary = summarize(arrange(whole), last)
    seconds += time.perf_counter() - began
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    told = {
        "seconds": seconds,
        "cpu_s": sum(each.ru_utime + each.ru_stime for each in used),
        "read_bytes": read_bytes,
        "peak_bytes": used[0].ru_maxrss * 1024,
        "extract_bytes": len(to_bytes(whole)),
        "late": [(late.kind, late.name, late.late_steps) for late in summary.late],
    }
    if keep:
        Path(keep).write_bytes(to_bytes(whole))
    print(json.dumps(told), flush=True)


def made(executor: str, workers: int) -> ExtractExecutor:
    """The executor with so many workers; of Ray a cluster of its own."""
    if executor == "local":
        from counterpoint.fleet.local import LocalExecutor

        return LocalExecutor(workers)
    from counterpoint.fleet.cluster import RayExecutor

    ray: Any = import_module("ray")
    ray.init(num_cpus=workers, include_dashboard=False, log_to_driver=False)
    return RayExecutor()


if __name__ == "__main__":
    sys.exit(main())
