"""`tune` and `tune --dry-run` as JSON: docs/reference/tune-json.md.

Every key is always present; gains are shares of the base's step. Nothing is cut.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar

from counterpoint.core.field import Field, Form
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

    xla_flags: Annotated[Pairs, At("xla"), Field("pairs of name and value, in order")]
    environment: Annotated[dict[str, str], At("variables"), Field("environment variables")]
    compiler_options: Annotated[dict[str, str], At("options"), Field("compiler options")]


class ArmChangeJson(Result):
    """A choice of a dimension; `profile`: a PGLE profile is measured first.

    `words` is an option of the command, with its values.
    """

    dimension: Annotated[str, Field("what is changed")]
    choice: Annotated[str, Field("to what")]
    acts: Annotated[str, Field("`schedule` or `runtime`")]
    per: Annotated[str | None, Field("`gpu`, `node` or null: the process layout that it needs")]
    profile: Annotated[bool, Field("a PGLE profile is measured first")]
    words: Annotated[tuple[str, ...], Field("an option of the command, with its values")]
    settings: Annotated[InFull, Field("the settings that it adds")]


class ArmPredicted(Result):
    """The prediction of an arm."""

    COLUMNS: ClassVar = ("step_ms", "range_ms", "exposed_ms", "peak_bytes")

    step_ms: Annotated[float, Field("the predicted step", "step ms", Form.MS)]
    range_ms: Annotated[Pair, Field("its range", "range of the step", Form.RANGE)]
    gain: Annotated[float, Field("the predicted gain")]
    gain_range: Annotated[Pair, Field("the range of that")]
    program: Annotated[str, Field("hash of the scheduled step")]
    exposed_ms: Annotated[
        float | None,
        Field(
            "communication that the step waits for",
            "exposed ms",
            Form.MS,
            unknown="it was not predicted",
        ),
    ]
    peak_bytes: Annotated[
        int | None,
        Field("the compiler's plan", "peak memory", Form.BYTES, unknown="the compiler did not say"),
    ]
    limit_bytes: Annotated[int | None, Field("the allocator's limit")]
    fits: Annotated[bool | None, Field("whether the plan is within the limit")]
    tied: Annotated[bool, Field("with the best one")]


class PlannedArm(Result):
    """An arm: what it changes, and its settings in full."""

    name: Annotated[str, Field("unique in the study; `base` is your own settings")]
    origin: Annotated[
        str,
        Field(
            "`base`, `by hand`, `recipe`, `space` (one change), `search`, `combined`, `ablation`"
        ),
    ]
    changes: Annotated[
        tuple[ArmChangeJson, ...],
        Field("what it changes"),
    ]
    settings: Annotated[InFull, Field("complete")]
    per: Annotated[str | None, Field("the process layout, if the arm changes it")]
    predicted: Annotated[ArmPredicted | None, Field("the simulator's prediction")]


class RowPair(Result):
    """A row of the race in which the arm and the base both ran."""

    row: Annotated[int, Field("its number")]
    step_ms: Annotated[float, Field("the arm's median step")]
    base_ms: Annotated[float, Field("the base's")]


class Estimated(Result):
    """The estimate of an arm from the race, or from fresh runs: geometric means over `pairs`."""

    gain: Annotated[float | None, Field("`1 - step_ms / base_ms`")]
    range: Annotated[Pair | None, Field("the range of the gain; null: `why_no_range`")]
    why_no_range: Annotated[str | None, ReasonUnknown("range"), Field("why there is no range")]
    p: Annotated[float | None, Field("p-value, adjusted for all arms and looks; null: none")]
    rows: Annotated[int, Field("passes in which both ran")]
    verdict: Annotated[str, Field("`faster`, `slower`, `no effect` or `not decided`")]
    decided: Annotated[bool, Field("more rows are not worth their time")]
    why: Annotated[TextOrNull, Field("the reason for the verdict; null: none")]
    step_ms: Annotated[float | None, Field("the geometric mean over `pairs`")]
    base_ms: Annotated[float | None, Field("the same of the base")]
    pairs: Annotated[tuple[RowPair, ...], Field("the rows in which both ran; no other runs count")]


class ArmResult(PlannedArm):
    """An arm, and what was measured of it, as medians of its runs.

    `start_s`: what a run takes beside its steps at their steady pace; XLA's part is `compile_s`.
    """

    COLUMNS: ClassVar = ("median_ms", "trials", "peak_bytes")

    status: Annotated[
        str,
        Field(
            "`winner`, `faster`, `slower`, `no effect`, `not decided`, `same program`, `out of "
            "memory`, `other numbers`, `fewer steps`, `hang`, ...; for arms that were only "
            "predicted: `worth a trial`, `predicted`, `not predictable`, `not looked at`, "
            "`failed`"
        ),
    ]
    why: Annotated[TextOrNull, Field("the reason for the status")]
    trials: Annotated[int, Field("runs started", "trials", Form.COUNT)]
    failures: Annotated[int, Field("runs without a step time")]
    median_ms: Annotated[
        float | None,
        Field(
            "the median step over all its runs; the gain is computed from `pairs`",
            "median ms",
            Form.MS,
            unknown="it did not run",
        ),
    ]
    raced: Annotated[Estimated | None, Field("the estimate from the race")]
    confirmed: Annotated[Estimated | None, Field("the estimate from fresh runs")]
    prediction_off: Annotated[
        float | None,
        Field(
            "measured / predicted step - 1: 0.02 is slower than predicted; null also if it ran on "
            "other devices than the target's"
        ),
    ]
    program: Annotated[
        str | None,
        Field(
            "hash of the scheduled step, from the run or else from the prediction; equal hashes "
            "are equal programs"
        ),
    ]
    peak_bytes: Annotated[
        int | None,
        Field("measured peak of memory", "peak memory", Form.BYTES, unknown="not recorded"),
    ]
    trial_s: Annotated[
        float | None, Field("the median time of its timed runs, from their start to their end")
    ]
    start_s: Annotated[
        float | None,
        Field(
            "the part of it beside the steps, as if all of them had been at the steady pace: "
            "start, compile, warm-up"
        ),
    ]
    compile_s: Annotated[float | None, Field("XLA's part of that")]


class TuneLeftOutJson(Result):
    """An excluded setting, and the reason."""

    name: Annotated[str, Field("the arm")]
    why: Annotated[str, Field("why it takes no part")]


class AblatedJson(Result):
    """The loss of the winner without one of its changes."""

    arm: Annotated[str, Field("always `winner`: arms that did not win have no ablation")]
    dimension: Annotated[str, Field("the dimension of the change")]
    choice: Annotated[str, Field("the choice that was undone")]
    loses: Annotated[
        float, Field("what the winner loses without it, as a share of the base's step")
    ]
    range: Annotated[Pair | None, At("low", "high"), Field("the range of that; null: none")]
    basis: Annotated[str, Field("`measured` or `predicted`")]


class NoiseJson(Result):
    """The difference between identical runs."""

    sigma: Annotated[
        float | None, Field("standard deviation of the log ratio of two identical runs")
    ]
    why_no_sigma: Annotated[str | None, ReasonUnknown("sigma"), Field("why it is not known")]
    freedom: Annotated[int, Field("its degrees of freedom")]
    floor: Annotated[float, Field("differences below this cannot be shown")]


class Tune(Result, tag_field="schema", tag="counterpoint.tune/1"):
    """A study's result: `counterpoint tune --json`, `tune show --json`, `STUDY/report.json`."""

    study: Annotated[str, Field("the directory of the study")]
    sentence: Annotated[str, Field("the verdict in one sentence")]
    state: Annotated[
        str,
        Field(
            "`running` (or ended without a record), `paused` (by a fault), `interrupted` (by the "
            "user) or `done`"
        ),
    ]
    basis: Annotated[str, Field("`measured`, or `predicted` if nothing was run")]
    verdict: Annotated[str | None, Field("`faster`, `slower`, `no effect` or `not decided`")]
    confirmed: Annotated[
        bool,
        Field(
            "true if `gain` and `range` come from fresh runs in a fresh allocation, without any "
            "run of the race"
        ),
    ]
    gain: Annotated[float | None, Field("the winner's gain")]
    range: Annotated[Pair | None, Field("its range")]
    winner: Annotated[
        str | None, At("winner.name"), Field("the recommended arm; null: keep the base")
    ]
    settings: Annotated[
        InFull | None,
        At("winner.settings"),
        Field("the winner's settings, complete with the base's"),
    ]
    beside_settings: Annotated[
        tuple[str, ...],
        Field(
            "what the winner's figures include but its `settings` do not: a PGLE profile that "
            "must still be measured, the process layout"
        ),
    ]
    arms: Annotated[tuple[ArmResult, ...], Field("all arms, including the base")]
    left_out: Annotated[
        tuple[TuneLeftOutJson, ...],
        Field("arms that you named and that take no part"),
    ]
    ablation: Annotated[
        tuple[AblatedJson, ...],
        Field("what the winner loses without each of its changes; empty without a winner"),
    ]
    noise: Annotated[NoiseJson | None, Field("how much identical runs of this study differ")]
    spent: Annotated[Spent | None, Field("the cost so far, and what is left of the budget")]
    notes: Annotated[tuple[str, ...], Field("caveats")]


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


