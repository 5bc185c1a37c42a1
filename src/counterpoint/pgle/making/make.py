"""`make_profile`: the cost of each instruction from all its executions in a Timeline.

Times of single executions (`samples`) of all runs that count, devices and hosts give
one cost by a stated statistic, separately for each module (`modules`), under the name that XLA
looks up (`names`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import polars as pl

from counterpoint.core import InputError
from counterpoint.hlo.model.program import Program
from counterpoint.pgle.making.modules import (
    Module,
    ModuleCosts,
    ProfileBuild,
    choose_modules,
    find_modules,
    require_one,
)
from counterpoint.pgle.making.origin import profile_notes, profile_origin
from counterpoint.pgle.making.samples import (
    ProfiledRuns,
    Samples,
    profiled_runs,
    samples,
)
from counterpoint.pgle.named_ops import named_ops
from counterpoint.pgle.profiles.profile import (
    DECIMALS,
    MEDIAN,
    InstructionCost,
    Profile,
    check_percentile,
)
from counterpoint.timeline.model import Lane, Timeline


def one_per_module(modules: Sequence[Module], *, bare: bool) -> list[list[Module]]:
    """Group modules by key: by fingerprint, or with bare names by program."""
    groups: dict[object, list[Module]] = {}
    for module in modules:
        key = module.number if bare or module.fingerprint is None else module.fingerprint
        groups.setdefault(key, []).append(module)
    return list(groups.values())


def pooled(timeline: Timeline, group: Sequence[Module], frame: pl.DataFrame) -> pl.DataFrame:
    """Return samples of a group's instructions, including identical ones on other hosts.

    Ranks of one run may compile a program to different fingerprints over as little as a constant,
    and the same name may then stand for another instruction. So times are pooled only where the
    instructions are alike.
    """
    parts: list[pl.DataFrame] = []
    for number in dict.fromkeys(module.number for module in group):
        own = next(module for module in group if module.number == number)
        program = frame.filter(pl.col("program") == number)
        parts.append(program.filter(pl.col("host").is_in(own.hosts)))
        others = program.filter(~pl.col("host").is_in(own.hosts))
        for (host,), rows in others.group_by("host"):
            other_program = timeline.programs[number].hlo(_index(host))
            names = _alike(own.program, other_program, rows["member"].unique().to_list())
            parts.append(rows.filter(pl.col("member").is_in(names)))
    return pl.concat(parts)


def _index(host: object) -> int:
    return host if isinstance(host, int) else -1


def _alike(own: Program | None, theirs: Program | None, names: Sequence[str]) -> list[str]:
    if own is None or theirs is None:
        return []
    return [name for name in names if _made_of(own, name) == _made_of(theirs, name) is not None]


def _made_of(program: Program, name: str) -> tuple[str, ...] | None:
    """Return what an instruction computes and where it comes from, as far as builds share it."""
    instruction = program.instruction(name)
    if instruction is None:
        return None
    reads = (str(operand.shape) for operand in program.operands(instruction))
    return (
        instruction.opcode,
        instruction.custom_call_target,
        instruction.op_name,
        str(instruction.shape),
        *reads,
    )


_PS_PER_US: Final = 1e6
_PS_PER_MS: Final = 1e9


def make_profile(
    timeline: Timeline,
    percentile: float = MEDIAN,
    *,
    keep_warmup: bool = False,
    module: str | None = None,
    bare: bool = False,
    about: Mapping[str, str] | None = None,
) -> ProfileBuild:
    """Make the profile of a Timeline.

    `percentile` selects which of an instruction's times becomes its cost (50: the median, linearly
    interpolated). `module` selects a single module: its name, the first digits of its fingerprint,
    or `#` and its number. `bare` leaves fingerprints out of one module's names, for a compile whose
    flags change the fingerprint but not the names. `about` (versions, for example) goes into the
    head of the file.
    """
    check_percentile(percentile)
    require_device_time(timeline)
    ops = named_ops(timeline)
    require_names(timeline, ops)
    chosen, unnamed = choose_modules(find_modules(timeline), module or _step_on_tpus(timeline))
    if bare:
        require_one(chosen)
    counted = profiled_runs(timeline, keep_warmup=keep_warmup)
    taken = samples(timeline, ops, counted.runs)
    results = [
        _one_module(timeline, group, ops, counted, taken, percentile=percentile, bare=bare)
        for group in one_per_module(chosen, bare=bare)
    ]
    results.sort(key=lambda entry: (-entry[0].cost_ms, entry[0].name, entry[0].fingerprint or ""))
    modules = tuple(costs_of for costs_of, _ in results)
    costs = tuple(cost for _, costs in results for cost in costs)
    if not costs:
        raise no_costs(timeline, modules)
    origin = profile_origin(timeline, modules, percentile, about or {}, keep_warmup=keep_warmup)
    notes = profile_notes(timeline, ops, chosen, unnamed, counted, taken, keep_warmup=keep_warmup)
    return ProfileBuild(Profile(costs, origin=origin), modules, tuple(notes))


def _step_on_tpus(timeline: Timeline) -> str | None:
    """Return the step's module, if none has a fingerprint that keeps its names apart."""
    on_tpus = {device.kind for device in timeline.devices} == {"tpu"}
    return f"#{timeline.step_program}" if on_tpus and timeline.step_program is not None else None


