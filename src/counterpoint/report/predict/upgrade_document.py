"""The report of `upgrade`: both steps, what changed and by how much, flags, and what undoes it."""

from __future__ import annotations

import re
import shlex
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from counterpoint.core import CounterpointError, Unknown
from counterpoint.core.notebook import as_typed
from counterpoint.core.printable import counted_noun, some
from counterpoint.diagnose.compare.comparison import PartChange
from counterpoint.diagnose.compare.op_changes import OpChange
from counterpoint.flags.history import ReleaseDiff
from counterpoint.report import units
from counterpoint.report.columns import field_columns
from counterpoint.report.document import (
    Block,
    Document,
    Fact,
    FactList,
    Prose,
    Section,
    Tone,
    labels,
    names,
    numbers,
    places,
    table,
    words,
)
from counterpoint.report.explain.compare_json import ChangeJson
from counterpoint.report.explain.compare_tables import with_total
from counterpoint.report.places import short_path
from counterpoint.report.predict.predict_document import programs_text
from counterpoint.workflow.prediction import INDIFFERENCE
from counterpoint.workflow.upgrade import (
    LEAST_EFFECT,
    LEAST_MOVE,
    ChangeKind,
    FlagTry,
    ReleaseMove,
    StepChangeOfKind,
    Upgrade,
    UpgradeSide,
)

_MS: Final = 1e3
_PACKAGES: Final = 8
_FLAGS: Final = 12
_NUMBER: Final = re.compile(r"([._]\d+){1,16}$")
_OF_GPUS: Final = "xla_gpu_"
_LEGEND: Final = (
    "predicted, not measured: each release's own compiler, one cost model. A is before, B after;"
    " times are ms of a step, and of an op the time in which the step waits for it: 0 if it is"
    " hidden. Only the time of the compiles is measured, on this machine"
)


def upgrade_document(upgrade: Upgrade, top: int = 10, next_command: str = "") -> Document:
    """Return the report, with `top` rows in each table."""
    sections = [_head(upgrade), _step(upgrade), _changes(upgrade, top)]
    if upgrade.changes:
        sections.append(_ops(upgrade, top))
    if upgrade.is_of_releases:
        sections.append(_flags(upgrade))
    if upgrade.tries:
        sections.append(_tries(upgrade, top))
    if upgrade.steps:
        sections.append(_between(upgrade))
    return Document(sections=tuple(sections), legend=_LEGEND, next=next_command)


def _head(upgrade: Upgrade) -> Section:
    rows = [
        Fact("workload", f"{_programs(upgrade.before)}, {upgrade.origin}"),
        Fact("target", str(upgrade.target)),
        Fact("A", _release(upgrade.before)),
        Fact("B", _release(upgrade.after)),
    ]
    now = _programs(upgrade.after)
    if now != _programs(upgrade.before):
        rows.append(Fact("differ", f"with {upgrade.after.name}, a step runs {now}", Tone.WARNING))
    others = upgrade.other_packages
    if others:
        shown = [
            f"{name} {one or 'none'} and {other or 'none'}" for name, (one, other) in others.items()
        ]
        rows.append(Fact("also differ", some(shown, _PACKAGES), Tone.WARNING))
    rows += [Fact("note", note, Tone.QUIET) for note in upgrade.notes]
    return Section(
        "Upgrade", f"{upgrade.before.name} to {upgrade.after.name}", (FactList(tuple(rows)),)
    )


def _programs(side: UpgradeSide) -> str:
    return programs_text(side.forecast, side.subject.name)


def _release(side: UpgradeSide) -> str:
    has = side.installation
    libtpu = has.packages.get("libtpu")
    compilers = f"jaxlib {has.jaxlib}" if libtpu is None else f"libtpu {libtpu}"
    text = f"jax {has.jax}, {compilers}, Python {has.python}"
    return text if side.name == f"jax {has.jax}" else f"{side.name}: {text}"


