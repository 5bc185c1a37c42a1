"""The report of `flags thresholds`: what merges at which threshold, and flags worth trying."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence
from typing import Final

from counterpoint.flags.combining import (
    DEFAULT,
    KindThresholds,
    LayerRule,
    Site,
    ThresholdResult,
    Thresholds,
    flag_of,
)
from counterpoint.report import units
from counterpoint.report.document import (
    Column,
    ColumnKind,
    Document,
    Fact,
    FactList,
    Log,
    Prose,
    Section,
    TextTable,
    Tone,
    printable,
)

COUNTED: Final = {
    "all-gather": "the gathered whole",
    "all-reduce": "the reduced whole",
    "reduce-scatter": "what one device keeps",
}
_HELD: Final = f"the default, {DEFAULT}, already holds a layer"
_LEGEND: Final = (
    "Predicted: computed as XLA's combiner does it, for the program as it was compiled. That a"
    " threshold is faster is for a measurement to say: fewer and larger collectives use the links"
    " better, and overlap worse."
)


def flags_of(found: Thresholds) -> tuple[str, ...]:
    """Return the flags that a loop's collectives need, in the form of XLA_FLAGS."""
    chosen = ((kind.flag, kind.choice) for kind in found.kinds if kind.kind != "all-reduce")
    return tuple(f"--{flag}={value}" for flag, value in chosen if value is not None)


def rule_flags(rule: LayerRule) -> tuple[str, ...]:
    """Return the flags that the layer rule gives."""
    chosen = (("all-gather", rule.gather_threshold), ("reduce-scatter", rule.scatter_threshold))
    return tuple(f"--{flag_of(kind)}={value}" for kind, value in chosen if value is not None)


def rule_candidates(rule: LayerRule) -> tuple[str, ...]:
    """Return the all-reduce thresholds of the layer rule, to try one at a time."""
    return tuple(f"--{flag_of('all-reduce')}={threshold}" for threshold in rule.candidates)


def _marked(flag: str) -> str:
    """Return a candidate as a shell line, marked if below the default, where it merges less."""
    below = int(flag.rpartition("=")[2]) < DEFAULT
    return f"{flag}  # below the default, {DEFAULT}: merges less" if below else flag


def candidates_of(found: Thresholds) -> tuple[str, ...]:
    """Return the all-reduce thresholds to try, one at a time."""
    return tuple(
        f"--{kind.flag}={step.threshold}"
        for kind in found.kinds
        if kind.kind == "all-reduce"
        for step in kind.candidates
        if step.collectives != kind.default.collectives
    )


def thresholds_document(found: Thresholds, where: str, top: int) -> Document:
    """Return the report on a program."""
    sections = [_head(found, where)]
    sections += [_kind(kind, top) for kind in found.kinds]
    sections.append(_flags(flags_of(found), candidates_of(found), _why_no_flags(found)))
    return Document(sections=tuple(sections), legend=_LEGEND, next=_next(where))


def rule_document(rule: LayerRule) -> Document:
    """Return the report on a model of which only the size is known."""
    rows = [
        Fact("a layer", f"{rule.params:,} weights in {rule.dtype}: {_bytes(rule.layer_bytes)}"),
        Fact("all-gather", _gather_words(rule)),
        Fact("reduce-scatter", _scatter_words(rule)),
    ]
    if rule.gradient_bytes is not None:
        rows.append(Fact("all gradients", f"{rule.layers} layers: {_bytes(rule.gradient_bytes)}"))
    tries = rule_candidates(rule)
    return Document(
        sections=(
            Section("Layer rule", "rule of thumb", (FactList(tuple(rows)),)),
            _flags(rule_flags(rule), tries, f"{_HELD.capitalize()}: no flag is needed."),
        ),
        legend="Rule of thumb: no program was looked at. Collectives of different iterations of a"
        " loop never merge, so more than a layer's bytes changes nothing in a scan.",
        next="counterpoint flags thresholds --program DUMP",
    )


def _gather_words(rule: LayerRule) -> str:
    words = f"at least {_bytes(rule.layer_bytes)}: a layer's weights in one go"
    return words if rule.gather_threshold is not None else f"{words}; {_HELD}"


def _scatter_words(rule: LayerRule) -> str:
    words = f"at least {_bytes(rule.layer_bytes)}: a layer's gradients in one go"
    if rule.shard_bytes is None:
        words = f"{words}; XLA counts what one device keeps, so less does, too"
    else:
        words = f"at least {_bytes(rule.shard_bytes)}: what one device keeps of a layer's gradients"
    return words if rule.scatter_threshold is not None else f"{words}; {_HELD}"


