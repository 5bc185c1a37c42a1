"""The sections of `explain`: findings, the ops of a median step, and the cost of its collectives.

The largest losses have one line each: code, loss, possible saving and basis. On a narrow screen the
basis is dropped first, then the share, then the end of the sentence: the details repeat them. In
tables of ops and collectives, a column without any known value is dropped and named above.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import polars as pl

from counterpoint.core import Basis, Range, Unknown
from counterpoint.core.printable import counted_noun
from counterpoint.diagnose import (
    GROUPINGS,
    MIN_REPORTED_SHARE,
    PHASES,
    Explanation,
    Finding,
    Grouping,
    Remedy,
)
from counterpoint.report import units
from counterpoint.report.document import (
    CellColumn,
    ColumnKind,
    Fact,
    NumberedItem,
    Prose,
    Section,
    TextTable,
    Tone,
    names,
    numbers,
    places,
    table,
    words,
)
from counterpoint.report.places import distinct, distinct_paths, short_path

LARGEST: Final = 3

COMMUNICATION: Final = "STEP1"

"""The prefix of the codes of rules about communication."""

_EVIDENCE: Final = 3


def largest_losses(explanation: Explanation, where: str, whole: str) -> Section:
    """Return the first losses of `whole`, one line each; `where` says where they are detailed."""
    losses = _losses(explanation)
    title = "Largest losses"
    if not losses:
        return Section(title, _none(whole))
    shown = losses[:LARGEST]
    summary = [f"{len(shown)} of {len(losses)}"] if len(losses) > LARGEST else []
    summary += ["they overlap, so they do not add up"] if len(losses) > 1 else []
    return Section(
        title, "; ".join([*summary, where] if where else summary), (_table(explanation, shown),)
    )


def largest_loss(explanation: Explanation, whole: str) -> str:
    """Return the first loss of `whole` in one line: its code, title and possible saving."""
    if explanation.breakdown is None:
        return f"{units.UNKNOWN} (no whole step)"
    losses = _losses(explanation)
    if not losses:
        return _none(whole)
    first = losses[0]
    price = _price(first, explanation.steps.window_ms, basis="")
    return f"{first.code} {first.title}: {price}"


def _none(whole: str) -> str:
    return f"none above {units.percent(MIN_REPORTED_SHARE, 0)} of {whole}"


def findings_sections(explanation: Explanation) -> list[Section]:
    """Return every finding with evidence and remedy: losses first, then those without one."""
    losses = _losses(explanation)
    others = [finding for finding in explanation.findings if isinstance(finding.saves_ms, Unknown)]
    sections: list[Section] = []
    if losses:
        sections.append(Section("Losses in detail", "", _entries(explanation, losses, 1)))
    if others:
        what = "prediction" if explanation.basis == Basis.PREDICTED else "profile"
        entries = _entries(explanation, others, len(losses) + 1)
        sections.append(Section(f"About this {what}", "no saving in milliseconds", entries))
    return sections


def _price(finding: Finding, window_ms: float | None, basis: str) -> str:
    """Return `saves 0 to 2.02 ms (1.5%), predicted`, without the basis if it is the profile's."""
    saves = finding.saves_ms
    if isinstance(saves, Unknown):
        return saves.reason
    text = f"saves {units.span(saves.low, saves.high)}"
    if window_ms:
        text += f" ({units.percent(saves.high / window_ms)})"
    return text if finding.basis == basis else f"{text}, {finding.basis}"


def _losses(explanation: Explanation) -> list[Finding]:
    return [finding for finding in explanation.findings if isinstance(finding.saves_ms, Range)]


def _table(explanation: Explanation, found: Sequence[Finding]) -> TextTable:
    """Return the losses, one line each."""
    window_ms = explanation.steps.window_ms
    saves = [finding.saves_ms for finding in found if isinstance(finding.saves_ms, Range)]
    shares = [saved.high / window_ms if window_ms else None for saved in saves]
    return table(
        numbers("", [str(at) for at in range(1, len(found) + 1)]),
        words("code", [finding.code for finding in found]),
        CellColumn(ColumnKind.SENTENCE, "loss", _sentences(found)),
        words("could save", [units.span(saved.low, saved.high) for saved in saves]),
        numbers("share", [units.percent(share) for share in shares], rank=1),
        words("basis", [str(finding.basis) for finding in found], rank=2),
    )


