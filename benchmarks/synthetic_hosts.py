"""Profiles of a training run on many hosts that never ran: one XSpace per host.

GPUs as CUPTI's collector writes them (streams, kernels with annotations) or TPU cores (XLA Ops,
XLA Modules, Steps), the step's HLO, host threads, a clock of its own for each host, and one slow
device that all others wait for. The same options give the same bytes.

    python benchmarks/synthetic_hosts.py DIRECTORY --hosts 64 --devices 8

The HLO is embedded as text, which is read as well as a proto.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "timeline"))
sys.path.insert(0, str(Path(__file__).parent))

from xspace_builder import (
    Plane,
    Ref,
    Unsigned,
    Value,
    metadata,
    nvidia,
    task_environment,
    tpu,
    xspace,
)

from packed_lines import EventColumns, PackedLine
from synthetic_step import MODULE, US, Longs, Op, Ran, hlo_text, make_ops, run_steps

PROGRAM: Final = 7
_BEGIN_NS: Final = 1_700_000_000_000_000_000
_EARLY_NS: Final = 30_000_000
_COMPUTE, _NETWORK = "Stream #20(Compute)", "Stream #24(Collective)"
_THREADS: Final = ("python", "tf_XLAEigen/1", "tf_data_iterator/2", "pjrt_launch/3")
_LAUNCH: Final = 8 * US


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """What to make up. `host_events` are those of each host in each step."""

    hosts: int = 64
    devices: int = 8
    steps: int = 15
    layers: int = 32
    kernels: int = 8
    host_events: int = 6000
    kind: str = "gpu"
    slow: int = 301  # the device that computes slower than the others
    clocks_ms: float = 50.0  # how far apart the hosts' clocks are
    seed: int = 1


def host_spaces(cluster: Cluster) -> Iterator[tuple[str, bytes]]:
    """Name and profile of one host after the other."""
    ops = make_ops(cluster.layers, cluster.kernels)
    shape = (cluster.hosts, cluster.devices)
    ran = run_steps(ops, cluster.steps, *shape, cluster.slow, cluster.seed)
    hlo = hlo_text(ops, *shape)
    random = np.random.default_rng(cluster.seed + 1)
    clocks = random.normal(0, cluster.clocks_ms, cluster.hosts)
    early = random.integers(0, _EARLY_NS, cluster.hosts)
    for host in range(cluster.hosts):
        began = _Began(_BEGIN_NS + round(float(clocks[host]) * 1e6), int(early[host]))
        yield f"host-{host:02d}", _space(cluster, ran, hlo, host, began)


@dataclass(frozen=True, slots=True)
class _Began:
    """When the run began by a host's clock, and how long before the host began to record."""

    clock_ns: int
    early_ns: int


