"""Price collectives that were measured, and say how far off each price is.

    python benchmarks/collectives.py [--nic-ratio FILE] [--pgle DIRECTORY] [-o docs/FILE.md]

Three sources that know nothing of our model: benchmarks that others published
(collectives_published.csv); the network efficiency that SimAI's authors measured by size and number
of hosts (inputs/ratio/nic_ratio.csv of aliyun/SimAI); and real costs in PGLE profiles of Llama-2
70B (AI-Hypercomputer/maxtext, MaxText/configs/a3), which name instructions without their sizes.
Nothing is fitted, except where a heading says so.
"""

from __future__ import annotations

import argparse
import csv
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from counterpoint.cost.collectives.pricing import price_collective
from counterpoint.cost.model import Price
from counterpoint.cost.scalars import Scalar, Scalars, default_scalars
from counterpoint.hardware.target import Target
from counterpoint.hardware.targets import parse_target
from counterpoint.hlo.text_reader import program_from_text

# A layer of Llama-2 70B: q, k, v, o and the three of the MLP, and two norms, in bf16. The step of
# this model, compiled with MaxText's thresholds, gathers exactly these in one collective.
LAYER_BYTES = 2 * (2 * 8192 * 8192 + 2 * 8192 * 1024 + 3 * 8192 * 28672 + 2 * 8192)
FSDP = 128  # ici_fsdp_parallelism=8 x dcn_fsdp_parallelism=16, whatever the number of hosts
PROFILES = {"bf16_16vm": 16, "bf16_64vm": 64, "fp8_128vm": 128}
# The machines that MaxText's comments name for it: A3 and A3 Mega, 8 H100 each.
NETWORKS = {"A3 Mega, 8x200G": "8x200G", "A3 High, 4x200G": "4x200G"}


@dataclass(frozen=True, slots=True)
class Compared:
    """A measured collective beside its price."""

    name: str
    measured: float
    price: Price

    @property
    def error(self) -> float:
        return self.price.seconds / self.measured - 1

    @property
    def inside(self) -> bool:
        return self.price.low <= self.measured <= self.price.high


def priced(kind: str, size: int, group: int, target: Target, scalars: Scalars) -> Price:
    """One collective of neighbouring ranks on the whole target."""
    devices, elements = target.devices, size // 4
    whole, part = f"f32[{elements}]", f"f32[{elements // group}]"
    result, operand = {
        "all-gather": (whole, part), "reduce-scatter": (part, whole),
    }.get(kind, (whole, whole))  # fmt: skip
    extra = "" if kind == "all-gather" else ", to_apply=%sum"
    extra += "" if kind == "all-reduce" else ", dimensions={0}"
    program = program_from_text(
        f"HloModule m, is_scheduled=true, num_partitions={devices}\n\n"
        "%sum (a: f32[], b: f32[]) -> f32[] {\n  %a = f32[] parameter(0)\n"
        "  %b = f32[] parameter(1)\n  ROOT %c = f32[] add(%a, %b)\n}\n\n"
        f"ENTRY %main (x: f32[]) -> f32[] {{\n  %x = {operand} parameter(0)\n"
        f"  ROOT %it = {result} {kind}(%x), channel_id=1, use_global_device_ids=true,"
        f" replica_groups=[{devices // group},{group}]<=[{devices}]{extra}\n}}\n"
    )
    instruction = program.instruction("it")
    price = instruction and price_collective(program, instruction, target, scalars)
    if price is None:
        raise ValueError(f"{kind} is no collective")
    return price


def published(path: Path) -> Iterator[Compared]:
    """Benchmarks of others."""
    lines = [line for line in path.read_text("utf-8").splitlines() if not line.startswith("#")]
    for row in csv.DictReader(lines):
        target = parse_target(row["target"])
        scalars = default_scalars(target.gpu)
        size = int(row["bytes"])
        price = priced(row["kind"], size, target.devices, target, scalars)
        name = f"{row['target']} {row['kind']} {_spelt(size)}"
        yield Compared(name, float(row["microseconds"]) * 1e-6, price)