def _step(upgrade: Upgrade) -> Section:
    sides = (upgrade.before, upgrade.after)
    steps = [side.forecast.step_s * _MS for side in sides]
    exposed = [side.forecast.simulation.exposed_s * _MS for side in sides]
    communication = [side.forecast.simulation.communicating_s * _MS for side in sides]
    rows = [("step, ms", steps), ("communication, ms", communication), ("exposed, ms", exposed)]
    what = [name for name, _ in rows]
    cells = [units.column(pair) for _, pair in rows]
    moves = [units.differences([pair[1] - pair[0]])[0] for _, pair in rows]
    ranges = [side.forecast.range_s for side in sides]
    what.insert(1, "range, ms")
    cells.insert(1, [units.span(it.low * _MS, it.high * _MS) for it in ranges])
    moves.insert(1, "")
    what += ["memory", "compile, s"]
    cells.append([units.size(side.held_bytes) for side in sides])
    cells.append(units.column([side.compile_s for side in sides]))
    moves += [_share(*(side.held_bytes for side in sides)), ""]
    blocks: list[Block] = [
        table(
            words("", what),
            numbers("A", [pair[0] for pair in cells]),
            numbers("B", [pair[1] for pair in cells]),
            numbers("B-A", moves),
        )
    ]
    for side in sides:
        memory = side.forecast.memory
        if memory.fits is False:
            text = (
                f"{side.name}: {units.size(memory.peak_bytes)} do not fit; {memory.room}"
                f" {units.size(memory.available_bytes)}"
            )
            blocks.append(Prose(text, Tone.WARNING))
    return Section("Predicted step", _verdict(upgrade), tuple(blocks))


def _share(before: int | None, after: int | None) -> str:
    return "" if not before or after is None else f"{after / before - 1:+.1%}"


def _verdict(upgrade: Upgrade) -> str:
    if upgrade.is_same_program:
        return "both compile to the same program"
    if upgrade.has_same_ops and upgrade.other_opcodes:
        return "both take the same time, with different operations"
    if upgrade.has_same_ops:
        return "both run the same operations in the same time; only memory differs"
    reach = upgrade.reach
    span = f"{upgrade.change:+.1%}, range {reach.low:+.1%} to {reach.high:+.1%}"
    if upgrade.matters:
        return f"{upgrade.after.name} is {'slower' if upgrade.change > 0 else 'faster'}: {span}"
    return (
        f"too close to call, since a prediction can't resolve less than {INDIFFERENCE:.1%}: {span}"
    )


def _opcodes(counts: Sequence[tuple[str, int]]) -> str:
    return ", ".join(f"{abs(it)} {'more' if it > 0 else 'fewer'} {name}" for name, it in counts)


def _changes(upgrade: Upgrade, top: int) -> Section:
    if not upgrade.changes:
        what = "nothing but names"
        if not upgrade.has_same_ops:
            what = "only the time between ops"
        elif upgrade.other_opcodes:
            what = f"operations in the same time: {_opcodes(upgrade.other_opcodes)}"
        elif not upgrade.is_same_program:
            what = "memory only"
        return Section("What changed", what)
    kinds = upgrade.changes[:top]
    rest = upgrade.changes[top:]
    tail = [
        *([_sum(f"{len(rest)} others", rest)] if rest else []),
        upgrade.work.idle,
        upgrade.work.step,
    ]
    blank = [""] * len(tail)
    made = table(
        words("change", [*(str(it.kind) for it in kinds), *(it.what for it in tail)]),
        numbers("ops A", [*(f"{it.a_ops:,}" for it in kinds), *blank]),
        numbers("ops B", [*(f"{it.b_ops:,}" for it in kinds), *blank]),
        *field_columns(ChangeJson, [*kinds, *tail]),
    )
    count = sum(len(it.rows) for it in upgrade.changes)
    same = len(upgrade.work.ops) - count
    summary = f"{counted_noun(count, 'difference')}; {counted_noun(same, 'op')} as before"
    return Section("What changed", summary, (with_total(made),))


def _sum(what: str, changes: Iterable[StepChangeOfKind | OpChange]) -> PartChange:
    """Return the changes as one."""
    rows = [*changes]
    return PartChange(what, sum(it.a_ms for it in rows), sum(it.b_ms for it in rows))


