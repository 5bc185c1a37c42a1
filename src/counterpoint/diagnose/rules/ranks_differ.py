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

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final

import polars as pl

from counterpoint.core import Range, Unknown, parse_json
from counterpoint.core.frozen import frozen
from counterpoint.core.printable import counted_noun
from counterpoint.diagnose.environment import advise
from counterpoint.diagnose.finding import Evidence, Finding, Remedy, ms_text
from counterpoint.diagnose.host.idle import WORTH
from counterpoint.diagnose.step_data import StepData
from counterpoint.hlo import Instruction, Program
from counterpoint.timeline import Timeline

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


_IDS: Final = ("operation_queue_id", "wait_on_operation_queues", "reification_cost", "stats")
"""Fields of backend configurations that do not change how an instruction runs."""


@frozen
class Divergence:
    """Builds of one program that differ; the hosts of each, most common build first.

    `opcodes`: how many more of each the second build has (fewer: negative). `order`: both have the
    same instructions in a different order. `tuned`: instructions whose configuration differs.
    """

    program: int
    name: str
    hosts: tuple[tuple[int, ...], ...]
    instructions: tuple[int, ...]
    opcodes: tuple[tuple[str, int], ...]
    order: bool
    tuned: tuple[str, ...]

    @property
    def structural(self) -> bool:
        """True if more than tuning differs."""
        return self.order or bool(self.opcodes)


def divergences(timeline: Timeline) -> tuple[Divergence, ...]:
    """Compare all programs that ran on several hosts and whose HLO the profile contains.

    Names, ids, fingerprints and metadata are not compared: two compiles of one program number their
    instructions differently, and a line of Python that moved changes a fingerprint. Builds are the
    same if every computation has the same instructions in the same order with the same operands.
    They are only tuned differently if nothing but backend configurations differ (the algorithm of a
    GEMM, the tiles of a fusion), which happens when each rank autotunes by itself.
    """
    found = (_compare(timeline, index) for index in range(len(timeline.programs)))
    return tuple(diff for diff in found if diff is not None)


def _compare(timeline: Timeline, index: int) -> Divergence | None:
    entry = timeline.programs[index]
    builds = {id(variant): variant for variant in entry.variants.values()}
    if len(builds) < 2:
        return None
    read = {host: entry.hlo(host) for host in entry.variants}
    programs = {host: program for host, program in read.items() if program is not None}
    distinct = {id(program): program for program in programs.values()}
    keys = {
        number: (structure, _tuning(program))
        for (number, program), structure in zip(
            distinct.items(), structures([*distinct.values()]), strict=True
        )
    }
    groups: dict[tuple[int, int], list[int]] = {}
    for host, program in programs.items():
        groups.setdefault(keys[id(program)], []).append(host)
    if len(groups) < 2:
        return None
    ordered = sorted(groups.items(), key=lambda group: (-len(group[1]), group[1]))
    (first, _), (other, _) = ordered[0], ordered[1]
    one, two = (programs[hosts[0]] for _, hosts in ordered[:2])
    tuned = tuple(_retuned(one, two)) if first[0] == other[0] else ()
    opcodes = _opcodes(one, two)
    return Divergence(
        program=index,
        name=entry.name,
        hosts=tuple(tuple(hosts) for _, hosts in ordered),
        instructions=tuple(len(list(programs[hosts[0]].instructions)) for _, hosts in ordered),
        opcodes=opcodes,
        order=first[0] != other[0] and not opcodes,
        tuned=tuned,
    )


def _tuning(program: Program) -> int:
    return hash(tuple(_configuration(instruction) for instruction in _configured(program)))


def _configured(program: Program) -> Iterator[Instruction]:
    return (instruction for instruction in program.instructions if instruction.backend_config)


def _retuned(first: Program, second: Program) -> Iterator[str]:
    """Yield instructions of the first that are configured differently in the second."""
    pairs = zip(_configured(first), _configured(second), strict=False)
    return (a.name for a, b in pairs if _configuration(a) != _configuration(b))


def _configuration(instruction: Instruction) -> str:
    """Return the configuration as text, independent of the order of its keys."""
    try:
        read: Any = parse_json(instruction.backend_config)
    except ValueError:
        return instruction.backend_config
    if isinstance(read, dict):
        read = {name: value for name, value in read.items() if name not in _IDS}  # pyright: ignore[reportUnknownVariableType]
    return json.dumps(read, sort_keys=True)


def _opcodes(first: Program, second: Program) -> tuple[tuple[str, int], ...]:
    """Return the changes in opcode counts from first to second, largest first."""
    difference = Counter(instruction.opcode for instruction in second.instructions)
    difference.subtract(Counter(instruction.opcode for instruction in first.instructions))
    changed = [(opcode, count) for opcode, count in difference.items() if count]
    return tuple(sorted(changed, key=lambda change: (-abs(change[1]), change[0])))


def structures(programs: Sequence[Program]) -> list[int]:
    """Return a number for each program, equal for programs that do the same in the same order.

    Computations that programs share, as those of ranks tuned separately do, need no look inside.
    That may take equal ones for different, never the reverse, so only differences are confirmed.
    """
    shared = _shared(programs)
    found = [_structure(program, program.entry, {**shared}, {}) for program in programs]
    if len(set(found)) == 1 or not shared:
        return found
    return [_structure(program, program.entry, {}, {}) for program in programs]


def _shared(programs: Sequence[Program]) -> dict[str, int]:
    """Return a number for each computation that is one object in all programs, with its callees."""
    first, *others = programs
    shared: dict[str, int] = {}
    for name, computation in first.computations.items():  # callees precede their callers
        called = {name for member in computation.instructions for name in member.calls}
        if called <= shared.keys() and all(
            other.computations.get(name) is computation for other in others
        ):
            shared[name] = id(computation)
    return shared


def _structure(
    program: Program, computation: str, known: dict[str, int], shapes: dict[int, str]
) -> int:
    """Return a hash that is equal for computations that do the same in the same order.

    `shapes` has the texts of the program's shapes by identity: its instructions share few of them.
    """
    if computation not in known:
        body = program.computations[computation]
        place = {instruction.name: index for index, instruction in enumerate(body.instructions)}
        known[computation] = hash(
            (
                place.get(body.root),
                *(
                    _does(program, instruction, place, known, shapes)
                    for instruction in body.instructions
                ),
            )
        )
    return known[computation]


def _does(
    program: Program,
    instruction: Instruction,
    place: dict[str, int],
    known: dict[str, int],
    shapes: dict[int, str],
) -> int:
    shape = shapes.get(id(instruction.shape))
    if shape is None:
        shape = shapes[id(instruction.shape)] = str(instruction.shape)
    return hash(
        (
            instruction.opcode,
            shape,
            tuple([place.get(name) for name in instruction.operands]),
            tuple([_structure(program, called, known, shapes) for called in instruction.calls]),
            str(instruction.groups),
            instruction.source_target_pairs,
            instruction.custom_call_target,
            instruction.fusion_kind,
            instruction.parameter_number,
            instruction.tuple_index,
            instruction.literal,
            instruction.comparison,
            instruction.dimensions,
            instruction.dot,
            instruction.convolution,
        )
    )
