"""The extract of a host's profile: one row of columns per step, op and collective, and its clock.

An extract has some hundred kilobytes where the profile has gigabytes. Merged extracts are the rows
of their hosts, in order and without copies, so that they merge in any order and in any tree, always
with the same result. Docs: docs/formats/extract.md.
"""

from __future__ import annotations

import io
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counterpoint.core import InputError
from counterpoint.core.outputs import write_whole
from counterpoint.diagnose.collectives.collectives import exposed_executions
from counterpoint.diagnose.selection import select
from counterpoint.diagnose.step_data import StepData, context_of
from counterpoint.hlo.collectives import device_groups
from counterpoint.hlo.model.program import Program
from counterpoint.hlo.reader import program_hash
from counterpoint.timeline.model import Lane, Timeline

FORMAT: Final = "counterpoint.extract/1"

STEPS: Final = {
    "device": pl.UInt16,  # its number on the host
    "step": pl.Int32,  # as the host counts or marks them
    "start_ps": pl.Int64,  # by the host's clock
    "end_ps": pl.Int64,
    "compute_ps": pl.Int64,
    "hidden_ps": pl.Int64,  # the part of compute that a collective overlaps
    "exposed_ps": pl.Int64,  # collectives beside which nothing computes: transfers and waits
    "copy_ps": pl.Int64,
    "idle_ps": pl.Int64,
}
COLLECTIVES: Final = {
    "op": pl.String,
    "kind": pl.String,
    "group_size": pl.UInt32,
    "stride": pl.UInt32,  # between the numbers of a group's members; null: no such pattern
    "members": pl.UInt32,  # devices of the program
    "bytes": pl.Int64,
    "device": pl.UInt16,
    "step": pl.Int32,
    "count": pl.UInt32,  # executions in the step
    "total_ps": pl.Int64,
    "exposed_ps": pl.Int64,
}
OPS: Final = {
    "op": pl.String,
    "category": pl.String,
    "ms": pl.Float64,  # per median step, mean over the devices of the profile
    "count": pl.Float64,
}
PROGRAMS: Final = {"name": pl.String, "build": pl.String, "runs": pl.UInt32, "is_step": pl.Boolean}
ENDS: Final = {"step": pl.Int32, "end_ps": pl.Int64}

SCHEMA: Final[dict[str, Any]] = {
    "format": pl.String,
    "key": pl.String,  # equal for copies of a profile
    "zero_ns": pl.Int64,  # since 1970, of the host's clock at time 0; null: unknown
    "host": pl.String,
    "source": pl.String,
    "kind": pl.String,  # of its devices: gpu, tpu, cpu
    "chip": pl.String,
    "devices": pl.List(pl.UInt16),
    "environment": pl.List(pl.Struct({"name": pl.String, "value": pl.String})),
    "truncated": pl.Boolean,
    "marked": pl.Boolean,  # steps have the numbers of the user's markers
    "step_rule": pl.String,
    "window": pl.String,  # step; run (of its program) or profile if no whole step was seen
    "notes": pl.List(pl.String),
    "programs": pl.List(pl.Struct(PROGRAMS)),
    "steps": pl.List(pl.Struct(STEPS)),
    "collectives": pl.List(pl.Struct(COLLECTIVES)),
    "ops": pl.List(pl.Struct(OPS)),
    "ends": pl.List(pl.Struct(ENDS)),  # of one collective of the most devices, in each step
}
"""One row per host."""

MOST_STEPS: Final = 100
_MOST_COLLECTIVES: Final = 16
_STEPS_OF_COLLECTIVES: Final = 10
_MOST_OPS: Final = 200
_MOST_NOTES: Final = 20
_ORDER: Final = ("host", "devices", "key", "source")


def make_extract(timeline: Timeline) -> pl.DataFrame:
    """Return the extract of each host of a Timeline."""
    if not timeline.devices:
        raise InputError(
            f"{', '.join(timeline.inputs)}: no device activity in this profile",
            why="; ".join(timeline.notes) or "it contains host events only",
        )
    data = StepData(selection=_every_step(timeline), context=context_of())
    steps, collectives = _steps(data), _collectives(data)
    return pl.concat(
        _row(timeline, host, steps, collectives, data) for host in range(len(timeline.hosts))
    ).sort(_ORDER)


def _every_step(timeline: Timeline) -> Any:  # noqa: ANN401 - a Selection, which has no public name
    """Select all steps that count, not only typical ones: hosts must look at the same ones."""
    typical = select(timeline)
    steady = timeline.steps.filter("steady", "whole")
    if steady.is_empty():
        return typical
    last = steady["step"].unique().sort().tail(MOST_STEPS)
    windows = steady.filter(pl.col("step").is_in(last.implode()))
    total = int((windows["end_ps"] - windows["start_ps"]).sum())
    return replace(
        typical,
        windows=windows.select("step", "device", "start_ps", "end_ps").sort("device", "start_ps"),
        scale=typical.scale * _total(typical.windows) / total if total else 0.0,
        not_looked_into=0,
    )


