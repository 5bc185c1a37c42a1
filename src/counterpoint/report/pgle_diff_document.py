"""`pgle diff` as a Document: both sums first, then the largest changes, then what only one has."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from typing import Any, Final

from counterpoint.pgle.difference import Change, Diff
from counterpoint.pgle.profile import SEPARATOR, Cost
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

SCHEMA: Final = "counterpoint.pgle-diff/1"

_US_PER_MS: Final = 1e3


def diff_document(diff: Diff, a: str, b: str, top: int) -> Document:
    """The report, with `top` rows in each table."""
    sections = [_head(diff, a, b)]
    if diff.equal < len(diff.changes):
        sections.append(_changes(diff, top))
    for title, only in (("Only in A", diff.only_a), ("Only in B", diff.only_b)):
        if only:
            sections.append(_only(title, only, top))
    return Document(
        sections=tuple(sections),
        legend="",
        next=printable(shlex.join(["counterpoint", "pgle", "show", b])),
    )


def _head(diff: Diff, a: str, b: str) -> Section:
    before, after = units.column([diff.a_us / _US_PER_MS, diff.b_us / _US_PER_MS])
    ratio = diff.b_us / diff.a_us if diff.a_us else None
    rows = [
        Fact("A", printable(a)),
        Fact("B", printable(b)),
        Fact("in both", f"{len(diff.changes):,}, {diff.equal:,} of them at the same cost"),
        Fact("they cost", f"A {before} ms   B {after} ms   B/A {_ratio(ratio)}"),
        Fact("only in one", f"A {len(diff.only_a):,}   B {len(diff.only_b):,}"),
    ]
    if diff.by_name:
        rows.append(Fact("note", _by_name(diff), Tone.WARNING))
    return Section("Compared", "", (Facts(tuple(rows)),))


def _by_name(diff: Diff) -> str:
    if diff.bare:
        return f"names are bare in {diff.bare[0]}: instructions are compared by name alone"
    return "fingerprints differ: instructions are compared by name, and may be others"


def _changes(diff: Diff, top: int) -> Section:
    changed = [it for it in diff.changes if it.difference_us]
    shown = changed[:top]
    cells = (
        [_name(it.key) for it in shown],
        [f"{it.a_us:,.3f}" for it in shown],
        [f"{it.b_us:,.3f}" for it in shown],
        [f"{it.difference_us:+,.3f}" for it in shown],
        [_ratio(it.ratio) for it in shown],
    )
    columns = (
        Column("instruction", Kind.NAME),
        Column("A us", Kind.NUMBER),
        Column("B us", Kind.NUMBER),
        Column("B - A", Kind.NUMBER),
        Column("B/A", Kind.NUMBER),
    )
    table = Table(columns=columns, rows=tuple(zip(*cells, strict=True)))
    return Section("Largest changes", _of(len(shown), len(changed)), (table,))


def _only(title: str, only: Sequence[Cost], top: int) -> Section:
    shown = only[:top]
    columns = (Column("instruction", Kind.NAME), Column("us", Kind.NUMBER))
    rows = tuple((_name(it.key), f"{it.us:,.3f}") for it in shown)
    return Section(title, _of(len(shown), len(only)), (Table(columns=columns, rows=rows),))


def _name(key: str) -> str:
    """The instruction, and the first digits of its module."""
    fingerprint, separator, name = key.rpartition(SEPARATOR)
    return printable(f"{name} of {fingerprint[:8]}" if separator else key)


def _ratio(ratio: float | None) -> str:
    return units.UNKNOWN if ratio is None else f"{ratio:.3f}"


def diff_json(diff: Diff, a: str, b: str) -> str:
    """The same as data, uncut."""
    data: dict[str, Any] = {
        "schema": SCHEMA,
        "a": a,
        "b": b,
        "by_name": diff.by_name,
        "a_us": diff.a_us,
        "b_us": diff.b_us,
        "equal": diff.equal,
        "changes": [_change(it) for it in diff.changes],
        "only_a": [{"key": it.key, "us": it.us} for it in diff.only_a],
        "only_b": [{"key": it.key, "us": it.us} for it in diff.only_b],
    }
    return json.dumps(data, indent=1, allow_nan=False) + "\n"


def _change(change: Change) -> dict[str, Any]:
    return {
        "key": change.key,
        "a_us": change.a_us,
        "b_us": change.b_us,
        "difference_us": change.difference_us,
        "ratio": change.ratio,
    }


def _of(shown: int, all_: int) -> str:
    return f"{all_:,}" if shown == all_ else f"{shown:,} of {all_:,}"
