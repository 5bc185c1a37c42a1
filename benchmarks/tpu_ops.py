"""Compare the prices of operations on TPUs with profiles, by category.

    python benchmarks/tpu_ops.py PROFILE=GENERATION ...
    python benchmarks/tpu_ops.py trace.xplane.pb=v6e-4 trace.json.gz=tpu7x-2

Of a profile with HLO, each operation is priced as `predict` prices it. A trace.json has none, but
the FLOPs and bytes of its operations: its products are priced by the rule for large ones, and its
plain operations by their bytes, which count as bytes in HBM even if they are on the chip. The
table adds up the time of single executions, the mean over all of them in the profile. Copies to and
from the host overlap: theirs is the time from a start to the end of its done, counted once.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

import polars as pl

import counterpoint
from counterpoint.core.columns import union
from counterpoint.cost.build import build_model
from counterpoint.cost.model import PriceSource
from counterpoint.cost.tpu.ici import within_slice
from counterpoint.cost.tpu.pricing import HBM_SHARE, PRODUCT_SHARE, estimated_cycles
from counterpoint.hardware.target import Target
from counterpoint.hardware.targets import parse_target

Row = dict[str, float | int | str | None]
LEAST_S = 1e-6


@dataclass(frozen=True, slots=True)
class Compared:
    """One operation: its mean measured time, its price, and XLA's estimate if it wrote one."""

    profile: str
    category: str
    measured_s: float
    priced_s: float
    estimated_s: float | None


def main() -> int:
    """Print the table of all profiles."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("profiles", nargs="+", metavar="PROFILE=GENERATION")
    options = parser.parse_args()
    found: list[Compared] = []
    for word in options.profiles:
        path, _, name = word.rpartition("=")
        found += compared(Path(path), parse_target(name, tpus=True))
    print("\n".join(table(found)))
    return 0


def compared(path: Path, target: Target) -> Iterator[Compared]:
    """Yield the operations of a profile that take a microsecond or more."""
    timeline = counterpoint.read(path)
    yield from host_copies(path, timeline, target)
    for row in durations(timeline).iter_rows(named=True):
        if row["seconds"] < LEAST_S or row["async_window"]:
            continue
        index: int | None = row["program"]
        entry = None if index is None else timeline.programs[index].hlo()
        priced = by_facts(row, target) if entry is None else by_program(row, entry, target)
        if priced is not None:
            yield Compared(path.name, row["category"], row["seconds"], *priced)


def durations(timeline: counterpoint.Timeline) -> pl.DataFrame:
    """Return each operation with its mean duration, but copies to and from the host."""
    facts = pl.first("category", "opcode", "flops", "bytes_accessed", "group_size", "async_window")
    return (
        spans_of(timeline)
        .filter(pl.col("category") != "host")
        .group_by("program", "instruction")
        .agg(facts, (pl.col("dur_ps").mean() * 1e-12).alias("seconds"))
        .sort("seconds", descending=True)
    )


def spans_of(timeline: counterpoint.Timeline) -> pl.DataFrame:
    """Return the executions of operations, with what is known of each."""
    ops = timeline.ops.with_row_index("row").with_columns(pl.col("row").cast(pl.UInt32))
    joined = timeline.spans.join(ops, left_on="op", right_on="row")
    return joined.rename({"op_right": "instruction"})


def host_copies(path: Path, timeline: counterpoint.Timeline, target: Target) -> Iterator[Compared]:
    """Yield the copies of each program as one: the time in which one is under way."""
    windows = (
        spans_of(timeline)
        .filter((pl.col("category") == "host") & pl.col("pair").is_not_null())
        .with_columns(end_ps=pl.col("start_ps") + pl.col("dur_ps"))
        .group_by("program", "device", "run", "pair")
        .agg(pl.col("start_ps").min(), pl.col("end_ps").max())
        .sort("start_ps")
    )
    for (index,), rows in windows.group_by("program"):
        program = None if index is None else timeline.programs[int(str(index))].hlo()
        names = rows["pair"].unique().to_list()
        found = [by_program({"instruction": name}, program, target) for name in names if program]
        runs = [
            union(run["start_ps"].to_numpy(), run["end_ps"].to_numpy()).total
            for _, run in rows.group_by("device", "run")
        ]
        priced = sum(one[0] for one in found if one)
        if priced and runs:
            yield Compared(path.name, "host copies", mean(runs) * 1e-12, priced, None)


def by_program(
    row: Row, program: counterpoint.Program, target: Target
) -> tuple[float, float | None] | None:
    """Return the price of an operation of known HLO, and XLA's estimate."""
    instruction = program.instruction(str(row["instruction"]))
    if instruction is None:
        return None
    price = build_model(target).price(program, instruction)
    if price.seconds == 0 or price.source is PriceSource.BOUND or target.tpu is None:
        return None
    cycles = estimated_cycles(instruction)
    return price.seconds, cycles and cycles / (target.tpu.tpu.clock_ghz * 1e9)


def by_facts(row: Row, target: Target) -> tuple[float, None] | None:
    """Return the price of an operation from its counts of FLOPs and bytes alone."""
    flops, moved = float(row["flops"] or 0), float(row["bytes_accessed"] or 0)
    if target.tpu is None or not moved:
        return None
    if row["category"] == "collective":
        of_chip = target.tpu.tpu.devices
        return within_slice(str(row["opcode"]), int(moved / 2), of_chip, target.tpu).seconds, None
    if row["category"] in ("host", "attention", "custom-call"):
        return None
    rate = target.tpu.tpu.product_flops * PRODUCT_SHARE
    multiplied = flops / rate if row["category"] == "matmul" else 0.0
    return max(multiplied, moved / (target.chip.hbm_bytes * HBM_SHARE)), None


def table(found: list[Compared]) -> list[str]:
    """Return sums by profile and category."""
    groups: defaultdict[tuple[str, str], list[Compared]] = defaultdict(list)
    for one in found:
        groups[one.profile, one.category].append(one)
    lines = [
        "| profile | category | operations | measured ms | of XLA's estimate | of our price |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for (profile, category), ones in groups.items():
        measured = sum(one.measured_s for one in ones)
        known = [one for one in ones if one.estimated_s is not None]
        estimated = sum(one.estimated_s or 0.0 for one in known)
        share = f"{sum(one.measured_s for one in known) / estimated:.2f}" if known else "none"
        priced = sum(one.priced_s for one in ones)
        lines.append(
            f"| {profile} | {category} | {len(ones)} | {measured * 1e3:.4g} | {share}"
            f" | {measured / priced:.2f} |"
        )
    return lines


if __name__ == "__main__":
    sys.exit(main())