def simai(path: Path) -> Iterator[tuple[int, Compared]]:
    """All-gathers over whole hosts of 8 at SimAI's share of 8 x 48.5 GB/s."""
    rows = list(csv.reader(path.read_text("utf-8").splitlines()))
    hosts = [int(found[1]) if (found := re.match(r"(\d+)Node", it)) else 0 for it in rows[0]]
    for row in rows[1:]:
        size = int(row[0])
        for count, share in zip(hosts, row, strict=False):
            if count < 2:
                continue
            target = parse_target(f"{count}x8xH100:400G")
            ranks = target.devices
            measured = size * (ranks - 1) / ranks / (float(share) * 8 * 48.5e9)
            price = priced("all-gather", size, ranks, target, default_scalars("H100"))
            yield count, Compared(f"{count} hosts, {_spelt(size)}", measured, price)


def costs(path: Path) -> list[tuple[str, float]]:
    """Collectives of a profile, in seconds."""
    found = re.findall(r'name: "([^"]+)" cost_us: ([\d.]+)', path.read_text("utf-8"))
    return [
        (name, float(us) * 1e-6)
        for name, us in found
        if re.match(r"all-(gather|reduce)|reduce-scatter", name)
    ]


def matched(found: Sequence[tuple[str, float]], kind: str) -> list[tuple[str, float]]:
    """Those of a kind that move a layer: near the median of all-gathers, the most common."""
    usual = median(seconds for name, seconds in found if name.startswith("all-gather"))
    return [
        (name, seconds)
        for name, seconds in found
        if name.startswith(kind) and abs(seconds / usual - 1) < 0.25
    ]


def layers(directory: Path, network: str, share: float | None) -> Iterator[tuple[str, Compared]]:
    """Whole layers in the profiles, at a share of the NICs' rate."""
    for profile, hosts in PROFILES.items():
        found = costs(directory / f"{profile}.pbtxt")
        scalars = default_scalars("H100")
        if share is not None:
            scalars = replace(scalars, network=Scalar(share, 0.1, "fitted"))
        target = parse_target(f"{hosts}x8xH100:{network}")
        # In fp8 nobody tells which weights travel in 8 bits; gradients are bf16 in all three.
        kinds = (
            ["reduce-scatter"] if profile.startswith("fp8") else ["all-gather", "reduce-scatter"]
        )
        for kind in kinds:
            price = priced(kind, LAYER_BYTES, FSDP, target, scalars)
            if profile.startswith("fp8"):
                usual = [it for it in found if it[0].startswith(kind) and it[1] > 12e-3]
            else:
                usual = matched(found, kind)
            for name, seconds in usual:
                yield profile, Compared(f"{profile} {name}", seconds, price)


def fitted_share(directory: Path, network: str) -> float:
    """The share of the NICs' rate at which 16 hosts' median all-gather comes out right."""
    wanted = median(s for _, s in matched(costs(directory / "bf16_16vm.pbtxt"), "all-gather"))
    target = parse_target(f"16x8xH100:{network}")
    low, high = 0.05, 1.0
    for _ in range(40):
        share = (low + high) / 2
        scalars = replace(default_scalars("H100"), network=Scalar(share, 0.1, "fitted"))
        slow = priced("all-gather", LAYER_BYTES, FSDP, target, scalars).seconds > wanted
        low, high = (share, high) if slow else (low, share)
    return low


def summary(compared: Iterable[Compared]) -> str:
    """How errors are distributed, as cells of a table."""
    them = list(compared)
    errors = sorted(it.error for it in them)
    absolute = sorted(map(abs, errors))
    worst = max(them, key=lambda it: abs(it.error))
    return (
        f"{len(errors)} | {median(errors):+.0%} | {median(absolute):.0%} |"
        f" {absolute[math.ceil(0.9 * len(absolute)) - 1]:.0%} | {worst.error:+.0%} ({worst.name}) |"
        f" {sum(it.inside for it in them)}"
    )


