"""`upgrade` as JSON: `counterpoint.upgrade/1`, docs/reference/upgrade-json.md. Nothing is cut."""

from __future__ import annotations

from typing import Annotated, Literal

from counterpoint.core.field import Field
from counterpoint.report.json import At, Pair, ReasonUnknown, Result, fill, json_text
from counterpoint.report.predict.predict_json import (
    ProgramOfStepJson,
    RequestedSettings,
    programs_of_step,
)
from counterpoint.workflow.upgrade import LeftOutFlag, Upgrade, UpgradeSide


class UpgradeSideJson(Result):
    """The step with one release."""

    name: Annotated[str, Field("the side")]
    jax: Annotated[str, At("installation.jax"), Field("version of jax")]
    jaxlib: Annotated[str, At("installation.jaxlib"), Field("version of jaxlib")]
    python: Annotated[str, At("installation.python"), Field("version of Python")]
    packages: Annotated[
        dict[str, str],
        At("installation.packages"),
        Field("everything that its environment has, with versions"),
    ]
    settings: Annotated[RequestedSettings, Field("`flags` and `environment`")]
    left_out: Annotated[
        tuple[LeftOutFlag, ...],
        Field("flags that are set and that this release does not accept"),
    ]
    step_ms: Annotated[float, At("forecast.step_ms"), Field("the predicted step")]
    range_ms: Annotated[Pair, At("forecast.range_ms"), Field("its range")]
    communication_ms: Annotated[
        float,
        At("forecast.simulation.communicating_ms"),
        Field("time of any communication"),
    ]
    exposed_ms: Annotated[
        float,
        At("forecast.simulation.exposed_ms"),
        Field("the part of it that the step waits for"),
    ]
    peak_bytes: Annotated[
        int | None,
        At("forecast.memory.peak_bytes"),
        Field("what a step allocates on one device, as in [`predict`](predict-json.md)"),
    ]
    available_bytes: Annotated[
        int | None,
        At("forecast.memory.available_bytes"),
        Field("what JAX's allocator may take"),
    ]
    fits: Annotated[
        bool | None,
        At("forecast.memory.fits"),
        Field("whether the peak is within that; null: unknown"),
    ]
    held_bytes: Annotated[
        int | None, Field("arguments, results and temporaries, as the compiler plans them")
    ]
    compile_s: Annotated[
        float | None, Field("seconds of the compiles of its programs, on the machine that did them")
    ]
    programs_of_step: Annotated[
        tuple[ProgramOfStepJson, ...],
        Field("as in [`predict`](predict-json.md): the programs of a step that runs several"),
    ]


class ChangedOpsJson(Result):
    """Ops that match and differ; a side without such an op is empty."""

    a: Annotated[tuple[str, ...], At("match.a.op"), Field("A's ops; empty: only B has such ops")]
    b: Annotated[tuple[str, ...], At("match.b.op"), Field("B's ops; empty: only A has such ops")]
    a_ms: Annotated[float, Field("their time in A's step")]
    b_ms: Annotated[float, Field("their time in B's step")]
    difference_ms: Annotated[float, Field("B - A")]
    category: Annotated[str | None, At("shown.category"), Field("as in [explain](explain-json.md)")]
    phase: Annotated[str | None, At("shown.phase"), Field("as in [explain](explain-json.md)")]
    scope: Annotated[str | None, At("shown.scope"), Field("the path of names in the user's code")]
    source: Annotated[str | None, At("shown.source"), Field("file:line")]


class StepChangeOfKindJson(Result):
    """The differences of one kind."""

    kind: Annotated[str, Field("the kind of op")]
    a_ops: Annotated[int, Field("number of A's ops that differ")]
    b_ops: Annotated[int, Field("number of B's ops that differ")]
    a_ms: Annotated[float, Field("their time in A's step")]
    b_ms: Annotated[float, Field("their time in B's step")]
    difference_ms: Annotated[float, Field("B - A")]
    ops: Annotated[tuple[ChangedOpsJson, ...], At("rows"), Field("the ops")]


class FlagMoveJson(Result):
    """A flag's value that changed."""

    name: Annotated[str, At("flag.name"), Field("the flag")]
    what: Annotated[str, Field("`default`, `type`, ...")]
    before: Annotated[str, Field("of A")]
    after: Annotated[str, Field("of B")]


class FlagNamesJson(Result):
    """A flag that has a new name."""

    before: Annotated[str, At("before.name"), Field("the old name")]
    after: Annotated[str, At("after.name"), Field("the new name")]


class FlagChangesJson(Result):
    """The flags that differ between the two releases of jaxlib."""

    why_not: Annotated[
        str | None, ReasonUnknown(), Field("why they are not known, as on TPUs; null: they are")
    ]
    added: Annotated[tuple[str, ...], At("added.name"), Field("names")]
    removed: Annotated[tuple[str, ...], At("removed.flag.name"), Field("names")]
    renamed: Annotated[tuple[FlagNamesJson, ...], Field("flags with a new name")]
    changed: Annotated[tuple[FlagMoveJson, ...], Field("flags with another default, type, ...")]