def _ops(upgrade: Upgrade, top: int) -> Section:
    """Return the largest differences; those that are alike, as in each layer, share a row."""
    alike: defaultdict[tuple[str, ...], list[OpChange]] = defaultdict(list)
    for change in upgrade.changes:
        for row in change.rows:
            alike[_likeness(change.kind, row)].append(row)
    groups = sorted(alike.items(), key=lambda it: -abs(sum(row.difference_ms for row in it[1])))
    shown = groups[:top]
    firsts = [rows[0] for _, rows in shown]
    made = table(
        names("A > B", [f"{key[1]} > {key[2]}" for key, _ in shown]),
        numbers("times", [f"{len(rows):,}" for _, rows in shown]),
        words("change", [key[0] for key, _ in shown], 1),
        *field_columns(ChangeJson, [_sum("", rows) for _, rows in shown]),
        words("phase", [row.shown.phase or "" for row in firsts], 3),
        places("source", [_place(row.shown.source, row.shown.scope) for row in firsts], 1),
    )
    more = units.shown_of(len(shown), len(groups)) if len(groups) > len(shown) else ""
    return Section("Largest differences", more, (made,))


def _likeness(kind: ChangeKind, row: OpChange) -> tuple[str, ...]:
    shown = row.shown
    return (
        str(kind),
        _some([it.op for it in row.match.a]),
        _some([it.op for it in row.match.b]),
        shown.phase or "",
        shown.source or "",
    )


def _some(ops: Sequence[str]) -> str:
    """Return the kind of these ops, their name without its number, and how many there are."""
    stems = Counter(_NUMBER.sub("", op) for op in ops)
    if not stems:
        return "none"
    first, count = stems.most_common(1)[0]
    if len(stems) == 1:
        return first if count == 1 else f"{count} {first}"
    return f"{len(ops)} ops ({first}, ...)"


def _place(source: str | None, scope: str | None) -> str:
    return short_path(source) if source else scope or ""


def _flags(upgrade: Upgrade) -> Section:
    rows = [
        Fact(
            "LEFT OUT", f"{side.name} does not accept {it.name}={it.value}: {it.why}", Tone.WARNING
        )
        for side in (upgrade.before, upgrade.after)
        for it in side.left_out
    ]
    flags = upgrade.flags
    if isinstance(flags, Unknown):
        rows.append(Fact("", flags.reason, Tone.QUIET))
        return Section("Flags", "unknown", (FactList(tuple(rows)),))
    rows += _flag_rows(flags)
    summary = (
        f"{len(flags.added):,} added, {len(flags.removed):,} removed, {len(flags.renamed):,}"
        f" renamed, {len(flags.changed):,} other changes"
    )
    if flags.empty:
        summary = "the same in both"
    return Section("Flags", summary, (FactList(tuple(rows)),) if rows else ())


def _flag_rows(flags: ReleaseDiff) -> Iterator[Fact]:
    changed = [
        it for it in flags.changed if it.what == "default" and it.flag.name.startswith(_OF_GPUS)
    ]
    for it in changed[:_FLAGS]:
        before, after = _list_change(it.before, it.after)
        yield Fact("new default", f"{it.flag.name}: {before} is now {after}")
    gone = [it.flag.name for it in flags.removed if it.flag.name.startswith(_OF_GPUS)]
    if gone:
        yield Fact("removed", some(gone, _FLAGS))
    for it in flags.renamed:
        if it.before.name.startswith(_OF_GPUS):
            yield Fact("renamed", f"{it.before.name} is now {it.after.name}")
    yield Fact("all of them", f"counterpoint flags diff {flags.before} {flags.after}", Tone.QUIET)


def _list_change(before: str, after: str) -> tuple[str, str]:
    """Shorten two long lists to what differs."""
    one, other = before.split(","), after.split(",")
    if len(one) < 3 and len(other) < 3:
        return before or "empty", after or "empty"
    gone = [it for it in one if it not in other and it]
    came = [it for it in other if it not in one and it]
    texts = [f"without {', '.join(gone)}"] if gone else []
    texts += [f"with {some(came, 4)}"] if came else []
    count = len([it for it in one if it])
    known = f"a list of {count}" if count else "an empty list"
    return known, " and ".join(texts) or "in another order"


