"""A training step of many devices that never ran: its HLO, and when each op ran on each device.

Sharded as one does it on hundreds of GPUs: weights of a layer are gathered within a host, one layer
ahead; gradients are scattered within it and summed across hosts; one number is summed over all. A
collective starts when its device comes to it and ends on all members at once, so whoever is slow
makes the others wait. Everything follows from the seed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

Longs = NDArray[np.int64]

US: Final = 1_000_000  # picoseconds
MODULE: Final = "jit_train_step"
_ELEMENTS: Final = 1 << 22


@dataclass(frozen=True, slots=True)
class Op:
    """One instruction: what it is, how long it takes alone, who takes part."""

    name: str
    opcode: str
    us: float
    groups: str = ""  # of a collective: "host", "across", "all"
    of: str = ""  # of a done: its start
    scope: str = ""
    line: int = 1


@dataclass(frozen=True, slots=True, eq=False)
class Ran:
    """When an op ran, in ps: one row per op and step, one column per device."""

    ops: tuple[Op, ...]
    op: Longs  # which op each row is
    step: Longs
    start: Longs
    end: Longs
    step_starts: Longs  # of each step, when the hosts launched it


def make_ops(layers: int, kernels: int) -> tuple[Op, ...]:
    """The schedule of one step; each layer runs `kernels` fusions forward and as many backward."""
    ops: list[Op] = []

    def gather(layer: int, suffix: str) -> None:
        name = f"all-gather-start.{layer}{suffix}"
        ops.append(Op(name, "all-gather-start", 150.0, "host", scope=_scope(layer, "all_gather")))

    def wait(layer: int, suffix: str) -> None:
        start = f"all-gather-start.{layer}{suffix}"
        ops.append(Op(f"all-gather-done.{layer}{suffix}", "all-gather-done", 0.0, of=start))

    def compute(layer: int, suffix: str, us: float, scope: str) -> None:
        for number in range(kernels):
            one = us * (1 + number % 3)
            name = f"fusion.{layer}.{number}{suffix}"
            ops.append(Op(name, "fusion", one, scope=scope, line=10 + number))

    gather(0, "f")
    for layer in range(layers):
        wait(layer, "f")
        if layer + 1 < layers:
            gather(layer + 1, "f")
        compute(layer, "f", 20.0, _scope(layer, "dot_general"))
    for layer in reversed(range(layers)):
        compute(layer, "b", 40.0, f"jit(train_step)/transpose(jvp(layer_{layer}))/dot_general")
        scope = f"jit(train_step)/transpose(jvp(layer_{layer}))/reduce_scatter"
        ops.append(Op(f"reduce-scatter.{layer}", "reduce-scatter", 60.0, "host", scope=scope))
        start = f"all-reduce-start.{layer}"
        ops.append(Op(start, "all-reduce-start", 120.0, "across", scope=scope))
        if layer + 1 < layers:
            ops.append(_done(layer + 1))
    ops.append(_done(0))
    ops.append(Op("all-reduce.norm", "all-reduce", 30.0, "all", scope="jit(train_step)/norm"))
    ops.extend(
        Op(f"fusion.update.{layer}", "fusion", 15.0, scope="jit(train_step)/optimizer/add")
        for layer in range(layers)
    )
    ops.append(Op("copy.1", "copy", 25.0))
    return tuple(ops)


def _done(layer: int) -> Op:
    return Op(f"all-reduce-done.{layer}", "all-reduce-done", 0.0, of=f"all-reduce-start.{layer}")


def _scope(layer: int, primitive: str) -> str:
    return f"jit(train_step)/jvp(layer_{layer})/{primitive}"


def replica_groups(groups: str, hosts: int, devices: int) -> str:
    """As HLO writes them, in the short form."""
    if groups == "host":
        return f"[{hosts},{devices}]<=[{hosts * devices}]"
    if groups == "across":
        return f"[{devices},{hosts}]<=[{hosts},{devices}]T(1,0)"
    return f"[1,{hosts * devices}]<=[{hosts * devices}]"


def hlo_text(ops: tuple[Op, ...], hosts: int, devices: int) -> bytes:
    """The scheduled module. Each op takes what the one before it gives."""
    shape = f"f32[{_ELEMENTS}]"
    wide = f"f32[{_ELEMENTS * devices}]"
    lines = [f"  %p = {shape}{{0}} parameter(0)"]
    last, gives = "p", shape
    for op in ops:
        lines.append(_instruction(op, last if not op.of else op.of, hosts, devices))
        if not op.opcode.endswith("-start"):
            last, gives = op.name, wide if op.opcode == "all-gather-done" else shape
    lines[-1] = lines[-1].replace("  %", "  ROOT %", 1)
    head = f"HloModule {MODULE}, is_scheduled=true, num_partitions={hosts * devices}\n\n"
    add = "%add (x: f32[], y: f32[]) -> f32[] {\n  %x = f32[] parameter(0)\n"
    add += "  %y = f32[] parameter(1)\n  ROOT %sum = f32[] add(%x, %y)\n}\n\n"
    fused = f"%fused (q: {shape}) -> {shape} {{\n  %q = {shape}{{0}} parameter(0)\n"
    fused += f"  ROOT %m = {shape}{{0}} multiply(%q, %q)\n}}\n\n"
    body = "\n".join(lines)
    return f"{head}{add}{fused}ENTRY %main (p: {shape}) -> {gives} {{\n{body}\n}}\n".encode()


def _instruction(op: Op, operand: str, hosts: int, devices: int) -> str:
    shape, wide = f"f32[{_ELEMENTS}]{{0}}", f"f32[{_ELEMENTS * devices}]{{0}}"
    result = {"all-gather-start": f"({shape}, {wide})", "all-gather-done": wide}
    more = ", kind=kLoop, calls=%fused" if op.opcode == "fusion" else ""
    if op.groups:
        groups = replica_groups(op.groups, hosts, devices)
        more += f", channel_id=1, replica_groups={groups}, use_global_device_ids=true"
        more += ", dimensions={0}" if "reduce-s" in op.opcode or "gather" in op.opcode else ""
        more += ", to_apply=%add" if "reduce" in op.opcode else ""
    if op.scope:
        file = f'source_file="/home/me/model/layers.py" source_line={op.line}'
        more += f', metadata={{op_name="{op.scope}" {file}}}'
    return f"  %{op.name} = {result.get(op.opcode, shape)} {op.opcode}(%{operand}){more}"


def run_steps(
    ops: tuple[Op, ...], steps: int, hosts: int, devices: int, slow: int, seed: int
) -> Ran:
    """When everything ran, on one clock; device number `slow` computes a fifth slower."""
    random = np.random.default_rng(seed)
    count = hosts * devices
    speed = 1 + 0.01 * random.random(count)
    speed[slow % count] *= 1.2
    clock, network = np.full(count, 50_000.0), np.zeros(count)
    rows = steps * len(ops)
    start, end = np.zeros((rows, count), np.int64), np.zeros((rows, count), np.int64)
    launched = np.zeros(steps, np.int64)
    row = 0
    for step in range(steps):
        launched[step] = round(float(clock.min()) * US)
        clock += 200 + 100 * random.random(count)
        ends: dict[str, NDArray[np.float64]] = {}
        for op in ops:
            begin = clock
            if op.of:
                clock = np.maximum(clock, ends[op.of])
                finish = clock
            elif op.groups:
                begin = np.maximum(clock, network)
                finish = _meet(begin, op.groups, hosts, devices) + op.us
                network = finish
                if op.opcode.endswith("-start"):
                    ends[op.name] = finish
                else:
                    clock = finish
            else:
                clock = clock + op.us * speed * (1 + 0.02 * random.random(count))
                finish = clock
            start[row], end[row] = np.round(begin * US), np.round(finish * US)
            row += 1
    return Ran(
        ops=ops,
        op=np.tile(np.arange(len(ops)), steps),
        step=np.repeat(np.arange(steps), len(ops)),
        start=start,
        end=end,
        step_starts=launched,
    )


def _meet(begin: NDArray[np.float64], groups: str, hosts: int, devices: int) -> NDArray[np.float64]:
    """When the last member of each device's group has come."""
    by_host = begin.reshape(hosts, devices)
    if groups == "host":
        return np.repeat(by_host.max(axis=1), devices)
    if groups == "across":
        return np.tile(by_host.max(axis=0), hosts)
    return np.full(len(begin), begin.max())
