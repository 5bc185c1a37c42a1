"""`predict`: compile a workload for hardware that is not here, simulate it, and say what comes out.

    words ──► Workload ──compile──► Program ──price──► simulate ──► Forecast ──► Prediction

Settings, candidates and questions are of the user; everything shown is `predicted`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from counterpoint.flags import Settings
from counterpoint.hardware import Target
from counterpoint.workflow.prediction import Prediction
from counterpoint.workflow.variants import Variant

if TYPE_CHECKING:
    from counterpoint.compile import Workload
    from counterpoint.cost.scalars import Scalars
    from counterpoint.hlo import Program

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """All that is asked of one prediction beside its workload and target."""

    settings: Settings = field(default_factory=Settings)
    candidates: Sequence[Variant | str] = ()
    profile: Path | str | None = None  # prices from it: PGLE profile, recording or Run
    against: Path | str | None = None  # a Run or profile to compare with
    what_if: Sequence[str] = ()
    pgle: bool = False
    pgle_out: Path | None = None
    nccl_tables: Sequence[Path] = ()
    gemm_table: Path | None = None
    scalars: Scalars | None = None
    jitter: int | None = None
    jobs: int | None = None
    timeout_s: float = 900.0


def predict(
    workload: Workload | Program | Path | str,
    *,
    target: Target | str | None = None,
    program: str | None = None,
    question: Question | None = None,
    say: Say = lambda _: None,
    **asked: object,
) -> Prediction:
    """What one step of a workload takes on a target, and where it goes.

    `asked` are fields of a Question, for short: `predict("ir", target="8xH100", pgle=True)`.
    """
    raise NotImplementedError
