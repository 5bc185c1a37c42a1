"""Tables that a user measured: nccl-tests logs, GEMM benchmarks, own kernels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from counterpoint.cost.collectives import table_notes
from counterpoint.cost.tables import CollectiveTable, Table, read_gemm_csv, read_kernel_toml
from counterpoint.cost.tables.nccl_tests import read_nccl_log
from counterpoint.hardware import Target, find_chip
from counterpoint.hardware.recorded import other_chip
from counterpoint.hlo import Program


def read_tables(
    nccl: Sequence[Path] = (), gemm: Path | None = None, kernels: Path | None = None
) -> tuple[Table, ...]:
    """All of them, in their order: the first that knows an instruction prices it."""
    tables: list[Table] = [table for path in nccl for table in read_nccl_log(path)]
    if gemm is not None:
        tables.append(read_gemm_csv(gemm))
    if kernels is not None:
        tables.append(read_kernel_toml(kernels))
    return tuple(tables)


def notes_on_tables(program: Program, target: Target, tables: Sequence[Table]) -> tuple[str, ...]:
    """Which of them say nothing of this program, and what they don't reach."""
    logs = [it for it in tables if isinstance(it, CollectiveTable)]
    return tuple(dict.fromkeys(table_notes(program, target, logs)))


def warnings_on_tables(target: Target, tables: Sequence[Table]) -> tuple[str, ...]:
    """Which of them were measured on another machine."""
    logs = [it for it in tables if isinstance(it, CollectiveTable) and it.device]
    return tuple(
        dict.fromkeys(
            f"{it.origin} was measured on {it.device}, and the target is {target.gpu}"
            for it in logs
            if other_chip(it.device, target) or find_chip(it.device) is None
        )
    )
