"""The report of `flags thresholds`: what XLA combines at which threshold, and flags to try."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Final, Literal

from counterpoint.core.field import Field, Form
from counterpoint.flags.combiner import DEFAULT
from counterpoint.flags.thresholds import (
    KindThresholds,
    LayerRule,
    Site,
    ThresholdResult,
    Thresholds,
    flag_of,
)
from counterpoint.report import units
from counterpoint.report.columns import field_columns
from counterpoint.report.document import (
    Document,
    Fact,
    FactList,
    Log,
    Prose,
    Section,
    TextTable,
    Tone,
    table,
    words,
)
from counterpoint.report.json import At, Result, fill, json_text

__all__ = ["rule_document", "rule_json", "thresholds_document", "thresholds_json"]

_COUNTED: Final = {
    "all-gather": "the whole result",
    "all-reduce": "the whole result",
    "reduce-scatter": "the part of one device",
}
_HELD: Final = f"the default, {DEFAULT}, already covers a layer"
_LEGEND: Final = (
    "Predicted with XLA's own algorithm, for the program as compiled. Measure whether a threshold"
    " is faster: fewer, larger collectives use the links better and overlap worse."
)


def _program_flags(thresholds: Thresholds) -> tuple[str, ...]:
    """Return the flags that a loop's collectives need, in the form of XLA_FLAGS."""
    chosen = ((kind.flag, kind.choice) for kind in thresholds.kinds if kind.kind != "all-reduce")
    return tuple(f"--{flag}={value}" for flag, value in chosen if value is not None)


def _rule_flags(rule: LayerRule) -> tuple[str, ...]:
    """Return the flags that the layer rule gives."""
    chosen = (("all-gather", rule.gather_threshold), ("reduce-scatter", rule.scatter_threshold))
    return tuple(f"--{flag_of(kind)}={value}" for kind, value in chosen if value is not None)


def _rule_candidates(rule: LayerRule) -> tuple[str, ...]:
    """Return the all-reduce thresholds of the layer rule, to try one at a time."""
    return tuple(f"--{flag_of('all-reduce')}={threshold}" for threshold in rule.candidates)


def _marked(flag: str) -> str:
    """Return a candidate as a shell line; one below the default, which combines less, is marked."""
    below = int(flag.rpartition("=")[2]) < DEFAULT
    return f"{flag}  # below the default, {DEFAULT}: combines less" if below else flag


def _program_candidates(thresholds: Thresholds) -> tuple[str, ...]:
    """Return the all-reduce thresholds to try, one at a time."""
    return tuple(
        f"--{kind.flag}={step.threshold}"
        for kind in thresholds.kinds
        if kind.kind == "all-reduce"
        for step in kind.candidates
        if step.collectives != kind.default.collectives
    )


def thresholds_document(thresholds: Thresholds, where: str, top: int) -> Document:
    """Return the report on a program."""
    sections = [_head(thresholds, where)]
    sections += [_kind(kind, top) for kind in thresholds.kinds]
    sections.append(
        _flags(
            _program_flags(thresholds), _program_candidates(thresholds), _why_no_flags(thresholds)
        )
    )
    command = f"counterpoint flags recommend --for fsdp --program {shlex.quote(where)}"
    return Document(sections=tuple(sections), legend=_LEGEND, next=command)


def rule_document(rule: LayerRule) -> Document:
    """Return the report on a model of which only the size is known."""
    rows = [
        Fact("a layer", f"{rule.params:,} weights in {rule.dtype}: {_bytes(rule.layer_bytes)}"),
        Fact("all-gather", _gather_words(rule)),
        Fact("reduce-scatter", _scatter_words(rule)),
    ]
    if rule.gradient_bytes is not None:
        rows.append(Fact("all gradients", f"{rule.layers} layers: {_bytes(rule.gradient_bytes)}"))
    tries = _rule_candidates(rule)
    return Document(
        sections=(
            Section("Layer rule", "rule of thumb", (FactList(tuple(rows)),)),
            _flags(_rule_flags(rule), tries, f"{_HELD.capitalize()}; no flag is needed."),
        ),
        legend="Rule of thumb, without a program. Collectives of different loop iterations are"
        " never combined, so in a scan nothing changes beyond the bytes of one layer.",
        next="counterpoint flags thresholds --program DUMP",
    )


def _gather_words(rule: LayerRule) -> str:
    text = f"at least {_bytes(rule.layer_bytes)}: a layer's weights in one all-gather"
    return text if rule.gather_threshold is not None else f"{text}; {_HELD}"


def _scatter_words(rule: LayerRule) -> str:
    text = f"at least {_bytes(rule.layer_bytes)}: a layer's gradients in one reduce-scatter"
    if rule.shard_bytes is None:
        text = f"{text}; less suffices, since XLA counts the part that one device keeps"
    else:
        text = f"at least {_bytes(rule.shard_bytes)}: one device's part of a layer's gradients"
    return text if rule.scatter_threshold is not None else f"{text}; {_HELD}"