def _estimated(estimate: GainEstimate | None) -> Estimated | None:
    if estimate is None:
        return None
    pairs = [
        {"row": pair.row + 1, "step_ms": pair.seconds * 1e3, "base_ms": pair.base_seconds * 1e3}
        for pair in estimate.pairs
    ]
    return fill(Estimated, estimate, pairs=pairs)


class DimensionPlanned(Result):
    """A dimension of the space; `needs`: it is combined only with these choices of others."""

    name: Annotated[str, Field("the dimension")]
    acts: Annotated[str, Field("`schedule` or `runtime`")]
    why: Annotated[str, Field("why it is tried")]
    source: Annotated[str, Field("where that is from")]
    choices: Annotated[tuple[str, ...], At("choices.choice"), Field("its values")]
    needs: Annotated[dict[str, str], Field("the choices of other dimensions that it requires")]
    excludes: Annotated[tuple[str, ...], Field("dimensions that it is not combined with")]


class CostPlanned(Result):
    """The planned cost, as far as it is known."""

    expected_trials: Annotated[int, Field("runs to expect")]
    most_trials: Annotated[int, Field("the most runs")]
    expected_seconds: Annotated[Exact | None, Field("time to expect; null: unknown")]
    most_seconds: Annotated[Exact | None, Field("the most time; null: unknown")]
    arms_left_out: Annotated[
        int, At("left_out"), Field("number of arms that the budget has no room for")
    ]