class FlagTryJson(Result):
    """Flags that were tried with the new release."""

    flags: Annotated[tuple[tuple[str, str], ...], Field("names and values")]
    why: Annotated[str, Field("why they were tried")]
    step_ms: Annotated[float | None, At("forecast.step_ms"), Field("B's step with them")]
    saves_ms: Annotated[float | None, Field("compared with B without them")]
    saves_range_ms: Annotated[Pair | None, At("reach_ms"), Field("the range of that")]
    undone: Annotated[float | None, Field("share of the change that they take back")]
    same_program: Annotated[bool, Field("they change nothing in this program")]
    error: Annotated[str | None, Field("why it was not compiled")]


class ReleaseStepJson(Result):
    """The step with a release between the two, or why there is none."""

    version: Annotated[str, Field("the release of jaxlib")]
    step_ms: Annotated[float | None, At("side.forecast.step_ms"), Field("the predicted step")]
    exposed_ms: Annotated[
        float | None,
        At("side.forecast.simulation.exposed_ms"),
        Field("communication that the step waits for"),
    ]
    held_bytes: Annotated[int | None, At("side.held_bytes"), Field("as in `before`")]
    error: Annotated[str | None, Field("why it could not be predicted; null: it was")]


class KindMoveJson(Result):
    """Differences of one kind between two releases."""

    kind: Annotated[str, Field("the kind of op")]
    difference_ms: Annotated[float, Field("per step")]


class ReleaseMoveJson(Result):
    """A release that changed the step."""

    before: Annotated[str, Field("the last release with the old step")]
    after: Annotated[str, Field("the first with the new one")]
    change: Annotated[float, Field("of the step, as a share")]
    difference_ms: Annotated[float, Field("of the step")]
    changes: Annotated[tuple[KindMoveJson, ...], Field("by kind of op")]


class UpgradeJson(Result, tag_field="schema", tag="counterpoint.upgrade/1"):
    """A step before and after a new release of JAX: `counterpoint upgrade --json`."""

    workload: Annotated[str, Field("the module's name")]
    origin: Annotated[str, Field("where it comes from")]
    target: Annotated[str, Field("the machine that it is predicted for")]
    devices: Annotated[int, At("target.devices"), Field("number of devices")]
    basis: Annotated[Literal["predicted"], Field("`predicted`")]
    before: Annotated[UpgradeSideJson, Field("the step with the release before")]
    after: Annotated[UpgradeSideJson, Field("the step with the release after")]
    change: Annotated[float, Field("0.03: the step becomes 3% longer")]
    change_range: Annotated[
        Pair, At("reach"), Field("the range of `change`; errors that both steps share cancel")
    ]
    matters: Annotated[bool, Field("the range excludes 0, and the change is above 1.5%")]
    same_program: Annotated[
        bool,
        At("is_same_program"),
        Field("both do the same in the same time and memory, names aside"),
    ]
    other_packages: Annotated[
        dict[str, tuple[str | None, str | None]],
        Field("packages beside JAX's own with two versions: A's and B's, null where there is none"),
    ]
    busy_ms: Annotated[
        Pair, At("work.busy.a_ms", "work.busy.b_ms"), Field("busy time of A and of B")
    ]
    idle_ms: Annotated[
        Pair, At("work.idle.a_ms", "work.idle.b_ms"), Field("idle time of A and of B")
    ]
    changes: Annotated[
        tuple[StepChangeOfKindJson, ...],
        Field("differences by kind: with `idle_ms` they add up to the difference of the step"),
    ]
    flags: Annotated[FlagChangesJson, Field("flags of jaxlib that were added, removed or changed")]
    tries: Annotated[
        tuple[FlagTryJson, ...], Field("flags tried with B, the one that saves most first")
    ]
    steps: Annotated[
        tuple[ReleaseStepJson, ...],
        Field("with `--bisect`: the releases that were predicted, both ends included"),
    ]
    moves: Annotated[
        tuple[ReleaseMoveJson, ...],
        Field("with `--bisect`: the releases that changed the step by 0.5% or more"),
    ]
    notes: Annotated[
        tuple[str, ...], Field("what was assumed, and what a compile without the device can't know")
    ]


def upgrade_json(upgrade: Upgrade) -> str:
    """Return the whole result as text."""
    before, after = _side(upgrade.before), _side(upgrade.after)
    return json_text(fill(UpgradeJson, upgrade, before=before, after=after))


def _side(side: UpgradeSide) -> UpgradeSideJson:
    return fill(UpgradeSideJson, side, programs_of_step=programs_of_step(side.forecast))