def _tries(upgrade: Upgrade, top: int) -> Section:
    effective = [it for it in upgrade.tries if it.has_effect]
    same = [it for it in upgrade.tries if it.same_program]
    little = [it for it in upgrade.tries if not (it.has_effect or it.same_program or it.error)]
    failed = [it for it in upgrade.tries if it.error is not None]
    blocks: list[Block] = []
    if effective:
        shown = effective[:top]
        blocks.append(
            table(
                labels(f"with {upgrade.after.name}, and", [it.variant.name for it in shown]),
                numbers("saves ms", units.differences([_saves(it) for it in shown])),
                words("range", [_range(it) for it in shown], 1),
                numbers("undoes", [_undone(it) for it in shown]),
                words("why tried", [it.why for it in shown], 2),
            )
        )
    together = next((it for it in upgrade.tries if len(it.flags) > 1), None)
    if together is not None:
        line = " ".join(f"--{name}={value}" for name, value in together.flags)
        blocks.append(Prose(f"{together.variant.name}: {line}", Tone.QUIET))
    if little:
        made = some([it.variant.name for it in little], _FLAGS)
        band = units.percent(LEAST_EFFECT)
        text = f"a different program with the same step time, within {band}: {made}"
        blocks.append(Prose(text, Tone.QUIET))
    if same:
        made = some([it.variant.name for it in same], _FLAGS)
        blocks.append(Prose(f"without effect on this program: {made}", Tone.QUIET))
    blocks += [
        Prose(f"{it.variant.name}: {it.error.what}", Tone.WARNING) for it in failed if it.error
    ]
    best = effective[0] if effective and effective[0].helps else None
    summary = "none makes the step shorter"
    if best is not None:
        summary = f"the best saves {units.milliseconds(_saves(best))}"
    return Section("Flags that may undo it", summary, tuple(blocks))


def _saves(one: FlagTry) -> float:
    return (one.saves_s or 0.0) * _MS


def _range(one: FlagTry) -> str:
    reach = one.reach_s
    return "" if reach is None else units.span(reach.low * _MS, reach.high * _MS)


def _undone(one: FlagTry) -> str:
    return "" if one.undone is None else units.percent(one.undone, 0)


def _between(upgrade: Upgrade) -> Section:
    steps = upgrade.steps
    moves = {move.after: move for move in upgrade.moves}
    forecasts = [None if it.side is None else it.side.forecast for it in steps]
    rows = [moves.get(it.version) for it in steps]
    made = table(
        words("jax", [it.version for it in steps]),
        numbers("step ms", units.column(it and it.step_s * _MS for it in forecasts)),
        numbers(
            "exposed ms", units.column(it and it.simulation.exposed_s * _MS for it in forecasts)
        ),
        numbers("change", ["" if it is None else f"{it.change:+.1%}" for it in rows]),
        words("by", ["" if it is None else _largest(it.changes) for it in rows], 1),
    )
    blocks: list[Block] = [made]
    blocks += [Prose(_failed(it.version, it.error), Tone.WARNING) for it in steps if it.error]
    least = units.percent(LEAST_MOVE)
    releases = ", ".join(_since(it, [step.version for step in steps]) for it in upgrade.moves)
    summary = (
        f"the step changed in {releases}" if releases else f"none changed it by {least} or more"
    )
    return Section("Releases between", summary, tuple(blocks))


def _since(move: ReleaseMove, order: Sequence[str]) -> str:
    """Return the release that changed the step, or the first and last that may have."""
    first = order[order.index(move.before) + 1]
    return move.after if first == move.after else f"one of {first} to {move.after}"


def _failed(version: str, error: CounterpointError) -> str:
    """Return what failed with a release, and the last line of the reason: the exception."""
    why = (error.why or "").rpartition("\n")[2].strip()
    what = error.what.removeprefix(f"with jax {version}: ")
    return ": ".join(filter(None, (f"jax {version}", what, why)))


def _largest(changes: Sequence[StepChangeOfKind]) -> str:
    return "; ".join(
        f"{it.kind} {units.differences([it.difference_ms])[0]} ms" for it in changes[:2]
    )


def next_command(upgrade: Upgrade, source: str | tuple[str, ...]) -> str:
    """Return the command that says more: of the flag that saves most, else of all flags."""
    if not upgrade.is_of_releases or upgrade.target.tpu is not None:
        words = [source] if isinstance(source, str) else ["--", *as_typed(source)]
        target = str(upgrade.target)
        return shlex.join(["counterpoint", "predict", "--target", target, "--explain", *words])
    useful = next((it for it in upgrade.tries if it.helps and len(it.flags) == 1), None)
    if useful is not None:
        return shlex.join(["counterpoint", "flags", "show", useful.flags[0][0]])
    releases = [side.installation.jaxlib for side in (upgrade.before, upgrade.after)]
    return shlex.join(["counterpoint", "flags", "diff", *releases])