def _head(thresholds: Thresholds, where: str) -> Section:
    rows = [Fact("source", where)]
    if not thresholds.kinds:
        text = "no all-gather, all-reduce or reduce-scatter; thresholds have no effect"
        rows.append(Fact("collectives", text, Tone.WARNING))
    if thresholds.unrolled:
        text = "A loop was unrolled after collectives were combined; its copies are counted once."
        rows.append(Fact("note", text))
    if not thresholds.scheduled:
        text = (
            "Not scheduled: the module is from before the end of compilation, so sizes may differ."
        )
        rows.append(Fact("note", text, Tone.WARNING))
    return Section("Program", thresholds.program, (FactList(tuple(rows)),))


def _kind(kind: KindThresholds, top: int) -> Section:
    blocks = [
        FactList(
            (
                Fact("sizes", _sizes(kind.sites, top)),
                Fact("now", f"{kind.observed:,} in the program"),
                Fact(
                    "default", f"{kind.default.collectives:,} at {_bytes(kind.default.threshold)}"
                ),
            )
        ),
        _table(_shown(kind, top)),
        Prose(_words(kind)),
    ]
    return Section(kind.kind, f"size: {_COUNTED[kind.kind]}", tuple(blocks))


def _sizes(sites: Sequence[Site], top: int) -> str:
    """Describe how many collectives have which size, by computation."""
    described: list[str] = []
    for site in sites[:top]:
        sizes = Counter(site.sizes).most_common()
        each = ", ".join(f"{count:,} x {units.size(size)}" for size, count in sizes[:4])
        more = f", {len(sizes) - 4} more sizes" if len(sizes) > 4 else ""
        times = "in a loop" if site.times is None else f"{site.times:,} times"
        times = "once" if site.times == 1 else times
        described.append(f"{site.computation} ({times}): {each}{more}")
    return "; ".join(described) + (f"; {len(sites) - top} more" if len(sites) > top else "")


def _shown(kind: KindThresholds, top: int) -> Sequence[ThresholdResult]:
    """Return all break points if they are few; else powers of two, or the first and the last."""
    changes = [
        step
        for before, step in zip([None, *kind.steps], kind.steps, strict=False)
        if before is None or before.collectives != step.collectives
    ]
    if len(changes) <= top:
        return changes
    return kind.candidates or [changes[0], *changes[len(changes) - top + 1 :]]


def _table(steps: Sequence[ThresholdResult]) -> TextTable:
    return table(
        *field_columns(Threshold, steps, ["threshold_bytes"]),
        words("", [units.size(step.threshold) for step in steps]),
        *field_columns(Threshold, steps, ["collectives", "launches", "largest_bytes"]),
    )


def _words(kind: KindThresholds) -> str:
    last = kind.steps[-1]
    beyond = "the rest depend on each other, differ in participants, or are in other computations"
    sentences = [f"Beyond {_bytes(last.threshold)} nothing changes: {beyond}."]
    if any(site.in_loop for site in kind.sites):
        sentences.append("Nothing is combined across loop iterations.")
    if not all(step.exact for step in kind.steps):
        sentences.append("There are too many break points to compute; some are omitted.")
    if any(site.pipelined for site in kind.sites):
        sentences.append(
            "While no threshold is set, pipelined collectives are combined as far as memory"
            " allows; a threshold applies to them, too."
        )
    return " ".join(sentences)


def _flags(flags: Sequence[str], candidates: Sequence[str], why_none: str) -> Section:
    shown = [Log(tuple(flags))] if flags else [Prose(why_none, Tone.QUIET)]
    if candidates:
        tries = tuple(_marked(flag) for flag in candidates)
        shown += [Prose("All-reduce: try these one at a time."), Log(tries)]
    return Section("Flags", "candidates; confirm by measuring", tuple(shown))


def _why_no_flags(thresholds: Thresholds) -> str:
    if any(
        site.in_loop and len(site.sizes) > 1 for kind in thresholds.kinds for site in kind.sites
    ):
        return "In loops the default combines everything that can be combined; no flag is needed."
    if not thresholds.kinds:
        return "None: there is nothing to combine."
    return "No loop has collectives to combine; see the tables for the effect of each threshold."


def _bytes(count: int) -> str:
    return f"{count:,} bytes ({units.size(count)})"


