"""MemoryFit: the memory that a program needs on one device, against JAX's allocator limit there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from counterpoint.compile import PlannedMemory
from counterpoint.cost.collectives import table_notes
from counterpoint.cost.tables import (
    CollectiveTable,
    Table,
    read_gemm_csv,
    read_kernel_toml,
    read_nccl_log,
)
from counterpoint.hardware import Target, find_chip
from counterpoint.hardware.targets import mismatched_chip
from counterpoint.hlo import Program

FRACTION: Final = "XLA_PYTHON_CLIENT_MEM_FRACTION"
_NEWER: Final = "XLA_CLIENT_MEM_FRACTION"
_ALLOCATOR: Final = "XLA_PYTHON_CLIENT_ALLOCATOR"
_WITHOUT_POOL: Final = "platform"  # every array is allocated separately, up to the whole memory
USUAL: Final = 0.75  # jax's default: docs.jax.dev, "GPU memory allocation"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryFit:
    """Bytes on one device, as the compiler plans them, and the available bytes.

    `peak_bytes` is slightly low: workspaces of cuDNN and cuBLASLt are unknown without a device.
    """

    peak_bytes: int | None  # None: unknown
    memory_bytes: int | None  # of the chip
    fraction: float  # of it, that JAX's allocator takes
    fraction_source: str  # the variable that sets it, or the default

    @property
    def available_bytes(self) -> int | None:
        return None if self.memory_bytes is None else int(self.memory_bytes * self.fraction)

    @property
    def fits(self) -> bool | None:
        """None if either side is unknown."""
        if self.peak_bytes is None or self.available_bytes is None:
            return None
        return self.peak_bytes <= self.available_bytes


def memory_fit(
    memory: PlannedMemory | None,
    target: Target,
    environment: Mapping[str, str],
    fraction: float | None = None,
) -> MemoryFit:
    """Compare the memory plan of a compile with a target's memory."""
    setting = next((name for name in (_NEWER, FRACTION) if environment.get(name)), None)
    if environment.get(_ALLOCATOR, "").strip().lower() == _WITHOUT_POOL:
        setting, fraction = f"{_ALLOCATOR}={_WITHOUT_POOL}: no pool", 1.0
    return MemoryFit(
        peak_bytes=memory.peak if memory is not None else None,
        memory_bytes=target.memory_bytes or None,
        fraction=_fraction(environment.get(setting or "")) if fraction is None else fraction,
        fraction_source=setting or "JAX's default",
    )


def _fraction(text: str | None) -> float:
    try:
        return float(text) if text else USUAL
    except ValueError:
        return USUAL


def read_tables(
    nccl: Sequence[Path] = (), gemm: Path | None = None, kernels: Path | None = None
) -> tuple[Table, ...]:
    """Read all tables, in order: the first that has an instruction prices it."""
    tables: list[Table] = [table for path in nccl for table in read_nccl_log(path)]
    if gemm is not None:
        tables.append(read_gemm_csv(gemm))
    if kernels is not None:
        tables.append(read_kernel_toml(kernels))
    return tuple(tables)


def notes_on_tables(program: Program, target: Target, tables: Sequence[Table]) -> tuple[str, ...]:
    """Report tables without entries for this program, and what they do not cover."""
    logs = [table for table in tables if isinstance(table, CollectiveTable)]
    return tuple(dict.fromkeys(table_notes(program, target, logs)))


def warnings_on_tables(target: Target, tables: Sequence[Table]) -> tuple[str, ...]:
    """Report tables that were measured on another machine."""
    logs = [table for table in tables if isinstance(table, CollectiveTable) and table.device]
    return tuple(
        dict.fromkeys(
            f"{table.origin} was measured on {table.device}, and the target is {target.gpu}"
            for table in logs
            if mismatched_chip(table.device, target) or find_chip(table.device) is None
        )
    )
