"""Options of a prediction, and which of them GPUs or TPUs lack."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from counterpoint.compile.task import TIMEOUT_S
from counterpoint.core import UsageError
from counterpoint.core.arguments import option_of
from counterpoint.flags.settings import Settings
from counterpoint.hardware.target import Target
from counterpoint.workflow.variant import Variant

_OF_GPUS: Final = ("nccl_tables", "gemm_table", "kernel_table", "calibration")


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictionOptions:
    """The inputs of a prediction other than its workload and target."""

    settings: Settings = field(default_factory=Settings)
    recipes: Sequence[str] = ()  # names and files that the settings came from
    candidates: Sequence[Variant | str] = ()
    profile: Path | str | None = None  # prices from it: PGLE profile, recording or Run
    against: Path | str | None = None  # a Run or profile to compare with
    what_if: Sequence[str] = ()
    pgle: bool = False
    pgle_out: Path | None = None
    overwrite: bool = False  # the file at pgle_out
    nccl_tables: Sequence[Path] = ()
    gemm_table: Path | None = None
    kernel_table: Path | None = None
    calibration: Path | str | None = None  # the output of `counterpoint calibrate`
    jitter: int | None = None  # seed
    inherited: Mapping[str, str] = field(default_factory=dict[str, str])  # of the shell; not used
    devices: int | None = None  # to lower a function for; default: the target's
    jobs: int | None = None
    timeout_s: float = TIMEOUT_S
    trips: Sequence[str] = ()  # NAME=N, of loops whose trip count the compiler does not know
    trips_from: Path | str | None = None  # a Run or profile that measured them
    schedule_only: bool = False  # on TPUs: no machine code, and so no estimates of cycles

    def refuse_those_of_others(self, target: Target) -> None:
        """Refuse what only predictions on GPUs have so far, and on GPUs what only TPUs have."""
        if target.tpu is None:
            if self.schedule_only:
                raise UsageError(
                    f"--schedule-only is for TPUs, and {target} has GPUs",
                    why="XLA:GPU compiles a step in seconds, machine code included",
                    next="omit --schedule-only",
                )
            return
        given = [name for name in _OF_GPUS if getattr(self, name)]
        if given:
            name = {"nccl_tables": "nccl_table"}.get(given[0], given[0])
            raise UsageError(
                f"{option_of(name)} is for GPUs, and {target} has TPUs",
                why="docs/guide/tpu.md lists what predictions on TPUs have",
                next=f"omit {option_of(name)}",
            )