def _head(found: Thresholds, where: str) -> Section:
    rows = [Fact("read", printable(where))]
    if not found.kinds:
        text = "it has no all-gather, all-reduce or reduce-scatter: no threshold changes it"
        rows.append(Fact("collectives", text, Tone.WARNING))
    if found.unrolled:
        text = "a loop was unrolled after collectives were merged: its copies are counted once"
        rows.append(Fact("note", text))
    if not found.scheduled:
        text = "not scheduled: read before the compiler was done with it, so sizes may differ"
        rows.append(Fact("note", text, Tone.WARNING))
    return Section("Program", printable(found.program), (FactList(tuple(rows)),))


def _kind(kind: KindThresholds, top: int) -> Section:
    blocks = [
        FactList(
            (
                Fact("sizes", _sizes(kind.sites, top)),
                Fact("today", f"{kind.observed:,} in the program"),
                Fact(
                    "default", f"{kind.default.collectives:,} at {_bytes(kind.default.threshold)}"
                ),
            )
        ),
        _table(_shown(kind, top)),
        Prose(_words(kind)),
    ]
    return Section(kind.kind, f"counted: {COUNTED[kind.kind]}", tuple(blocks))


def _sizes(sites: Sequence[Site], top: int) -> str:
    """Describe how many collectives have which size, by computation."""
    described: list[str] = []
    for site in sites[:top]:
        sizes = Counter(site.sizes).most_common()
        each = ", ".join(f"{count:,} x {units.size(size)}" for size, count in sizes[:4])
        more = f", {len(sizes) - 4} more sizes" if len(sizes) > 4 else ""
        times = "in a loop" if site.times is None else f"{site.times:,} times"
        times = "once" if site.times == 1 else times
        described.append(f"{printable(site.computation)} ({times}): {each}{more}")
    return "; ".join(described) + (f"; {len(sites) - top} more" if len(sites) > top else "")


def _shown(kind: KindThresholds, top: int) -> Sequence[ThresholdResult]:
    """Return all break points if they are few, else powers of two, else the first and the last."""
    changes = [
        step
        for before, step in zip([None, *kind.steps], kind.steps, strict=False)
        if before is None or before.collectives != step.collectives
    ]
    if len(changes) <= top:
        return changes
    return kind.candidates or [changes[0], *changes[len(changes) - top + 1 :]]


def _table(steps: Sequence[ThresholdResult]) -> TextTable:
    columns = (
        Column("from bytes on", ColumnKind.NUMBER),
        Column("", ColumnKind.WORD),
        Column("collectives", ColumnKind.NUMBER),
        Column("a step runs", ColumnKind.NUMBER, 1),
        Column("largest", ColumnKind.NUMBER),
    )
    rows = [
        (
            f"{step.threshold:,}",
            units.size(step.threshold),
            f"{step.collectives:,}",
            units.count(step.launches),
            units.size(step.largest),
        )
        for step in steps
    ]
    return TextTable(columns=columns, rows=tuple(rows))


def _words(kind: KindThresholds) -> str:
    last = kind.steps[-1]
    beyond = "what is left waits for another, differs in who takes part, or is elsewhere"
    sentences = [f"Beyond {_bytes(last.threshold)} nothing changes: {beyond}."]
    if any(site.in_loop for site in kind.sites):
        sentences.append("Nothing merges across the iterations of a loop.")
    if not all(step.exact for step in kind.steps):
        sentences.append("Break points are too many to compute them all: some are left out.")
    if any(site.pipelined for site in kind.sites):
        sentences.append(
            "Pipelined ones merge by themselves as far as memory goes, as long as no threshold is"
            " set; one that is set holds for them, too."
        )
    return " ".join(sentences)


def _flags(flags: Sequence[str], candidates: Sequence[str], why_none: str) -> Section:
    shown = [Log(tuple(flags))] if flags else [Prose(why_none, Tone.QUIET)]
    if candidates:
        tries = tuple(_marked(flag) for flag in candidates)
        shown += [Prose("All-reduce: worth a try, one at a time."), Log(tries)]
    return Section("Flags", "candidates, to be confirmed by a measurement", tuple(shown))


def _why_no_flags(found: Thresholds) -> str:
    if any(site.in_loop and len(site.sizes) > 1 for kind in found.kinds for site in kind.sites):
        return "In loops the default merges all that can merge: no flag is needed."
    return "No loop whose collectives could merge: the tables say what each threshold gives."


def _bytes(count: int) -> str:
    return f"{count:,} bytes ({units.size(count)})"


def _next(where: str) -> str:
    return f"counterpoint flags recommend --for fsdp --program {shlex.quote(where)}"
