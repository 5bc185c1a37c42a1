"""The report of `tune --dry-run`: what would be tried, what is left out and why, and the cost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from counterpoint.core import Unknown
from counterpoint.core.printable import counted_noun, some
from counterpoint.report import units
from counterpoint.report.document import (
    Document,
    Fact,
    FactList,
    Section,
    Tone,
    labels,
    names,
    table,
    words,
)
from counterpoint.report.tune.figures import budget_text, duration
from counterpoint.report.tune.tune_document import settings_lines
from counterpoint.tune.arm import Arm, ArmOrigin
from counterpoint.tune.dryrun import DryRun
from counterpoint.tune.plan import Budget
from counterpoint.tune.race import StudyCost
from counterpoint.tune.space import Dimension

_NAMES: Final = 6
_BY_USER: Final = "named by you"
NO_BUDGET: Final = Budget()
_LEGEND: Final = "nothing was run or saved"


def dry_run_document(plan: DryRun, top: int, next: str, budget: Budget = NO_BUDGET) -> Document:
    """Return the planned trials, with at most `top` rows of each kind."""
    sections = [_plan(plan, budget), _base(plan)]
    sections += _dimensions(plan.space.dimensions, top)
    sections += _named(plan.arms, top)
    sections += _left_out(plan, top)
    sections += _notes(plan.space.notes)
    return Document(sections=tuple(sections), legend=_LEGEND, next=next)


def _plan(plan: DryRun, budget: Budget) -> Section:
    rows: list[Fact] = []
    if plan.target is not None:
        count = counted_noun(plan.compiles, "compile")
        rows.append(Fact("predicted", f"at most {count} for {plan.target}, simulated"))
    if plan.executor is not None and plan.cost is not None:
        rows.append(Fact("runs", plan.executor))
        rows += _cost(plan, plan.cost, budget)
    parts = [
        "predicted" if plan.target is not None else "",
        "run in turns" if plan.executor is not None else "",
    ]
    how = ", then ".join(part for part in parts if part)
    return Section("Plan", f"{plan.workload}: {how}", (FactList(tuple(rows)),))


def _base(plan: DryRun) -> Section:
    """Return the settings that all arms start from."""
    base, step = plan.space.base, plan.base_step_s
    predicted = "" if step is None else f"; predicted step {units.milliseconds(step * 1e3)}"
    what = "your settings, complete" if base.xla or base.env else "no settings"
    lines = settings_lines(base) if base.xla or base.env else ()
    return Section(
        "Base", f"{what}{predicted}", (FactList(tuple(Fact("", line) for line in lines)),)
    )


def _cost(plan: DryRun, cost: StudyCost, budget: Budget) -> Iterator[Fact]:
    yield Fact(
        "trials",
        f"{counted_noun(cost.expected_trials, 'trial')} expected, {cost.most_trials:,} at most",
    )
    if isinstance(plan.trial_s, Unknown):
        yield Fact("time", f"{units.UNKNOWN}: {plan.trial_s.reason}")
    else:
        yield Fact(
            "time",
            f"{duration(cost.expected_seconds)} expected, {duration(cost.most_seconds)} at most,"
            f" at {duration(plan.trial_s)} a trial",
        )
    hours = plan.node_hours
    if not isinstance(hours, Unknown):
        yield Fact(
            "node hours",
            f"{units.column([hours], 1)[0]} expected on {counted_noun(plan.nodes, 'node')}",
        )
    room = f"it has no room for {counted_noun(cost.left_out, 'arm')}"
    limits = "; ".join(
        limit for limit in (budget_text(budget), room if cost.left_out else "") if limit
    )
    if limits:
        yield Fact("budget", limits, Tone.WARNING if cost.left_out else Tone.PLAIN)


def _dimensions(dimensions: Sequence[Dimension], top: int) -> Iterator[Section]:
    if not dimensions:
        return
    shown = dimensions[:top]
    rows = table(
        labels("dimension", [dimension.name for dimension in shown]),
        labels("choices", [", ".join(it.choice for it in each.choices) for each in shown]),
        words("acts on", [str(dimension.acts) for dimension in shown], rank=1),
        names("why", [each.why or each.source or _BY_USER for each in shown], rank=2),
    )
    count = sum(len(dimension.choices) for dimension in dimensions)
    summary = f"{len(dimensions)}, with {counted_noun(count, 'choice')}, alone and combined"
    yield Section("Dimensions", summary, (rows, *_more(len(dimensions), top)))


def _more(count: int, top: int) -> Iterator[FactList]:
    if count > top:
        yield FactList((Fact("", f"and {count - top} more: --top {count}, or --json", Tone.QUIET),))


def _named(arms: Iterable[Arm], top: int) -> Iterator[Section]:
    """Yield recipes and arms given by hand; single choices are in the table of dimensions."""
    named = [arm for arm in arms if arm.origin in (ArmOrigin.HAND, ArmOrigin.RECIPE)]
    if not named:
        return
    rows = table(
        labels("arm", [arm.name for arm in named[:top]]),
        words("from", [str(arm.origin) for arm in named[:top]]),
        labels("sets", [_sets(arm) for arm in named[:top]]),
    )
    yield Section("Arms by name", f"{len(named)}", (rows, *_more(len(named), top)))


def _sets(arm: Arm) -> str:
    parts = [
        f"{name}={value}"
        for change in arm.changes
        for name, value in (*change.settings.xla, *change.settings.env, *change.settings.options)
    ]
    parts += [f"a process per {change.per}" for change in arm.changes if change.per is not None]
    parts += ["a PGLE profile" for change in arm.changes if change.profile]
    return " ".join(parts) or units.UNKNOWN


def _left_out(plan: DryRun, top: int) -> Iterator[Section]:
    """Yield what is left out, grouped by reason, since many share one."""
    left_out = plan.space.left_out
    if not left_out:
        return
    grouped: dict[str, list[str]] = {}
    for omitted in left_out:
        grouped.setdefault(omitted.why, []).append(omitted.name)
    facts = tuple(
        Fact("", f"{some(named, _NAMES)}: {why}") for why, named in list(grouped.items())[:top]
    )
    yield Section("Left out", f"{len(left_out)}", (FactList(facts), *_more(len(grouped), top)))


def _notes(notes: Sequence[str]) -> Iterator[Section]:
    if notes:
        facts = tuple(Fact("note", note, Tone.QUIET) for note in notes)
        yield Section("Notes", "", (FactList(facts),))