def _total(windows: pl.DataFrame) -> int:
    return int((windows["end_ps"] - windows["start_ps"]).sum())


def _steps(data: StepData) -> pl.DataFrame:
    """Return STEPS, with the device's number in the Timeline."""
    state, ps = pl.col("state"), pl.col("ps")
    parts = data.attributed.group_by("device", "step").agg(
        compute_ps=ps.filter(state == Lane.COMPUTE).sum(),
        hidden_ps=ps.filter((state == Lane.COMPUTE) & pl.col("hidden")).sum(),
        exposed_ps=ps.filter(state == Lane.COLLECTIVE).sum(),
        copy_ps=ps.filter(state == Lane.COPY).sum(),
        idle_ps=ps.filter(state == "idle").sum(),
    )
    return data.selection.windows.join(parts, on=["device", "step"], how="left").select(
        pl.col(name).cast(kind) for name, kind in STEPS.items()
    )


def _collectives(data: StepData) -> pl.DataFrame:
    """Return COLLECTIVES with `end_ps` of the first turn, and the device's number in the Timeline.

    Of a program with very many, those that move most, which are the same ones on all hosts.
    """
    executions = data.cached(exposed_executions)
    if not len(executions):
        return pl.DataFrame(schema={**COLLECTIVES, "end_ps": pl.Int64})
    named = data.timeline.ops.with_row_index("row").select(
        *("row", "bytes", "group_size", "program"),
        kind="collective",
        name=pl.coalesce("pair", "op", "name"),
    )
    per_step = (
        executions.join(named, left_on="op", right_on="row")
        .group_by("name", "device", "step")
        .agg(
            pl.col("kind", "group_size", "bytes", "program").drop_nulls().first(),
            pl.col("turn").n_unique().alias("count"),
            pl.col("dur_ps").sum().alias("total_ps"),
            pl.col("exposed_ps").sum(),
            (pl.col("start_ps") + pl.col("dur_ps")).filter(turn=0).max().alias("end_ps"),
        )
        .rename({"name": "op"})
    )
    most = (
        per_step.group_by("op")
        .agg((pl.col("bytes").fill_null(0) * pl.col("count")).max().alias("moved"))
        .sort("moved", "op", descending=[True, False])
        .head(_MOST_COLLECTIVES)
    )
    last = per_step["step"].unique().sort().tail(_STEPS_OF_COLLECTIVES)
    chosen = per_step.filter(pl.col("step").is_in(last.implode()))
    chosen = chosen.join(most, on="op", how="semi")
    used: list[tuple[str, int | None]] = chosen.select("op", "program").unique("op").rows()
    programs = data.timeline.programs
    patterns = [
        (op, *_pattern(None if number is None else programs[number].hlo(), op))
        for op, number in used
    ]
    schema = {"op": pl.String, "stride": pl.UInt32, "members": pl.UInt32}
    known = pl.DataFrame(patterns, schema=schema, orient="row")
    return chosen.join(known, on="op", how="left").select(
        *(pl.col(name).cast(kind) for name, kind in COLLECTIVES.items()), "end_ps"
    )


def _pattern(program: Program | None, op: str) -> tuple[int | None, int | None]:
    """Return the stride of a collective's groups, and the number of the program's devices."""
    instruction = None if program is None else program.instruction(op)
    if program is None or instruction is None:
        return None, None
    members = program.num_partitions * program.num_replicas
    groups = device_groups(program, instruction)
    if not groups or len(groups[0]) == members:
        return 1, members
    if len({len(group) for group in groups}) > 1 or len(groups[0]) < 2:
        return None, members
    told = np.sort(np.array(groups), axis=1)
    size, stride = told.shape[1], int(told[0, 1] - told[0, 0])
    numbers = group_numbers(told, size, stride)
    alike = stride > 0 and bool((numbers == numbers[:, :1]).all())
    return stride if alike else None, members


def group_numbers(devices: NDArray[np.int64], size: int, stride: int) -> NDArray[np.int64]:
    """Return the group of each device: groups of `size` devices that are `stride` apart."""
    return devices // (size * stride) * stride + devices % stride


def _ends(collectives: pl.DataFrame) -> pl.DataFrame:
    """Return when one collective ended in each step, the same one on hosts with one program.

    With all devices in it, it ends everywhere at nearly the same moment.
    """
    if not len(collectives):
        return pl.DataFrame(schema=ENDS)
    steps = collectives["step"].n_unique()
    chosen = (
        collectives.group_by("op")
        .agg(
            pl.col("group_size").max().fill_null(1 << 30).alias("size"),
            pl.col("step").n_unique().alias("steps"),
        )
        .filter(pl.col("steps") == steps)
        .sort("size", "op", descending=[True, False])
        .head(1)
    )
    return (
        collectives.join(chosen, on="op", how="semi")
        .group_by("step")
        .agg(pl.col("end_ps").max())
        .sort("step")
        .cast({**ENDS})
    )


