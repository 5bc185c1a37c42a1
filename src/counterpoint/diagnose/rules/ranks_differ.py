"""Hosts run different builds of one program.

## What it does

Compares the HLO of a program on all hosts: the same instructions in the same order with the same
configuration. Names, ids, fingerprints and metadata are ignored.

## Why it costs time

All ranks wait for the slowest at each collective. A rank whose autotuner chose another algorithm
for a matrix product may be the slowest; ranks whose collectives differ in order deadlock.

## How it is detected

Profiles carry the HLO of each host. Computations are compared from the entry on: opcodes, shapes,
operands by position, replica groups, called computations; then backend configurations. If only the
latter differ, ranks are tuned differently, and the measured times of those ops give the cost.

## Example

```text
gemm_fusion_dot.460    ranks 0 to 2: block_m 128, 4 stages
                       rank 3:       block_m 256, 3 stages
```

## Fix

Tune once for all ranks: keep `--xla_gpu_shard_autotuning` on, or write autotune results on one rank
(`--xla_gpu_dump_autotune_results_to`) and load them on all
(`--xla_gpu_load_autotune_results_from`). If instructions differ: give all ranks the same flags,
versions and code.

## Fix safety

Other algorithms round differently; with one file all ranks round alike, and so do all runs.

## False alarms

Programs that differ on purpose (pipeline stages by host) have different HLO under one name.

## References

- https://openxla.org/xla/persisted_autotuning
- https://github.com/openxla/xla/issues/7716
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import polars as pl

from counterpoint.core import Range, Unknown
from counterpoint.core.printable import counted_noun
from counterpoint.diagnose.environment import advise
from counterpoint.diagnose.finding import Evidence, Finding, Remedy, ms_text
from counterpoint.diagnose.host.divergence import Divergence, divergences
from counterpoint.diagnose.host.idle import WORTH
from counterpoint.diagnose.step_data import StepData

CODE: Final = "STEP607"
NAME: Final = "ranks-differ"
SINCE: Final = "0.1"

_LISTED: Final = 4


def check(data: StepData) -> Iterator[Finding]:
    """Yield one finding per program that ran in the steps and differs between hosts."""
    ran = set(data.timeline.runs.filter(pl.col("step").is_not_null())["program"].to_list())
    for diff in divergences(data.timeline):
        if diff.program in ran:
            yield (_structural(data, diff) if diff.structural else _tuned(data, diff))


def _structural(data: StepData, diff: Divergence) -> Finding:
    more = ", ".join(f"{count:+d} {opcode}" for opcode, count in diff.opcodes[:_LISTED])
    return Finding(
        code=CODE,
        title=f"{_few(data, diff)} of {_all(diff)} hosts run another build of {diff.name}",
        detail=(
            f"{diff.instructions[1]:,} instructions there, {diff.instructions[0]:,} elsewhere: "
            + (more or "the same ones in another order")
        ),
        saves_ms=Unknown("the time of the same build on all hosts is unknown"),
        basis=data.basis,
        evidence=_hosts(data, diff),
        remedy=Remedy("start all ranks with the same flags, versions, code and autotune results"),
    )


def _tuned(data: StepData, diff: Divergence) -> Finding:
    took = [_took(data, diff, hosts) for hosts in diff.hosts[:2]]
    known = [ms for ms in took if ms is not None]
    apart = abs(known[0] - known[1]) if len(known) == len(took) else None
    times = (
        f"; they take {ms_text(known[1])} per step there and {ms_text(known[0])} elsewhere"
        if apart is not None
        else ""
    )
    return Finding(
        code=CODE,
        title=(
            f"{_few(data, diff)} of {_all(diff)} hosts are tuned differently:"
            f" {counted_noun(len(diff.tuned), 'instruction')} of {diff.name}"
        ),
        detail=(
            f"only the configuration of the HLO differs, first in {diff.tuned[0]}: each rank was"
            f" autotuned separately{times}"
        ),
        saves_ms=_saved(data, apart),
        basis=data.basis,
        evidence=tuple(
            Evidence(
                what=name,
                ms=None,
                spans=data.longest(data.rows_of({"program": diff.program, "op": name})),
            )
            for name in diff.tuned[:_LISTED]
        ),
        remedy=advise(
            data,
            "tune once for all ranks: keep autotuning sharded, or load one file of autotune results"
            " on all ranks (--xla_gpu_load_autotune_results_from)",
            {"xla_gpu_shard_autotuning": "true"},
        ),
    )


def _saved(data: StepData, apart: float | None) -> Range | Unknown:
    if apart is None:
        return Unknown("the profile does not show these ops")
    if apart <= WORTH * data.step_ms:
        return Unknown(f"these ops take only {ms_text(apart)} longer in one build than the other")
    return Range(0.0, apart)


def _few(data: StepData, diff: Divergence) -> str:
    few = [data.timeline.hosts[host].name for hosts in diff.hosts[1:] for host in hosts]
    return f"{len(few)} ({', '.join(few[:_LISTED])}{', ...' if few[_LISTED:] else ''})"


def _all(diff: Divergence) -> int:
    return sum(len(hosts) for hosts in diff.hosts)


def _hosts(data: StepData, diff: Divergence) -> tuple[Evidence, ...]:
    return tuple(
        Evidence(what=f"{data.timeline.hosts[hosts[0]].name}: {count:,} instructions", ms=None)
        for hosts, count in zip(diff.hosts, diff.instructions, strict=True)
    )


def _took(data: StepData, diff: Divergence, hosts: tuple[int, ...]) -> float | None:
    """Return milliseconds per step of the differently tuned ops on these hosts, mean by device."""
    devices = [index for index, device in enumerate(data.timeline.devices) if device.host in hosts]
    ops = data.timeline.ops.with_row_index("row").filter(
        (pl.col("program") == diff.program) & pl.col("op").is_in(diff.tuned)
    )
    spans = data.spans.filter(
        pl.col("device").is_in(devices)
        & pl.col("op").is_in(ops["row"].to_list())
        & pl.col("step").is_not_null()
    )
    windows = data.selection.windows.filter(pl.col("device").is_in(devices))
    if not len(spans) or not len(windows):
        return None
    whole = data.selection.scale * data.selection.occurrences
    return float(spans["dur_ps"].sum()) * whole / len(windows)
