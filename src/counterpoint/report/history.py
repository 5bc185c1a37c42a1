"""`history`, and `compare` of two queries: stored runs over time, as Documents and as JSON."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Final, Literal
from urllib.parse import quote

from counterpoint.core import Unknown
from counterpoint.core.printable import counted_noun, some
from counterpoint.diagnose.compare import StepChange
from counterpoint.fleet.history import (
    LevelChange,
    OpMove,
    RunDifference,
    RunHistory,
    StoredComparison,
)
from counterpoint.report import units
from counterpoint.report.document import (
    Block,
    CellColumn,
    ColumnKind,
    Document,
    Prose,
    Section,
    TextTable,
    Tone,
    labels,
    numbers,
    places,
    table,
    words,
)
from counterpoint.report.explain.compare_document import OVERHEAD, SOURCES, step_answer
from counterpoint.report.json import At, CountOf, Pair, Result, fill, json_text

__all__ = ["history_document", "history_json", "stored_document", "stored_json"]

_SHORT: Final = 10  # digits of a commit
_LISTED: Final = 3
_FEWEST: Final = 6
"""Of fewer runs none can be told from noise: a change needs three before it, and three after."""
_sentences: Final = partial(CellColumn, ColumnKind.SENTENCE)


class MovedJson(Result):
    """A change of the level of step times: from the run `at` on."""

    at: int
    since: int
    verdict: Annotated[Literal["faster", "slower"], At("change.verdict")]
    before_ms: Annotated[float, At("change.a_s")]
    after_ms: Annotated[float, At("change.b_s")]
    change: Annotated[float, At("change.change")]
    what: tuple[RunDifference, ...]


class StoredRunJson(Result):
    """A run in the store."""

    day: str
    run: str
    model: str
    source: str
    commit: str | None
    jax: str | None
    jaxlib: str | None
    chip: str | None
    hosts: int
    devices: int
    steps: int
    step_ms: float
    differs: tuple[RunDifference, ...]  # from the run before


class HistoryJson(Result, tag_field="schema", tag="counterpoint.history/1"):
    """Stored runs, oldest first, and when their step times moved: `counterpoint history --json`."""

    store: str
    runs: tuple[StoredRunJson, ...]
    moved: tuple[MovedJson, ...]


class StoredComparisonJson(Result, tag_field="schema", tag="counterpoint.stored-comparison/1"):
    """Two queries of a store compared: `counterpoint compare STORE?... STORE?... --json`."""

    a: str
    b: str
    a_runs: Annotated[int, CountOf("a")]
    b_runs: Annotated[int, CountOf("b")]
    verdict: str
    a_ms: Annotated[float | None, At("step.a_ms")]
    b_ms: Annotated[float | None, At("step.b_ms")]
    change: Annotated[float | None, At("step.change")]
    range: Annotated[Pair | None, At("step.range")]
    how: str
    differs: tuple[RunDifference, ...]
    parts: tuple[OpMove, ...]
    ops: tuple[OpMove, ...]


def history_document(history: RunHistory, store: str, top: int) -> Document:
    """Return the changes of level, and the last `top` runs."""
    sections = (_moved(history), _runs(history, top))
    return Document(sections=sections, legend=_LEGEND, next=_next(history, store))


_MIXED: Final = (
    "the steps of some runs were timed in the profile, with the profiler's overhead, and of others"
    " outside it: their times are not one history"
)
_LEGEND: Final = (
    "measured; step: the median of a run's steps; a change counts if the runs before and after it"
    " differ by Student's t (95%) on the logarithms of their medians"
)


def _next(history: RunHistory, store: str) -> str:
    rows = history.runs.to_dicts()
    at = history.moved[-1].at if history.moved else len(rows) - 1
    if at < 1:
        source = shlex.quote(rows[0]["source"])
        if source.endswith(".digest.parquet"):
            return f"counterpoint explain {source} --executor local"
        return f"counterpoint explain {source}"
    kind = "key" if rows[at - 1]["day"] == rows[at]["day"] else "day"
    one, other = (
        f"'{store}?model={quote(row['model'])}&{kind}={row[kind]}'" for row in rows[at - 1 : at + 1]
    )
    return f"counterpoint compare {one} {other}"


def _moved(history: RunHistory) -> Section:
    if not history.moved:
        runs = counted_noun(len(history.runs), "run")
        few = len(history.runs) < _FEWEST
        text = f"unknown: {runs}, too few to tell" if few else f"none in {runs}"
        return Section("Changes of the step time", text)
    rows = history.runs.to_dicts()
    steps = [each.change for each in history.moved]
    shown = table(
        labels("since", [rows[each.at]["day"].isoformat() for each in history.moved]),
        labels("run", [rows[each.at]["run"] for each in history.moved]),
        numbers("before ms", units.column(each.a_s * 1e3 for each in steps)),
        numbers("after ms", units.column(each.b_s * 1e3 for each in steps)),
        words("change", [f"{each.change:+.1%}" for each in steps]),
        words("range", [_range(each) for each in steps], 1),
        _sentences("what changed with it", [_what(each) for each in history.moved]),
    )
    return Section("Changes of the step time", f"{len(steps)}", (shown,))


def _range(step: StepChange) -> str:
    if isinstance(step.range, Unknown):
        return units.UNKNOWN
    return f"{step.range.low:+.1%} to {step.range.high:+.1%}"


def _what(moved: LevelChange) -> str:
    return _differ(moved.what) or "nothing that is stored: the machine, or data"


def _differ(differs: Sequence[RunDifference]) -> str:
    texts = [
        f"{each.what} {_value(each, each.before)} -> {_value(each, each.after)}" for each in differs
    ]
    return some(texts, _LISTED)


def _value(difference: RunDifference, value: str | None) -> str:
    short = difference.what in ("commit", "build")
    return "none" if value is None else value[:_SHORT] if short else value


def _runs(history: RunHistory, top: int) -> Section:
    rows = history.runs.to_dicts()[-top:]
    differs = history.differs[-top:]
    starts = {each.at for each in history.moved}
    first = len(history.runs) - len(rows)
    shown = table(
        labels("day", [row["day"].isoformat() for row in rows]),
        labels("run", [row["run"] for row in rows]),
        numbers("step ms", units.column(row["step_ms"] for row in rows)),
        words("", ["<- moved" if first + at in starts else "" for at in range(len(rows))], 1),
        numbers("steps", [f"{len(row['steps_ms']):,}" for row in rows], 3),
        words(
            "timed by",
            [SOURCES.get(str(row["steps_from"]), str(row["steps_from"])) for row in rows],
            3,
        ),
        numbers("devices", [f"{row['devices']:,}" for row in rows], 2),
        words("jaxlib", [row["jaxlib"] or _jax(row["jax"]) for row in rows], 2),
        labels("commit", [(row["commit"] or units.UNKNOWN)[:_SHORT] for row in rows], 3),
        _sentences("differs from the one before", [_differ(each) for each in differs], 4),
    )
    blocks: list[Block] = [shown]
    within = {source == "profile" for source in history.runs["steps_from"]}
    if len(within) > 1:
        blocks.append(Prose(_MIXED, Tone.WARNING))
    return Section("Runs", units.shown_of(len(rows), len(history.runs)), tuple(blocks))


def _jax(version: str | None) -> str:
    return units.UNKNOWN if version is None else f"jax {version}"


def history_json(history: RunHistory, store: str) -> str:
    """Return all of it as text."""
    rows = [
        fill(
            StoredRunJson,
            row,
            day=row["day"].isoformat(),
            steps=len(row["steps_ms"]),
            differs=differs,
        )
        for row, differs in zip(history.runs.to_dicts(), history.differs, strict=True)
    ]
    return json_text(fill(HistoryJson, history, store=store, runs=tuple(rows)))


def stored_document(found: StoredComparison, a: str, b: str, top: int) -> Document:
    """Return the comparison of two sets of stored runs."""
    step = found.step
    sources = [side["steps_from"].unique().sort().to_list() for side in (found.a, found.b)]
    if isinstance(step, Unknown):
        summary, how = "unknown", step.reason
    else:
        reach = _range(step)
        if isinstance(step.range, Unknown):
            reach = f"unknown: {step.range.reason}"
        summary, how = f"{step_answer(step)}, range {reach}", step.how
    sides = table(
        words("", ["A", "B"]),
        places("runs", [a, b]),
        numbers("number", [f"{len(side):,}" for side in (found.a, found.b)]),
        numbers("step ms", _step_ms(step)),
        words("by", [some([SOURCES[it] for it in each], _LISTED) for each in sources]),
    )
    parts: list[Block] = [_moves(found.parts)]
    if {*sources[0], *sources[1]} != {"profile"}:
        parts.append(OVERHEAD)
    sections = [
        Section("Step time", summary, (sides, Prose(how, Tone.QUIET))),
        Section("Parts", "ms of a step, mean over devices and runs", tuple(parts)),
        Section("Ops", "largest differences first", (_moves(found.ops[:top]),)),
    ]
    if found.differs:
        text = table(
            labels("what", [each.what for each in found.differs]),
            words("A", [_value(each, each.before) for each in found.differs]),
            words("B", [_value(each, each.after) for each in found.differs]),
        )
        sections.insert(1, Section("What differs", "between the last runs of both", (text,)))
    return Document(sections=tuple(sections), legend=_LEGEND, next=f"counterpoint history '{b}'")


def _step_ms(step: StepChange | Unknown) -> list[str]:
    if isinstance(step, Unknown):
        return [units.UNKNOWN] * 2
    return units.column([step.a_s * 1e3, step.b_s * 1e3])


def _moves(rows: Sequence[OpMove]) -> TextTable:
    return table(
        labels("name", [row.name for row in rows]),
        numbers("A ms", units.column(row.a_ms for row in rows)),
        numbers("B ms", units.column(row.b_ms for row in rows)),
        numbers("B - A", units.column(row.more_ms for row in rows)),
    )


def stored_json(found: StoredComparison, a: str, b: str) -> str:
    """Return all of it as text."""
    step = found.step
    unknown = isinstance(step, Unknown)
    verdict, how = ("unknown", step.reason) if unknown else (step.verdict, step.how)
    return json_text(fill(StoredComparisonJson, found, a=a, b=b, verdict=verdict, how=how))