class TunePlan(Result, tag_field="schema", tag="counterpoint.tune-plan/1"):
    """The plan of a study: `counterpoint tune --dry-run --json`."""

    workload: Annotated[str, Field("the command, file or function")]
    target: Annotated[str | None, Field("the target; null: nothing is predicted")]
    executor: Annotated[str | None, Field("where trials run; null: nothing is run")]
    compiles: Annotated[int, Field("maximum number of compiles")]
    base_step_ms: Annotated[float | None, Field("the base's predicted step")]
    nodes: Annotated[int, Field("nodes per trial")]
    trial_s: Annotated[
        Exact | None, Field("duration of a trial, if an earlier part of the study measured it")
    ]
    budget: Annotated[Budget, Field("the parsed `--budget`")]
    cost: Annotated[
        CostPlanned | None,
        Field("the planned cost"),
    ]
    node_hours: Annotated[Exact | None, Field("expected node hours")]
    base: Annotated[InFull, At("space.base"), Field("settings")]
    dimensions: Annotated[
        tuple[DimensionPlanned, ...],
        At("space.dimensions"),
        Field("the space"),
    ]
    arms: Annotated[tuple[PlannedArm, ...], Field("the arms known in advance")]
    left_out: Annotated[
        tuple[TuneLeftOutJson, ...], At("space.left_out"), Field("arms that take no part")
    ]
    notes: Annotated[tuple[str, ...], At("space.notes"), Field("caveats")]


def dry_run_json(plan: DryRun, budget: Budget) -> str:
    """Return `tune --dry-run` as text."""
    return json_text(fill(TunePlan, plan, budget=budget))