def _space(cluster: Cluster, ran: Ran, hlo: bytes, host: int, began: _Began) -> bytes:
    make = _gpu if cluster.kind == "gpu" else _tpu
    planes = [
        make(ran, host * cluster.devices + ordinal, ordinal, began.early_ns)
        for ordinal in range(cluster.devices)
    ]
    planes.append(_host(cluster, ran, began.early_ns, cluster.seed + host))
    planes.append(metadata({(MODULE, PROGRAM): hlo}, jax_version="0.10.2"))
    started = began.clock_ns - began.early_ns
    planes.append(task_environment(started, started + int(ran.end.max()) // 1000))
    return xspace(*planes, hostnames=[f"host-{host:02d}"])


def _gpu(ran: Ran, device: int, ordinal: int, early_ns: int) -> Plane:
    plane = nvidia(ordinal)
    number = plane.stat_id("correlation_id")
    names = [_kernel(op) for op in ran.ops]
    ids = np.array([plane.event_id(name) for name in names])
    stats = [plane.stats(_annotation(op), number=4) for op in ran.ops]
    shown = np.array([not op.of for op in ran.ops])
    networked = np.array([bool(op.groups) for op in ran.ops])
    for stream, chosen in ((_COMPUTE, shown & ~networked), (_NETWORK, shown & networked)):
        rows = np.flatnonzero(chosen[ran.op])
        events = EventColumns(
            kind=ran.op[rows],
            offset_ps=ran.start[rows, device],
            duration_ps=ran.end[rows, device] - ran.start[rows, device],
            ids=ids,
            stats=stats,
            numbered=number,
        )
        _add_line(plane, stream, early_ns, events)
    return plane


def _kernel(op: Op) -> str:
    if op.groups:
        words = "".join(word.title() for word in op.opcode.removesuffix("-start").split("-"))
        return f"ncclDevKernel_{words}_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
    return "MemcpyD2D" if op.opcode == "copy" else op.name.replace(".", "_")


def _annotation(op: Op) -> dict[str, Value]:
    told: dict[str, Value] = {
        "context_id": "$$1",
        "theoretical_occupancy_pct": 50.0,
        "kernel_details": Ref("regs:32 static_shared:0 dynamic_shared:0 grid:132,1,1 occ_pct:50"),
        "hlo_op": Ref(op.name),
        "hlo_module": Ref(MODULE),
        "program_id": PROGRAM,
    }
    return told | ({"name": Ref(op.scope)} if op.scope else {})


def _tpu(ran: Ran, device: int, ordinal: int, early_ns: int) -> Plane:
    """One line of ops, with dones that wait; modules and steps on lines of their own."""
    plane = tpu(ordinal)
    told: dict[str, Value] = {"hlo_module": MODULE, "program_id": Unsigned(PROGRAM)}
    for op in ran.ops:
        plane.describe(_tpu_name(op), told | {"tf_op": f"{op.scope}:"} if op.scope else told)
    begun = np.array([op.opcode.endswith("-start") for op in ran.ops])[ran.op]
    start, end = ran.start[:, device], ran.end[:, device]
    events = EventColumns(
        kind=ran.op,
        offset_ps=start,
        duration_ps=np.where(begun, 1000, np.maximum(end - start, 1000)),
        ids=np.array([plane.event_id(_tpu_name(op)) for op in ran.ops]),
        stats=[b""] * len(ran.ops),
    )
    _add_line(plane, "XLA Ops", early_ns, events)
    steps = np.arange(len(ran.step_starts))
    first, last = np.searchsorted(ran.step, [steps, steps + 1])
    length = end[last - 1] - start[first]
    for line, names in (
        ("XLA Modules", [f"{MODULE}({PROGRAM})"] * len(steps)),
        ("Steps", [str(step) for step in steps.tolist()]),
    ):
        ids = np.array([plane.event_id(name) for name in names])
        told_runs = [plane.stats({"run_id": step + 1}, number=4) for step in steps.tolist()]
        _add_line(plane, line, early_ns, EventColumns(steps, start[first], length, ids, told_runs))
    return plane


def _tpu_name(op: Op) -> str:
    return f"%{op.name} = f32[4194304]{{0}} {op.opcode}(%before)"


def _host(cluster: Cluster, ran: Ran, early_ns: int, seed: int) -> Plane:
    """Threads: one launches and marks steps, the others are busy with what hosts do."""
    plane = Plane("/host:CPU")
    steps = len(ran.step_starts)
    length = np.diff(ran.step_starts, append=int(ran.end.max()))
    marks = [plane.stats({"_r": 1, "step_num": 100 + n}, number=4) for n in range(steps)]
    train = np.full(steps, plane.event_id("train"))
    launch = EventColumns(
        np.arange(steps), ran.step_starts, np.minimum(length, 90_000 * US), train, marks
    )
    _add_line(plane, _THREADS[0], early_ns, launch)
    random = np.random.default_rng(seed)
    per_thread = cluster.host_events * steps // (len(_THREADS) - 1)
    for thread in _THREADS[1:]:
        names = [f"{thread.partition('/')[0]}::work_{number}" for number in range(20)]
        ids = np.array([plane.event_id(name) for name in names])
        times = _spread(random, ran, per_thread)
        events = EventColumns(
            kind=random.integers(0, len(names), per_thread),
            offset_ps=times,
            duration_ps=random.integers(US // 10, _LAUNCH, per_thread),
            ids=ids,
            stats=[b""] * len(names),
        )
        _add_line(plane, thread, early_ns, events)
    return plane


def _spread(random: np.random.Generator, ran: Ran, count: int) -> Longs:
    times: NDArray[np.int64] = random.integers(ran.step_starts[0], int(ran.end.max()), count)
    return np.sort(times)


def _add_line(plane: Plane, name: str, early_ns: int, events: EventColumns) -> None:
    line = PackedLine(name, early_ns, id=len(plane.lines) + 1, packed=[events.encode()])
    plane.lines[name] = line


def main() -> int:
    """Write the profiles where `counterpoint explain` finds them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("directory", type=Path)
    usual = Cluster()
    for name in ("hosts", "devices", "steps", "layers", "kernels", "host_events", "slow", "seed"):
        option = f"--{name.replace('_', '-')}"
        parser.add_argument(option, type=int, default=getattr(usual, name))
    parser.add_argument("--clocks-ms", type=float, default=usual.clocks_ms)
    parser.add_argument("--kind", choices=("gpu", "tpu"), default="gpu")
    options = vars(parser.parse_args())
    into = options.pop("directory") / "plugins" / "profile" / "2026_01_01_00_00_00"
    into.mkdir(parents=True, exist_ok=True)
    total = 0
    for name, data in host_spaces(Cluster(**options)):
        (into / f"{name}.xplane.pb").write_bytes(data)
        total += len(data)
    print(f"{options['hosts']} profiles, {total / 1e6:,.1f} MB: {into}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