def _row(
    timeline: Timeline, host: int, steps: pl.DataFrame, collectives: pl.DataFrame, data: StepData
) -> pl.DataFrame:
    own = {at: each for at, each in enumerate(timeline.devices) if each.host == host}
    ordinal = {at: device.ordinal for at, device in own.items()}

    def of_host(frame: pl.DataFrame, schema: dict[str, Any], *by: str) -> pl.DataFrame:
        number = pl.col("device").replace_strict(ordinal, return_dtype=pl.UInt16)
        mine = frame.filter(pl.col("device").is_in([*own]))
        return mine.with_columns(number).select(*schema).sort(*by)

    tables = {
        "programs": _programs(timeline, host, [*own]),
        "steps": of_host(steps, STEPS, "device", "step"),
        "collectives": of_host(collectives, COLLECTIVES, "op", "device", "step"),
        "ops": data.ops.head(_MOST_OPS)
        .select("op", "category", "self_ms", "count")
        .rename({"self_ms": "ms"}),
        "ends": _ends(collectives.filter(pl.col("device").is_in([*own]))),
    }
    device = next(iter(own.values()), None)
    facts = {
        "format": FORMAT,
        "key": _key(timeline.hosts[host].name, tables["steps"]),
        "zero_ns": timeline.hosts[host].zero_ns,
        "host": timeline.hosts[host].name,
        "source": timeline.hosts[host].source,
        "kind": device.kind if device else None,
        "chip": device.chip if device else None,
        "devices": sorted(ordinal.values()),
        "environment": [{"name": k, "value": v} for k, v in sorted(timeline.environment.items())],
        "truncated": timeline.truncated,
        "marked": _is_marked(timeline.step_rule),
        "step_rule": timeline.step_rule,
        "window": data.selection.window.value,
        "notes": list(timeline.notes[:_MOST_NOTES]),
    }
    made = pl.DataFrame([facts], schema={name: SCHEMA[name] for name in facts})
    nested = [pl.Series(name, [table.to_struct(name)]) for name, table in tables.items()]
    return made.with_columns(*nested).select(*SCHEMA).cast({**SCHEMA})


def _key(host: str, steps: pl.DataFrame) -> str:
    """Return what is equal for copies of a profile, to the picosecond, and for nothing else."""
    digest = sha256(host.encode())
    for column in steps.iter_columns():
        digest.update(column.fill_null(-1).to_numpy().tobytes())
    return digest.hexdigest()[:32]


def _is_marked(rule: str) -> bool:
    """Return whether steps have the numbers of markers, by the words of the rule."""
    others = ("no markers", "repeat", "numbered from 0")
    return "marker" in rule and not any(words in rule for words in others)


def _programs(timeline: Timeline, host: int, devices: list[int]) -> pl.DataFrame:
    runs = timeline.runs.filter(pl.col("device").is_in(devices)).group_by("program").len()
    rows: list[tuple[str, str | None, int, bool]] = []
    for program, count in runs.sort("program").rows():
        entry = timeline.programs[int(program)]
        variant = entry.variants.get(host)
        build = None if variant is None else program_hash(variant.load()).hex()[:16]
        rows.append((entry.name, build, count, program == timeline.step_program))
    return pl.DataFrame(rows, schema=PROGRAMS, orient="row")


def merge(*extracts: pl.DataFrame) -> pl.DataFrame:
    """Return the extracts of all hosts, copies of a profile once."""
    if not extracts:
        return pl.DataFrame(schema=SCHEMA)
    return pl.concat(extracts).sort(_ORDER).unique("key", keep="first", maintain_order=True)


def to_bytes(extract: pl.DataFrame) -> bytes:
    """Return an extract as a Parquet file."""
    buffer = io.BytesIO()
    extract.write_parquet(buffer, compression="zstd")
    return buffer.getvalue()


def from_bytes(data: bytes, name: str) -> pl.DataFrame:
    """Read an extract; `name` is that of its file."""
    try:
        rows = pl.read_parquet(io.BytesIO(data))
    except (ValueError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as failure:
        reason = str(failure).splitlines()[0]
        raise InputError(f"{name}: not a whole extract: {reason}") from None
    if dict(rows.schema) != {name: _instance(kind) for name, kind in SCHEMA.items()}:
        raise InputError(
            f"{name}: a Parquet file, but no extract of this version of Counterpoint",
            next="make it again from the profiles",
        )
    return rows


def _instance(kind: Any) -> Any:  # noqa: ANN401 - a type of polars
    return kind() if isinstance(kind, type) else kind


def write_extracts(extracts: pl.DataFrame, path: str | Path) -> None:
    """Write merged extracts as one Parquet file."""
    write_whole(Path(path), to_bytes(extracts))