def _sentences(found: Sequence[Finding]) -> list[str]:
    """Return the titles; those that occur more than once are followed by their evidence."""
    titles = [finding.title for finding in found]
    return [
        f"{finding.title}: {finding.evidence[0].what}"
        if titles.count(finding.title) > 1 and finding.evidence
        else finding.title
        for finding in found
    ]


def _entries(
    explanation: Explanation, found: list[Finding], first: int
) -> tuple[NumberedItem, ...]:
    window_ms, basis = explanation.steps.window_ms, explanation.basis
    return tuple(_finding(at, finding, window_ms, basis) for at, finding in enumerate(found, first))


def _finding(number: int, finding: Finding, window_ms: float | None, basis: str) -> NumberedItem:
    shown = [
        evidence.what + (f" {units.milliseconds(evidence.ms)}" if evidence.ms is not None else "")
        for evidence in finding.evidence[:_EVIDENCE]
    ]
    return NumberedItem(
        number=number,
        title=f"{finding.code} {finding.title}",
        price=_price(finding, window_ms, basis),
        text=finding.detail,
        rows=(
            *([Fact("evidence", ", ".join(shown), Tone.QUIET)] if shown else []),
            *([Fact("doubt", finding.doubt, Tone.QUIET)] if finding.doubt else []),
            Fact("remedy", finding.remedy.text),
            *_settings(finding.remedy),
        ),
    )


def _settings(remedy: Remedy) -> list[Fact]:
    """Return settings in the form in which they are pasted into a shell."""
    lines: list[str] = []
    if remedy.flags:
        flags = " ".join(f"--{name}={value}" for name, value in remedy.flags)
        lines.append(f'export XLA_FLAGS="$XLA_FLAGS {flags}"')
    lines += [f"export {name}={shlex.quote(value)}" for name, value in remedy.environment]
    return [Fact("settings" if not at else "", line) for at, line in enumerate(lines)]


Row = dict[str, Any]

_LONGEST_NAME: Final = 72


def known_columns(columns: Sequence[CellColumn]) -> list[CellColumn]:
    """Return the columns with any known value."""
    return [column for column in columns if any(cell != units.UNKNOWN for cell in column.cells)]


def ops_section(explanation: Explanation, top: int, by: Grouping | None = None) -> Section:
    """Return the ops with the most self time, grouped by a familiar unit if there are many."""
    ops = explanation.ops
    if not len(ops):
        return Section("Top ops", "none ran in a step")
    by = by or explanation.finest_grouping(top)
    grouped = ops if by == "op" else explanation.ops_by(by)
    rows, rest = grouped.head(top).to_dicts(), grouped[top:]
    columns = _of_ops(rows) if by == "op" else _of_groups(rows, by)
    columns[0] = replace(columns[0], total=f"all {len(grouped):,}")
    at = 1 if by == "category" else 2
    columns[at:at] = [
        numbers("self ms", _ms(rows), total=units.column([float(grouped["self_ms"].sum())])[0]),
        numbers("share", [units.percent(row["share"]) for row in rows]),
    ]
    if len(rest):
        others_cells = {
            columns[0].title: counted_noun(len(rest), "other"),
            "self ms": _ms([*rows, {"self_ms": float(rest["self_ms"].sum())}])[-1],
            "share": units.percent(float(rest["share"].sum())),
        }
        columns = [replace(column, others=others_cells.get(column.title, "")) for column in columns]
    whole = float(ops["self_ms"].sum())
    share = sum(row["self_ms"] for row in rows) / whole if whole else None
    summary = f"{len(rows)} of {len(grouped):,}, {units.percent(share, 0)} of the time in ops"
    others = ", ".join(grouping for grouping in GROUPINGS if grouping != by)
    title = "Top ops" if by == "op" else f"Top ops by {by}"
    before = [Prose(_by_category(ops), Tone.QUIET)] if by != "category" else []
    return _section(title, f"{summary}; `by={others}`", columns, *before)


def _ms(rows: list[Row]) -> list[str]:
    return units.column(row["self_ms"] for row in rows)