def _one_module(
    timeline: Timeline,
    group: Sequence[Module],
    ops: pl.DataFrame,
    counted: ProfiledRuns,
    taken: Samples,
    *,
    percentile: float,
    bare: bool,
) -> tuple[ModuleCosts, list[InstructionCost]]:
    own = pooled(timeline, group, taken.frame)
    costs = _costs(None if bare else group[0].fingerprint, own, percentile)
    return _module_costs(timeline, group, ops, counted, own, costs), costs


def _costs(fingerprint: str | None, own: pl.DataFrame, percentile: float) -> list[InstructionCost]:
    """Return costs sorted by name, so that two profiles of one module align line by line."""
    statistic = pl.col("ps").quantile(percentile / 100, "linear") / _PS_PER_US
    by_name = own.group_by("instruction").agg(statistic.round(DECIMALS).alias("us"))
    return [
        InstructionCost(name, us, fingerprint)
        for name, us in by_name.sort("instruction").iter_rows()
    ]


def _module_costs(
    timeline: Timeline,
    group: Sequence[Module],
    ops: pl.DataFrame,
    counted: ProfiledRuns,
    own: pl.DataFrame,
    costs: Sequence[InstructionCost],
) -> ModuleCosts:
    runs = _own_runs(timeline, group, counted.runs)
    used: list[int] = runs["device"].unique().to_list()
    working = ops.filter((pl.col("lane") != Lane.CONTROL) & ~pl.col("async_window"))
    spent = (
        timeline.spans.join(runs.select("run"), on="run")
        .join(working.select("row", "instruction", "lane"), left_on="op", right_on="row")
        .select("instruction", "lane", ms=pl.col("dur_ps") / _PS_PER_MS)
    )
    named = spent.filter(pl.col("instruction").is_in([cost.name for cost in costs]))
    collectives = named.filter(pl.col("lane") == Lane.COLLECTIVE)["instruction"].n_unique()
    return ModuleCosts(
        name=group[0].name,
        fingerprint=group[0].fingerprint,
        instructions=len(costs),
        collectives=collectives,
        executions=max(runs["device"].value_counts()["count"].to_list(), default=0),
        devices=len(used),
        hosts=len({timeline.devices[device].host for device in used}),
        device_ms=float(spent["ms"].sum()),
        covered_ms=float(named["ms"].sum()),
        cost_ms=float(own["ps"].sum()) / _PS_PER_MS,
    )


def _own_runs(timeline: Timeline, group: Sequence[Module], runs: pl.DataFrame) -> pl.DataFrame:
    """Return runs on the hosts that compiled it this way: device time is counted only once."""
    own = [
        (number, device)
        for number, hosts in ((module.number, module.hosts) for module in group)
        for device, entry in enumerate(timeline.devices)
        if entry.host in hosts
    ]
    columns = ["program", "device"]
    schema = {name: runs.schema[name] for name in columns}
    return runs.join(
        pl.DataFrame(own, schema=schema, orient="row").unique(), on=columns, how="semi"
    )


def require_device_time(timeline: Timeline) -> None:
    """Refuse a Timeline without work on a GPU or TPU."""
    kinds = sorted({device.kind for device in timeline.devices})
    if "gpu" in kinds or ("tpu" in kinds and len(timeline.spans)):
        return
    if not kinds or not len(timeline.spans):
        raise InputError(
            f"{_inputs(timeline)}: no device time in this profile, so no costs",
            why=_hold(timeline),
            next="record a profile on GPUs while steps run, e.g. from step 3",
        )
    raise InputError(
        f"{_inputs(timeline)}: a profile of {_devices(len(timeline.devices), kinds)}, not of GPUs",
        why="times on a CPU say nothing about a GPU, and XLA's CPU compiler uses no costs",
        next="record a profile on GPUs",
    )


def require_names(timeline: Timeline, ops: pl.DataFrame) -> None:
    """Refuse a Timeline whose kernels name no HLO instruction."""
    if ops["instruction"].is_not_null().any():
        return
    kernels = ", ".join(ops["name"].unique(maintain_order=True).head(2).to_list())
    raise InputError(
        f"{_inputs(timeline)}: no kernel names its HLO instruction",
        why="; ".join(timeline.notes) or f"it contains only kernels such as {kernels}",
        next="record it with the JAX profiler, or with `nsys profile --trace=cuda,nvtx`",
    )


def no_costs(timeline: Timeline, modules: Sequence[ModuleCosts]) -> InputError:
    """Return the error for modules that ran without any named kernel."""
    return InputError(
        f"{_inputs(timeline)}: no instruction of {', '.join(m.name for m in modules)} took time",
        why="its kernels name no instruction of its HLO: command buffers (CUDA graphs) hide names",
        next="record the profile with XLA_FLAGS=--xla_gpu_enable_command_buffer=",
    )


def _devices(count: int, kinds: Sequence[str]) -> str:
    names = "/".join("CPU" if kind == "cpu" else kind for kind in kinds)
    return f"{count} {names} device{'s' * (count != 1)}"


def _inputs(timeline: Timeline) -> str:
    return ", ".join(timeline.inputs)


def _hold(timeline: Timeline) -> str:
    if len(timeline.host_events):
        return (
            f"it contains only {len(timeline.host_events):,} events of host threads; JAX on CPU"
            " records no device, and neither does a profile that ends before the first step"
            " either"
        )
    return "; ".join(timeline.notes) or "it is empty"
