"""Question: all that is asked of one prediction beside its workload and its target."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from counterpoint.compile import TIMEOUT_S
from counterpoint.flags import Settings
from counterpoint.workflow.prediction.variants import Variant

Say: TypeAlias = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """All that is asked of one prediction beside its workload and target."""

    settings: Settings = field(default_factory=Settings)
    recipes: Sequence[str] = ()  # names and files that the settings came from
    candidates: Sequence[Variant | str] = ()
    profile: Path | str | None = None  # prices from it: PGLE profile, recording or Run
    against: Path | str | None = None  # a Run or profile to compare with
    what_if: Sequence[str] = ()
    pgle: bool = False
    pgle_out: Path | None = None
    overwrite: bool = False  # what is at pgle_out
    nccl_tables: Sequence[Path] = ()
    gemm_table: Path | None = None
    kernel_table: Path | None = None
    calibration: Path | str | None = None  # what `counterpoint calibrate` wrote
    jitter: int | None = None  # seed
    inherited: Mapping[str, str] = field(default_factory=dict[str, str])  # of the shell; not used
    devices: int | None = None  # to lower a function for; else the target's
    jobs: int | None = None
    timeout_s: float = TIMEOUT_S