def _of_ops(rows: list[Row]) -> list[CellColumn]:
    return [
        names("op", _short(rows)),
        words("category", _texts(rows, "category")),
        words("phase", _texts(rows, "phase"), rank=1),
        numbers("count", [units.count(row["count"]) for row in rows], rank=2),
        places("source", _places(rows, "source")),
        places("scope", _places(rows, "scope"), rank=3),
    ]


def _of_groups(rows: list[Row], by: Grouping) -> list[CellColumn]:
    groups = [f"no {by}" if row["name"] is None else row["name"] for row in rows]
    first = [words(by, groups)]
    if by != "category":
        category = words("category", _texts(rows, "category"), rank=1)
        first = [places(by, distinct_paths(groups)), category]
    return [
        *first,
        numbers("ops", [f"{row['ops']:,}" for row in rows], rank=2),
        numbers("count", [units.count(row["count"]) for row in rows], rank=3),
        words("phases", [_phases(row) for row in rows], rank=4),
        names("longest op", _short(rows, "longest"), rank=5),
    ]


def _phases(row: Row) -> str:
    """Return the shares of the phases that take more than a hundredth of the time."""
    whole = row["self_ms"]
    shares = {phase: row[f"{phase}_ms"] / whole if whole else 0.0 for phase in PHASES}
    shown = [
        f"{phase} {units.percent(share, 0)}" for phase, share in shares.items() if share >= 0.01
    ]
    return ", ".join(shown) if shown != ["other 100%"] else units.UNKNOWN


def _by_category(ops: pl.DataFrame) -> str:
    """Return the shares of the categories that take more than a hundredth of the time in ops."""
    total = float(ops["self_ms"].sum())
    summed = ops.group_by("category").agg(pl.col("self_ms").sum())
    shares = [
        f"{category} {units.percent(ms / total, 0)}"
        for category, ms in summed.sort("self_ms", "category", descending=[True, False]).rows()
        if total and ms / total >= 0.01
    ]
    return "   ".join(shares)


def collectives_section(collectives: pl.DataFrame, top: int) -> Section:
    """Return the collectives with the most exposed time."""
    if not len(collectives):
        return Section("Collectives", "none ran in a step")
    rows = collectives.head(top).to_dicts()

    def ms(name: str) -> list[str]:
        return units.column(row[name] for row in rows)

    def total(name: str) -> str:
        known = collectives[name].drop_nulls()
        return units.column([float(known.sum())])[0] if len(known) else units.UNKNOWN

    def rounded(name: str) -> list[str]:
        return units.column((row[name] for row in rows), 1)

    per_step = total("exposed_ms")
    columns = [
        names("op", _short(rows), total=f"all {len(collectives):,}"),
        words("kind", _texts(rows, "kind"), rank=5),
        numbers("size", [units.size(row["bytes"]) for row in rows]),
        numbers("ranks", [units.count(r["group_size"]) for r in rows], rank=3),
        numbers("count", [units.count(row["count"]) for row in rows], rank=3),
        numbers("time", ms("total_ms"), total=total("total_ms")),
        numbers("wait", ms("wait_ms"), rank=1, total=total("wait_ms")),
        numbers("exposed", ms("exposed_ms"), total=per_step),
        numbers("hidden", [units.percent(row["hidden_share"], 0) for row in rows]),
        numbers("alg GB/s", rounded("algbw_gbps"), rank=6),
        numbers("bus GB/s", rounded("busbw_gbps"), rank=1),
        places("source", _places(rows, "source"), rank=7),
    ]
    summary = f"{len(rows)} of {len(collectives):,}, most exposed first; times in ms per step"
    return _section("Collectives", summary, columns)


def _section(title: str, summary: str, columns: list[CellColumn], *before: Prose) -> Section:
    known = known_columns(columns)
    unknown = [column.title for column in columns if column not in known]
    if unknown:
        summary += f"; unknown: {', '.join(unknown)}"
    return Section(title, summary, (*before, table(*known)))


def _short(rows: list[Row], name: str = "op") -> list[str]:
    """Return the names, shortened: those of C++ kernels would push every other column off."""
    return distinct(_texts(rows, name), _LONGEST_NAME)


def _texts(rows: list[Row], name: str) -> list[str]:
    return [str(row[name]) if row[name] is not None else units.UNKNOWN for row in rows]


def _places(rows: list[Row], name: str) -> list[str]:
    return [short_path(str(row[name])) if row[name] is not None else units.UNKNOWN for row in rows]