class Threshold(Result):
    """The collectives that are left when XLA combines up to a threshold."""

    threshold_bytes: Annotated[
        int, At("threshold"), Field("the threshold", "from bytes", Form.COUNT)
    ]
    collectives: Annotated[int, Field("collectives that are left", "collectives", Form.COUNT)]
    launches: Annotated[
        int | None,
        Field(
            "how often they run in a step; null: unknown", "launches per step", Form.COUNT, rank=1
        ),
    ]
    largest_bytes: Annotated[
        int, At("largest"), Field("the size of the largest", "largest", Form.BYTES)
    ]
    exact: Annotated[
        bool,
        Field("whether no smaller threshold gives the same; false: unknown, only some were tried"),
    ]


class CombinerSite(Result):
    """A computation with collectives to combine."""

    computation: Annotated[str, Field("its name")]
    times: Annotated[int | None, Field("how often it runs; null: unknown")]
    in_loop: Annotated[bool, Field("whether a loop runs it: nothing is combined across iterations")]
    pipelined: Annotated[bool, Field("whether any of them starts an iteration early")]
    bytes: Annotated[tuple[int, ...], At("sizes"), Field("the size of each collective")]


class CombinedKind(Result):
    """The collectives of one kind, by threshold."""

    kind: Annotated[str, Field("`all-gather`, `all-reduce` or `reduce-scatter`")]
    flag: Annotated[str, Field("the flag that sets its threshold")]
    counted: Annotated[str, Field("what of a collective counts as its size")]
    observed: Annotated[int, Field("collectives in the program as it is")]
    total_bytes: Annotated[int, At("total"), Field("the size of all that run in a step")]
    default: Annotated[Threshold, Field("the result of the flag's default")]
    loop_threshold_bytes: Annotated[
        int | None,
        At("layer"),
        Field(
            "the smallest threshold that combines all that can be combined in loops; null: "
            "nothing can"
        ),
    ]
    choice_bytes: Annotated[
        int | None,
        At("choice"),
        Field("the threshold worth setting; null: it would change nothing"),
    ]
    sites: Annotated[tuple[CombinerSite, ...], Field("where they are")]
    steps: Annotated[
        tuple[Threshold, ...],
        Field("the thresholds at which the result changes, the smallest first"),
    ]
    candidates: Annotated[
        tuple[Threshold, ...],
        Field("powers of two worth a try; empty: all give what the default gives"),
    ]


class LayerSizes(Result):
    """Sizes by the rule of thumb of one layer at a time."""

    params_per_layer: Annotated[int, At("params"), Field("weights of a layer")]
    dtype: Annotated[str, Field("their type")]
    layers: Annotated[int | None, Field("the number of layers; null: not given")]
    layer_bytes: Annotated[int, Field("the size of a layer")]
    reduce_scatter_shard_bytes: Annotated[
        int | None,
        At("shard_bytes"),
        Field(
            "what one device keeps of a layer's gradients; null: the number of devices is not given"
        ),
    ]
    gradient_bytes: Annotated[
        int | None, Field("the size of all gradients; null: the number of layers is not given")
    ]


class FlagsThresholds(Result, tag_field="schema", tag="counterpoint.flags.thresholds/1"):
    """Thresholds worth a try: `counterpoint flags thresholds --json`."""

    basis: Annotated[
        Literal["predicted", "rule of thumb"],
        Field("`predicted` for a program, `rule of thumb` for a model's size"),
    ]
    program: Annotated[str | None, Field("where the program is from; null: none was given")]
    module: Annotated[str | None, Field("its module; null: none was given")]
    unrolled: Annotated[
        bool | None,
        Field(
            "true if a loop was unrolled after collectives were combined: its copies are counted "
            "once; null: no program was given"
        ),
    ]
    kinds: Annotated[
        tuple[CombinedKind, ...], Field("the kinds of collectives that the program has")
    ]
    rule: Annotated[LayerSizes | None, Field("the rule of thumb; null: of a program")]
    flags: Annotated[tuple[str, ...], Field("flags worth setting, in the form of XLA_FLAGS")]
    all_reduce_candidates: Annotated[tuple[str, ...], Field("flags to try one at a time")]


def thresholds_json(thresholds: Thresholds, where: str) -> str:
    """Return `flags thresholds` for a program as text."""
    return json_text(
        fill(
            FlagsThresholds,
            thresholds,
            basis="predicted",
            program=where,
            module=thresholds.program,
            kinds=[
                fill(CombinedKind, kind, counted=_COUNTED[kind.kind]) for kind in thresholds.kinds
            ],
            rule=None,
            flags=_program_flags(thresholds),
            all_reduce_candidates=_program_candidates(thresholds),
        )
    )


def rule_json(rule: LayerRule) -> str:
    """Return `flags thresholds` for the layer rule as text."""
    own = {"flags": _rule_flags(rule), "all_reduce_candidates": _rule_candidates(rule)}
    return json_text(fill(FlagsThresholds, None, basis="rule of thumb", rule=rule, **own))