HEADER = "| what | n | median error | median abs | 90th pct abs | worst | in range |"
RULE = "|---|---:|---:|---:|---:|---|---:|"


def report(arguments: argparse.Namespace) -> Iterator[str]:
    """The tables, as Markdown."""
    rows = list(published(Path(__file__).with_name("collectives_published.csv")))
    yield "## Published benchmarks, nothing fitted\n"
    yield from (HEADER, RULE)
    for target in dict.fromkeys(it.name.split()[0] for it in rows):
        yield f"| {target} | {summary(it for it in rows if it.name.split()[0] == target)} |"
    yield f"| all | {summary(rows)} |"
    yield "\n| collective | measured ms | priced ms | range ms | error | by |"
    yield "|---|---:|---:|---|---:|---|"
    yield from map(_row, rows)
    if arguments.nic_ratio:
        yield "\n## SimAI's network efficiency, nothing fitted\n"
        yield from (HEADER, RULE)
        found = list(simai(arguments.nic_ratio))
        for hosts in dict.fromkeys(count for count, _ in found):
            yield f"| {hosts} hosts | {summary(it for count, it in found if count == hosts)} |"
        yield f"| all | {summary(it for _, it in found)} |"
        large = [it for _, it in found if it.measured and "GiB" in it.name]
        yield f"| 1 GiB and more | {summary(large)} |"
    if arguments.pgle:
        yield from profiles(arguments.pgle)


def profiles(directory: Path) -> Iterator[str]:
    """What the profiles tell, under both machines and fitted to one of three."""
    for heading, network in NETWORKS.items():
        yield f"\n## Llama-2 70B's layers, {heading}, nothing fitted\n"
        yield from (HEADER, RULE)
        yield from _by_profile(list(layers(directory, network, None)))
    for heading, network in NETWORKS.items():
        share = fitted_share(directory, network)
        yield f"\n## The same, {heading}, NIC share fitted to 16 hosts' all-gathers: {share:.2f}\n"
        yield from (HEADER, RULE)
        yield from _by_profile(list(layers(directory, network, share)))
    yield "\n## Not matched\n"
    for profile in PROFILES:
        found = costs(directory / f"{profile}.pbtxt")
        known = {it.name.split()[1] for p, it in layers(directory, "8x200G", None) if p == profile}
        rest = [f"{name} {s * 1e3:.2f} ms" for name, s in found if name not in known]
        yield f"- {profile}: {len(rest)} of {len(found)}: {', '.join(rest)}"


def _by_profile(found: list[tuple[str, Compared]]) -> Iterator[str]:
    for profile in PROFILES:
        for kind in ("all-gather", "reduce-scatter"):
            them = [it for p, it in found if p == profile and f" {kind}" in it.name]
            if them:
                priced_ms = them[0].price.seconds * 1e3
                yield f"| {profile} {kind}, priced {priced_ms:.1f} ms | {summary(them)} |"
    yield f"| all | {summary(it for _, it in found)} |"


def _row(it: Compared) -> str:
    ms = [seconds * 1e3 for seconds in (it.price.seconds, it.price.low, it.price.high)]
    return (
        f"| {it.name} | {it.measured * 1e3:.3f} | {ms[0]:.3f} | {ms[1]:.3f} to {ms[2]:.3f} |"
        f" {it.error:+.0%} | {it.price.how} |"
    )


def _spelt(size: int) -> str:
    for unit, scale in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= scale:
            return f"{size / scale:g} {unit}"
    return f"{size} B"


def main() -> None:
    """Print the report, and keep it where asked."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nic-ratio", type=Path)
    parser.add_argument("--pgle", type=Path)
    parser.add_argument("-o", "--output", type=Path)
    arguments = parser.parse_args()
    text = "\n".join(report(arguments)) + "\n"
    print(text)
    if arguments.output:
        arguments.output.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
