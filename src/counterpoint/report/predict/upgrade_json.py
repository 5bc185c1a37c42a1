"""`upgrade` as JSON: `counterpoint.upgrade/1`, docs/reference/upgrade-json.md. Nothing is cut."""

from __future__ import annotations

from typing import Annotated, Literal

from counterpoint.report.json import At, Pair, ReasonUnknown, Result, fill, json_text
from counterpoint.report.predict.predict_json import (
    ProgramOfStepJson,
    RequestedSettings,
    programs_of_step,
)
from counterpoint.workflow.upgrade import LeftOutFlag, Upgrade, UpgradeSide


class UpgradeSideJson(Result):
    """The step with one release."""

    name: str
    jax: Annotated[str, At("installation.jax")]
    jaxlib: Annotated[str, At("installation.jaxlib")]
    python: Annotated[str, At("installation.python")]
    packages: Annotated[dict[str, str], At("installation.packages")]
    settings: RequestedSettings
    left_out: tuple[LeftOutFlag, ...]
    step_ms: Annotated[float, At("forecast.step_ms")]
    range_ms: Annotated[Pair, At("forecast.range_ms")]
    communication_ms: Annotated[float, At("forecast.simulation.communicating_ms")]
    exposed_ms: Annotated[float, At("forecast.simulation.exposed_ms")]
    peak_bytes: Annotated[int | None, At("forecast.memory.peak_bytes")]
    available_bytes: Annotated[int | None, At("forecast.memory.available_bytes")]
    fits: Annotated[bool | None, At("forecast.memory.fits")]
    held_bytes: int | None
    compile_s: float | None
    programs_of_step: tuple[ProgramOfStepJson, ...]


class ChangedOpsJson(Result):
    """Ops that match and differ; a side without such an op is empty."""

    a: Annotated[tuple[str, ...], At("match.a.op")]
    b: Annotated[tuple[str, ...], At("match.b.op")]
    a_ms: float
    b_ms: float
    difference_ms: float
    category: Annotated[str | None, At("shown.category")]
    phase: Annotated[str | None, At("shown.phase")]
    scope: Annotated[str | None, At("shown.scope")]
    source: Annotated[str | None, At("shown.source")]


class StepChangeOfKindJson(Result):
    """The differences of one kind."""

    kind: str
    a_ops: int
    b_ops: int
    a_ms: float
    b_ms: float
    difference_ms: float
    ops: Annotated[tuple[ChangedOpsJson, ...], At("rows")]


class FlagMoveJson(Result):
    """A flag's value that changed."""

    name: Annotated[str, At("flag.name")]
    what: str
    before: str
    after: str


class FlagNamesJson(Result):
    """A flag that has a new name."""

    before: Annotated[str, At("before.name")]
    after: Annotated[str, At("after.name")]


class FlagChangesJson(Result):
    """The flags that differ between the two releases of jaxlib."""

    why_not: Annotated[str | None, ReasonUnknown()]
    added: Annotated[tuple[str, ...], At("added.name")]
    removed: Annotated[tuple[str, ...], At("removed.flag.name")]
    renamed: tuple[FlagNamesJson, ...]
    changed: tuple[FlagMoveJson, ...]


class FlagTryJson(Result):
    """Flags that were tried with the new release."""

    flags: tuple[tuple[str, str], ...]
    why: str
    step_ms: Annotated[float | None, At("forecast.step_ms")]
    saves_ms: float | None
    saves_range_ms: Annotated[Pair | None, At("reach_ms")]
    undone: float | None
    same_program: bool
    error: str | None


class ReleaseStepJson(Result):
    """The step with a release between the two, or why there is none."""

    version: str
    step_ms: Annotated[float | None, At("side.forecast.step_ms")]
    exposed_ms: Annotated[float | None, At("side.forecast.simulation.exposed_ms")]
    held_bytes: Annotated[int | None, At("side.held_bytes")]
    error: str | None


class KindMoveJson(Result):
    """Differences of one kind between two releases."""

    kind: str
    difference_ms: float


class ReleaseMoveJson(Result):
    """A release that changed the step."""

    before: str
    after: str
    change: float
    difference_ms: float
    changes: tuple[KindMoveJson, ...]


class UpgradeJson(Result, tag_field="schema", tag="counterpoint.upgrade/1"):
    """A step before and after a new release of JAX: `counterpoint upgrade --json`."""

    workload: str
    origin: str
    target: str
    devices: Annotated[int, At("target.devices")]
    basis: Literal["predicted"]
    before: UpgradeSideJson
    after: UpgradeSideJson
    change: float
    change_range: Annotated[Pair, At("reach")]
    matters: bool
    same_program: Annotated[bool, At("is_same_program")]
    other_packages: dict[str, tuple[str | None, str | None]]
    busy_ms: Annotated[Pair, At("work.busy.a_ms", "work.busy.b_ms")]
    idle_ms: Annotated[Pair, At("work.idle.a_ms", "work.idle.b_ms")]
    changes: tuple[StepChangeOfKindJson, ...]
    flags: FlagChangesJson
    tries: tuple[FlagTryJson, ...]
    steps: tuple[ReleaseStepJson, ...]
    moves: tuple[ReleaseMoveJson, ...]
    notes: tuple[str, ...]


def upgrade_json(found: Upgrade) -> str:
    """Return the whole result as text."""
    before, after = _side(found.before), _side(found.after)
    return json_text(fill(UpgradeJson, found, before=before, after=after))


def _side(side: UpgradeSide) -> UpgradeSideJson:
    return fill(UpgradeSideJson, side, programs_of_step=programs_of_step(side.forecast))
