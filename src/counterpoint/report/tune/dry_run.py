"""`tune --dry-run`: what would be tried, what is left out and why, and what that costs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from counterpoint.core import Unknown
from counterpoint.report import units
from counterpoint.report.document import (
    Column,
    Document,
    Fact,
    Facts,
    Kind,
    Section,
    Table,
    Tone,
    printable,
)
from counterpoint.report.tune.tune_document import settings_lines
from counterpoint.report.words import budget_text, duration, several
from counterpoint.tune import Arm, Budget, DryRun, Origin
from counterpoint.tune.race import Cost
from counterpoint.tune.space import Dimension

_NAMES: Final = 6
_UNSAID: Final = "named by you"
NO_BUDGET: Final = Budget()
_LEGEND: Final = "nothing was run, and nothing is kept"


def dry_run_document(plan: DryRun, top: int, next: str, budget: Budget = NO_BUDGET) -> Document:
    """What would be tried, with at most `top` rows of each kind."""
    sections = [_plan(plan, budget), _base(plan)]
    sections += _dimensions(plan.space.dimensions, top)
    sections += _named(plan.arms, top)
    sections += _left_out(plan, top)
    sections += _notes(plan.space.notes)
    return Document(sections=tuple(sections), legend=_LEGEND, next=printable(next))


def _plan(plan: DryRun, budget: Budget) -> Section:
    rows: list[Fact] = []
    if plan.target is not None:
        count = several(plan.compiles, "compile")
        rows.append(Fact("predicted", printable(f"at most {count} for {plan.target}, simulated")))
    if plan.executor is not None and plan.cost is not None:
        rows.append(Fact("runs", printable(plan.executor)))
        rows += _cost(plan, plan.cost, budget)
    parts = [
        "predicted" if plan.target is not None else "",
        "run in turns" if plan.executor is not None else "",
    ]
    how = ", then ".join(it for it in parts if it)
    return Section("Plan", printable(f"{plan.workload}: {how}"), (Facts(tuple(rows)),))


def _base(plan: DryRun) -> Section:
    """What all arms change."""
    base, step = plan.space.base, plan.base_step_s
    said = "" if step is None else f"; predicted step {units.milliseconds(step * 1e3)}"
    what = "your settings, in full" if base.xla or base.env else "no settings of yours"
    lines = settings_lines(base) if base.xla or base.env else ()
    return Section("Base", f"{what}{said}", (Facts(tuple(Fact("", it) for it in lines)),))


def _cost(plan: DryRun, cost: Cost, budget: Budget) -> Iterator[Fact]:
    yield Fact(
        "trials",
        f"{several(cost.expected_trials, 'trial')} expected, {cost.most_trials:,} at most",
    )
    if isinstance(plan.trial_s, Unknown):
        yield Fact("time", printable(f"{units.UNKNOWN}: {plan.trial_s.reason}"))
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
            f"{units.column([hours], 1)[0]} expected on {several(plan.nodes, 'node')}",
        )
    room = f"it has no room for {several(cost.left_out, 'arm')} of those that may be run"
    told = "; ".join(it for it in (budget_text(budget), room if cost.left_out else "") if it)
    if told:
        yield Fact("budget", told, Tone.WARNING if cost.left_out else Tone.PLAIN)


def _dimensions(dimensions: Sequence[Dimension], top: int) -> Iterator[Section]:
    if not dimensions:
        return
    columns = (
        Column("dimension", Kind.LABEL),
        Column("choices", Kind.LABEL),
        Column("acts on", Kind.WORD, rank=1),
        Column("why", Kind.NAME, rank=2),
    )
    rows = tuple(
        (
            printable(it.name),
            printable(", ".join(one.choice for one in it.choices)),
            str(it.acts),
            printable(it.why or it.source or _UNSAID),
        )
        for it in dimensions[:top]
    )
    count = sum(len(it.choices) for it in dimensions)
    summary = f"{len(dimensions)}, with {several(count, 'choice')}; alone, and together"
    more = _more(len(dimensions), top)
    yield Section("What may be changed", summary, (Table(columns=columns, rows=rows), *more))


def _more(count: int, top: int) -> Iterator[Facts]:
    if count > top:
        yield Facts((Fact("", f"and {count - top} more: --top {count}, or --json", Tone.QUIET),))


def _named(arms: Iterable[Arm], top: int) -> Iterator[Section]:
    """Recipes and arms by hand; single choices stand in the table of dimensions."""
    named = [it for it in arms if it.origin in (Origin.HAND, Origin.RECIPE)]
    if not named:
        return
    columns = (Column("arm", Kind.LABEL), Column("from", Kind.WORD), Column("sets", Kind.LABEL))
    rows = tuple((printable(it.name), str(it.origin), printable(_sets(it))) for it in named[:top])
    yield Section(
        "Arms by name",
        f"{len(named)}",
        (Table(columns=columns, rows=rows), *_more(len(named), top)),
    )


def _sets(arm: Arm) -> str:
    words = [
        f"{name}={value}"
        for it in arm.changes
        for name, value in (*it.settings.xla, *it.settings.env, *it.settings.options)
    ]
    words += [f"a process per {it.per}" for it in arm.changes if it.per is not None]
    words += ["a PGLE profile" for it in arm.changes if it.profile]
    return " ".join(words) or units.UNKNOWN


def _left_out(plan: DryRun, top: int) -> Iterator[Section]:
    """By their reasons, for many have the same."""
    found = plan.space.left_out
    if not found:
        return
    grouped: dict[str, list[str]] = {}
    for it in found:
        grouped.setdefault(it.why, []).append(it.name)
    facts = tuple(
        Fact("", printable(f"{_some(names)}: {why}")) for why, names in list(grouped.items())[:top]
    )
    yield Section("Left out", f"{len(found)}", (Facts(facts), *_more(len(grouped), top)))


def _some(names: Sequence[str]) -> str:
    more = len(names) - _NAMES
    return ", ".join(names[:_NAMES]) + (f" and {more} more" if more > 0 else "")


def _notes(notes: Sequence[str]) -> Iterator[Section]:
    if notes:
        facts = tuple(Fact("note", printable(it), Tone.QUIET) for it in notes)
        yield Section("Notes", "", (Facts(facts),))
