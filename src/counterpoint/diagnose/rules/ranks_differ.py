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
from counterpoint.diagnose.finding import Evidence, Finding, Remedy
from counterpoint.diagnose.host.consistency import Divergence, divergences
from counterpoint.diagnose.host.idle import WORTH
from counterpoint.diagnose.machines import advise
from counterpoint.diagnose.step_data import StepData

CODE: Final = "STEP607"
NAME: Final = "ranks-differ"
SINCE: Final = "0.1"

_LISTED: Final = 4


def check(case: StepData) -> Iterator[Finding]:
    """Yield one finding per program that ran in the steps and differs between hosts."""
    ran = set(case.timeline.runs.filter(pl.col("step").is_not_null())["program"].to_list())
    for divergence in divergences(case.timeline):
        if divergence.program in ran:
            yield (
                _structural(case, divergence) if divergence.structural else _tuned(case, divergence)
            )


def _structural(case: StepData, one: Divergence) -> Finding:
    more = ", ".join(f"{count:+d} {opcode}" for opcode, count in one.opcodes[:_LISTED])
    return Finding(
        code=CODE,
        title=f"{_few(case, one)} of {_all(one)} hosts run another build of {one.name}",
        detail=(
            f"{one.instructions[1]:,} instructions there, {one.instructions[0]:,} elsewhere: "
            + (more or "the same ones in another order")
        ),
        saves_ms=Unknown("the time of the same build on all hosts is unknown"),
        basis=case.basis,
        evidence=_hosts(case, one),
        remedy=Remedy("start all ranks with the same flags, versions, code and autotune results"),
    )


def _tuned(case: StepData, one: Divergence) -> Finding:
    took = [_took(case, one, hosts) for hosts in one.hosts[:2]]
    known = [ms for ms in took if ms is not None]
    apart = abs(known[0] - known[1]) if len(known) == len(took) else None
    times = (
        f"; they take {took[1]:,.2f} ms per step there and {took[0]:,.2f} ms elsewhere"
        if apart is not None
        else ""
    )
    return Finding(
        code=CODE,
        title=(
            f"{_few(case, one)} of {_all(one)} hosts are tuned differently:"
            f" {len(one.tuned)} instructions of {one.name}"
        ),
        detail=(
            f"only the configuration of the HLO differs, first in {one.tuned[0]}: each rank was"
            f" autotuned separately{times}"
        ),
        saves_ms=_saved(case, apart),
        basis=case.basis,
        evidence=tuple(Evidence(what=name, ms=None) for name in one.tuned[:_LISTED]),
        remedy=advise(
            case,
            "tune once for all ranks: keep autotuning sharded, or load one file of autotune results"
            " on all ranks (--xla_gpu_load_autotune_results_from)",
            {"xla_gpu_shard_autotuning": "true"},
        ),
    )


def _saved(case: StepData, apart: float | None) -> Range | Unknown:
    if apart is None:
        return Unknown("the profile does not show these ops")
    if apart <= WORTH * case.step_ms:
        return Unknown(f"these ops take only {apart:,.2f} ms longer in one build than in the other")
    return Range(0.0, apart)


def _few(case: StepData, one: Divergence) -> str:
    few = [case.timeline.hosts[host].name for hosts in one.hosts[1:] for host in hosts]
    return f"{len(few)} ({', '.join(few[:_LISTED])}{', ...' if few[_LISTED:] else ''})"


def _all(one: Divergence) -> int:
    return sum(len(hosts) for hosts in one.hosts)


def _hosts(case: StepData, one: Divergence) -> tuple[Evidence, ...]:
    return tuple(
        Evidence(what=f"{case.timeline.hosts[hosts[0]].name}: {count:,} instructions", ms=None)
        for hosts, count in zip(one.hosts, one.instructions, strict=True)
    )


def _took(case: StepData, one: Divergence, hosts: tuple[int, ...]) -> float | None:
    """Return milliseconds per step of the differently tuned ops on these hosts, mean by device."""
    devices = [index for index, device in enumerate(case.timeline.devices) if device.host in hosts]
    ops = case.timeline.ops.with_row_index("row").filter(
        (pl.col("program") == one.program) & pl.col("op").is_in(one.tuned)
    )
    spans = case.spans.filter(
        pl.col("device").is_in(devices)
        & pl.col("op").is_in(ops["row"].to_list())
        & pl.col("step").is_not_null()
    )
    windows = case.selection.windows.filter(pl.col("device").is_in(devices))
    if not len(spans) or not len(windows):
        return None
    whole = case.selection.scale * case.selection.occurrences
    return float(spans["dur_ps"].sum()) * whole / len(windows)
