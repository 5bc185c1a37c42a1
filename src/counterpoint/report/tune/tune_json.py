"""`tune` and `tune --dry-run` as JSON: docs/reference/tune-json.md.

Every key is always present; gains are shares of the base's step. Nothing is cut.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from counterpoint.report.json import (
    At,
    Exact,
    Pair,
    Pairs,
    ReasonUnknown,
    Result,
    TextOrNull,
    fill,
    json_text,
)
from counterpoint.tune.conclusion import ArmRow, Conclusion, Spent, settings_caveats
from counterpoint.tune.dryrun import DryRun
from counterpoint.tune.plan import Budget
from counterpoint.tune.statistics import GainEstimate


class InFull(Result):
    """Settings in full, by the channel that takes them."""

    xla_flags: Annotated[Pairs, At("xla")]
    environment: Annotated[dict[str, str], At("variables")]
    compiler_options: Annotated[dict[str, str], At("options")]


class ArmChangeJson(Result):
    """A choice of a dimension; `profile`: a PGLE profile is measured first.

    `words` is an option of the command, with its values.
    """

    dimension: str
    choice: str
    acts: str
    per: str | None
    profile: bool
    words: tuple[str, ...]
    settings: InFull


class ArmPredicted(Result):
    """The prediction of an arm."""

    step_ms: float
    range_ms: Pair
    gain: float
    gain_range: Pair
    program: str
    exposed_ms: float | None
    peak_bytes: int | None
    limit_bytes: int | None
    fits: bool | None
    tied: bool


class PlannedArm(Result):
    """An arm: what it changes, and its settings in full."""

    name: str
    origin: str
    changes: tuple[ArmChangeJson, ...]
    settings: InFull
    per: str | None
    predicted: ArmPredicted | None


class RowPair(Result):
    """A row of the race in which the arm and the base both ran."""

    row: int
    step_ms: float
    base_ms: float


class Estimated(Result):
    """The estimate of an arm from the race, or from fresh runs."""

    gain: float | None
    range: Pair | None
    why_no_range: Annotated[str | None, ReasonUnknown("range")]
    p: float | None
    rows: int
    verdict: str
    decided: bool
    why: TextOrNull
    step_ms: float | None
    base_ms: float | None
    pairs: tuple[RowPair, ...]


class ArmResult(PlannedArm):
    """An arm, and what was measured of it, as medians of its runs.

    `start_s`: what a run takes beside its steps at their steady pace; XLA's part is `compile_s`.
    """

    status: str
    why: TextOrNull
    trials: int
    failures: int
    median_ms: float | None
    raced: Estimated | None
    confirmed: Estimated | None
    prediction_off: float | None
    program: str | None
    peak_bytes: int | None
    trial_s: float | None
    start_s: float | None
    compile_s: float | None


class TuneLeftOutJson(Result):
    """An excluded setting, and the reason."""

    name: str
    why: str


class AblatedJson(Result):
    """The loss of the winner without one of its changes."""

    arm: str
    dimension: str
    choice: str
    loses: float
    range: Annotated[Pair | None, At("low", "high")]
    basis: str


class NoiseJson(Result):
    """The difference between identical runs."""

    sigma: float | None
    why_no_sigma: Annotated[str | None, ReasonUnknown("sigma")]
    freedom: int
    floor: float


class Tune(Result, tag_field="schema", tag="counterpoint.tune/1"):
    """A study's result: `counterpoint tune --json`, `tune show --json`, `STUDY/report.json`."""

    study: str
    sentence: str
    state: str
    basis: str
    verdict: str | None
    confirmed: bool
    gain: float | None
    range: Pair | None
    winner: Annotated[str | None, At("winner.name")]
    settings: Annotated[InFull | None, At("winner.settings")]
    beside_settings: tuple[str, ...]
    arms: tuple[ArmResult, ...]
    left_out: tuple[TuneLeftOutJson, ...]
    ablation: tuple[AblatedJson, ...]
    noise: NoiseJson | None
    spent: Spent | None
    notes: tuple[str, ...]


def tune_json(conclusion: Conclusion, study: Path) -> str:
    """Return the conclusion as text, with each arm on a line of its own."""
    return json_text(
        fill(
            Tune,
            conclusion,
            study=study,
            beside_settings=settings_caveats(conclusion.winner) if conclusion.winner else (),
            arms=[_row(row) for row in conclusion.rows],
        )
    )


def _row(row: ArmRow) -> ArmResult:
    arm = {name: getattr(row.arm, name) for name in PlannedArm.__struct_fields__}
    return fill(
        ArmResult,
        row,
        **arm,
        raced=_estimated(row.raced),
        confirmed=_estimated(row.confirmed),
        program=row.program or (row.arm.predicted.program if row.arm.predicted else None),
    )


def _estimated(found: GainEstimate | None) -> Estimated | None:
    if found is None:
        return None
    pairs = [
        {"row": pair.row + 1, "step_ms": pair.seconds * 1e3, "base_ms": pair.base_seconds * 1e3}
        for pair in found.pairs
    ]
    return fill(Estimated, found, pairs=pairs)


class DimensionPlanned(Result):
    """A dimension of the space; `needs`: it is combined only with these choices of others."""

    name: str
    acts: str
    why: str
    source: str
    choices: Annotated[tuple[str, ...], At("choices.choice")]
    needs: dict[str, str]
    excludes: tuple[str, ...]


class CostPlanned(Result):
    """The planned cost, as far as it is known."""

    expected_trials: int
    most_trials: int
    expected_seconds: Exact | None
    most_seconds: Exact | None
    arms_left_out: Annotated[int, At("left_out")]


class TunePlan(Result, tag_field="schema", tag="counterpoint.tune-plan/1"):
    """The plan of a study: `counterpoint tune --dry-run --json`."""

    workload: str
    target: str | None
    executor: str | None
    compiles: int
    base_step_ms: float | None
    nodes: int
    trial_s: Exact | None
    budget: Budget
    cost: CostPlanned | None
    node_hours: Exact | None
    base: Annotated[InFull, At("space.base")]
    dimensions: Annotated[tuple[DimensionPlanned, ...], At("space.dimensions")]
    arms: tuple[PlannedArm, ...]
    left_out: Annotated[tuple[TuneLeftOutJson, ...], At("space.left_out")]
    notes: Annotated[tuple[str, ...], At("space.notes")]


def dry_run_json(plan: DryRun, budget: Budget) -> str:
    """Return `tune --dry-run` as text."""
    return json_text(fill(TunePlan, plan, budget=budget))
