"""The report on many hosts: the step, who makes the others wait, and which hosts to drain first."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Final

import numpy as np

from counterpoint.core import Range
from counterpoint.core.columns import column_medians
from counterpoint.core.printable import counted_noun, some
from counterpoint.diagnose.selection import WindowKind
from counterpoint.fleet.collectives import FleetCollective, SlowGroup
from counterpoint.fleet.fleet import Matrix
from counterpoint.fleet.stragglers import Late
from counterpoint.fleet.summary import FleetSummary
from counterpoint.hardware.chip import chip_label
from counterpoint.report import units
from counterpoint.report.columns import field_columns
from counterpoint.report.document import (
    Block,
    BreakdownBar,
    Document,
    Fact,
    FactList,
    Prose,
    Section,
    Slice,
    StepPart,
    TextTable,
    Tone,
    labels,
    numbers,
    table,
    words,
)
from counterpoint.report.explain.fleet_json import (
    BuildJson,
    FleetCollectiveJson,
    FleetHostJson,
    LateJson,
)

_LISTED: Final = 8
_RARE: Final = 1e-3
_LEGEND: Final = (
    "times: ms of a step, mean over devices, measured by each host's own clock; a host that makes"
    " the others wait is the one that itself waits least"
)
_OTHER: Final = "of another run, by chip and program"
_STEPS_TEXT: Final = Prose("own time beyond the median, by step:", Tone.QUIET)
_COLUMNS: Final = 24
_Cells = Callable[[list[float]], list[str]]
_CLOCKS_AGREE_MS: Final = 1.0


def fleet_network(summary: FleetSummary, paths: tuple[str, ...], top: int = 10) -> Document:
    """Return what the extracts of all hosts show of the network: collectives and slow groups."""
    sections = [_head(summary, paths), *_collectives(summary, top), *_left_out(summary, top)]
    return Document(sections=tuple(sections), legend=_LEGEND, next=_next(summary))


def fleet_document(summary: FleetSummary, paths: tuple[str, ...], top: int = 10) -> Document:
    """Return the report, with `top` rows in each table."""
    sections = [
        _head(summary, paths),
        _step(summary),
        _late(summary, top),
        *([_drain(summary, top)] if summary.late else []),
        *_collectives(summary, top),
        _hosts(summary, top),
        *_clocks(summary, top),
        *([_builds(summary, top)] if summary.builds_differ else []),
        *_left_out(summary, top),
    ]
    return Document(sections=tuple(sections), legend=_LEGEND, next=_next(summary))


def _next(summary: FleetSummary) -> str:
    late = summary.late[0].hosts if summary.late else ()
    hosts = [host for host in summary.fleet.hosts if host.machine in late]
    source = (hosts or summary.fleet.hosts)[0].source
    return f"counterpoint explain {shlex.quote(source)}"


def _head(summary: FleetSummary, paths: tuple[str, ...]) -> Section:
    fleet, gathering = summary.fleet, summary.gathering
    counts: Counter[str] = Counter()
    for row in summary.hosts:
        counts[chip_label(row.host.chip, row.host.kind)] += row.devices
    chips = " and ".join(f"{count:,} x {chip}" for chip, count in counts.most_common())
    programs = sorted({host.program for host in fleet.hosts if host.program})
    places = {
        "pod": {host.place.pod for host in fleet.hosts} - {None},
        "rack": {host.place.rack for host in fleet.hosts} - {None},
    }
    read = gathering.profiles - len(gathering.failures)
    lost = f"; {counted_noun(gathering.retried, 'lost task')} repeated"
    where = "".join(
        f" in {counted_noun(len(names), kind)}" for kind, names in places.items() if names
    )
    processes = f"{len(fleet.hosts):,} processes on " if fleet.of_processes else ""
    rows = [
        Fact(
            "hosts",
            f"{processes}{counted_noun(fleet.machines, 'host')}{where}, {chips}",
        ),
        Fact("program", some(programs, _LISTED) or units.UNKNOWN),
        Fact(
            "read",
            f"{counted_noun(read, 'profile')}, {units.size(gathering.read_bytes)}"
            + (lost if gathering.retried else ""),
        ),
    ]
    for left_out, why in ((gathering.failures, "could not be read"), (gathering.strangers, _OTHER)):
        if left_out:
            text = f"{counted_noun(len(left_out), 'profile')} {why}: see the end"
            rows.append(Fact("left out", text, Tone.WARNING))
    if cut := [host.name for host in fleet.hosts if host.truncated]:
        text = f"{counted_noun(len(cut), 'profile')}, of which only whole steps count: "
        rows.append(Fact("cut off", text + some(cut, _LISTED), Tone.WARNING))
    if none := [host.name for host in fleet.hosts if not host.steps]:
        text = f"{counted_noun(len(none), 'profile')}, which the figures leave out: "
        rows.append(Fact("no step", text + some(none, _LISTED), Tone.WARNING))
    if (copies := read - len(fleet.hosts) - len(gathering.strangers)) > 0:
        text = f"{counted_noun(copies, 'profile')} of a host and process that already has one"
        rows.append(Fact("copies", text, Tone.WARNING))
    unplaced = [host.name for host in fleet.hosts if not (host.place.rack or host.place.pod)]
    if where and unplaced:
        text = f"{counted_noun(len(unplaced), 'host')}, which the topology does not name: "
        rows.append(Fact("no rack", text + some(unplaced, _LISTED), Tone.WARNING))
    rows += [Fact("note", note, Tone.QUIET) for note in gathering.notes]
    return Section("Fleet", f"measured, {some(paths, 3)}", (FactList(tuple(rows)),))


def _step(summary: FleetSummary) -> Section:
    parts = (
        (StepPart.COMPUTE, "compute", summary.compute_ms, None),
        (StepPart.HIDDEN, "with a hidden collective", summary.hidden_ms, StepPart.COMPUTE),
        (StepPart.COLLECTIVE, "exposed collective", summary.exposed_ms, None),
        (StepPart.COPY, "exposed copy", summary.copy_ms, None),
        (StepPart.IDLE, "idle", summary.idle_ms, None),
    )
    whole = sum(ms for _, _, ms, within in parts if within is None)
    slices = tuple(
        Slice(
            part=part,
            label=label,
            ms=shown,
            share=units.percent(ms / whole if whole else None),
            fraction=ms / whole if whole else 0.0,
            within=within,
        )
        for (part, label, ms, within), shown in zip(
            parts, units.column(ms for _, _, ms, _ in parts), strict=True
        )
    )
    how = "the parts are means over devices of the steps around the median, scaled to it"
    if len(summary.hosts) > 1:
        how += f"; steps of different hosts are matched by {summary.fleet.matched_by}"
    matched = Prose(how, Tone.QUIET)
    if summary.step_ms is None:
        text = f"{units.UNKNOWN}   no whole step in these profiles; {_window(summary)}"
        return Section("Step time", text, (BreakdownBar(slices),))
    low, high = units.column([summary.min_ms, summary.max_ms])
    reach = f" median   min {low}   max {high}" if summary.steps > 1 else ""
    steps = ("the last " if summary.is_full else "") + counted_noun(summary.steps, "step")
    text = f"{units.milliseconds(summary.step_ms)}{reach}   {steps}"
    return Section("Step time", text, (matched, BreakdownBar(slices)))


def _window(summary: FleetSummary) -> str:
    """Return what the figures describe where no whole step was seen."""
    length = units.milliseconds(summary.window_ms)
    if summary.fleet.window is WindowKind.PROFILE:
        return f"the figures describe the whole profile, {length}"
    program = summary.fleet.hosts[0].program or "the program"
    return f"the figures describe one run of {program}, {length}"


def _late(summary: FleetSummary, top: int) -> Section:
    if not summary.late:
        least = 3
        whole = summary.steps if summary.step_ms is not None else 0
        text = (
            f"none is late more often than by chance in {counted_noun(whole, 'step')}"
            if whole >= least
            else f"{counted_noun(whole, 'whole step')} can't show it: profile at least {least + 2},"
            " of which the first and the last do not count"
        )
        return Section("Who makes the others wait", text)
    shown = summary.late[:top]
    kinds = "  ".join(
        counted_noun(sum(late.kind == kind for late in summary.late), kind)
        for kind in ("pod", "rack", "host", "process", "device")
        if any(late.kind == kind for late in summary.late)
    )
    return Section("Who makes the others wait", kinds, (_late_table(shown),))


def _late_table(late: tuple[Late, ...]) -> TextTable:
    return table(
        *field_columns(LateJson, late, ["kind", "name", "waits_less_ms"]),
        words("95% of medians", [_interval(each.interval_ms) for each in late]),
        numbers("late steps", [f"{each.late_steps} of {each.steps}" for each in late]),
        words("by chance", [_chance(each.chance) for each in late], 1),
        *field_columns(LateJson, late, ["more_compute_ms", "more_idle_ms"]),
        words("it is", ["slow" if each.is_slow else "starts late" for each in late]),
    )


def _interval(reach: Range | None) -> str:
    return "too few steps" if reach is None else units.span(reach.low, reach.high)


def _chance(chance: float) -> str:
    return f"<{_RARE:.1%}" if chance < _RARE else units.percent(chance)


def _drain(summary: FleetSummary, top: int) -> Section:
    """Show what a step gains without the late units, one more of them in each row."""
    rows = summary.late[:top]
    gains = [each.gain_ms for each in rows]
    hosts = [some(each.hosts, 3) for each in rows]
    step = summary.window_ms
    shares = [units.percent(gain / step) for gain in gains]
    before = Prose(
        "at most: without a unit and those above it, the next device decides how long others wait",
        Tone.QUIET,
    )
    return Section(
        "Which hosts to drain first",
        f"a step gains up to {units.milliseconds(max(gains))} without all of these",
        (
            table(
                numbers("#", [str(number) for number in range(1, len(rows) + 1)]),
                labels("hosts", hosts),
                words("because of", [_named(each) for each in rows], 1),
                *field_columns(LateJson, rows, ["gain_ms"]),
                words("95% of medians", [_interval(each.gain_interval_ms) for each in rows], 1),
                numbers("of the step", shares),
            ),
            before,
        ),
    )


def _collectives(summary: FleetSummary, top: int) -> list[Section]:
    """Show how long collectives take, how long devices wait in them, and which groups are slow."""
    if not summary.collectives:
        return []
    shown = summary.collectives[:top]
    whole = table(
        *field_columns(FleetCollectiveJson, shown),
        words("last in most steps", [_last(each) for each in shown], 3),
    )
    where = Prose(
        "without waiting: how long the member that arrives last takes; bus GB/s: what a device"
        " sends per second of that time",
        Tone.QUIET,
    )
    count = units.shown_of(len(shown), len(summary.collectives))
    sections = [Section("Collectives", f"{count}, of those that move most", (whole, where))]
    slow = [(each, group) for each in summary.collectives for group in each.slow]
    if not slow:
        return sections
    groups = table(
        labels("hosts", [some(group.hosts, 3) for _, group in slow[:top]]),
        words("devices", [some(group.devices, 2) for _, group in slow[:top]], 2),
        labels("collective", [each.op for each, _ in slow[:top]]),
        *field_columns(SlowGroup, [group for _, group in slow[:top]], ["more_ms"]),
        numbers("steps", [f"{group.steps} of {group.of_steps}" for _, group in slow[:top]]),
        words("by chance", [_chance(group.chance) for _, group in slow[:top]], 1),
    )
    text = (
        f"{counted_noun(len(slow), 'group')} slower than the others, by a NIC, a cable or an axis"
    )
    return [*sections, Section("Slow links", text, (groups,))]


def _last(collective: FleetCollective) -> str:
    if collective.last is None:
        return ""
    return f"{collective.last}, {collective.last_steps} of {collective.steps}"


def _named(late: Late) -> str:
    return late.name if late.kind == "device" else f"{late.kind} {late.name}"


def _hosts(summary: FleetSummary, top: int) -> Section:
    """Show the hosts with the most time of their own, and how far each step is from the median."""
    fleet = summary.fleet
    own = fleet.of_hosts(fleet.length - fleet.exposed)
    typical = np.nan_to_num([row.step_ms - row.exposed_ms for row in summary.hosts], nan=-np.inf)
    order: list[int] = np.argsort(-typical, kind="stable")[:top].tolist()
    rows = [summary.hosts[at] for at in order]
    racks = [row.host.place.rack or "" for row in rows]
    whole = table(
        labels(_nouns(summary)[0], [row.host.name for row in rows]),
        *([words("rack", racks, 2)] if any(racks) else []),
        *field_columns(FleetHostJson, rows, ["step_ms"]),
        numbers("own time", units.column([float(typical[at]) for at in order])),
        *field_columns(FleetHostJson, rows, ["compute_ms", "idle_ms", "exposed_ms"]),
    )
    blocks: list[Block] = [whole]
    if own.shape[1] > 1 and len(own) > 1:
        blocks += [_STEPS_TEXT, _by_step(summary, own, order), *_map(summary, top)]
    shown = units.shown_of(len(rows), len(summary.hosts))
    text = f"{shown}, most own time first: the step without exposed communication"
    return Section(_nouns(summary)[1].capitalize(), text, tuple(blocks))


def _nouns(summary: FleetSummary) -> tuple[str, str]:
    """Return the noun for a row of the tables, and its plural."""
    return ("process", "processes") if summary.fleet.of_processes else ("host", "hosts")


def _map(summary: FleetSummary, top: int) -> list[Block]:
    """Return step times as a heat map of the hosts that differ most from the others in any step."""
    lengths = summary.fleet.of_hosts(summary.fleet.length)
    low, high = float(np.nanmin(lengths)), float(np.nanmax(lengths))
    if not high > low:
        return []
    apart = np.nan_to_num(np.abs(lengths - np.nanmedian(lengths, axis=0))).max(axis=1)
    order: list[int] = sorted(np.argsort(-apart, kind="stable")[:top].tolist())
    shades = np.nan_to_num(np.round(1 + 8 * (lengths - low) / (high - low))).astype(int)
    text = (
        f"step times in ms of the {units.shown_of(len(order), len(lengths))} that differ most in a"
        f" step: {units.span(low, high)}; on a page, the longest have the most color"
    )
    drawn = _columns(summary, lengths[order], order, units.column)
    return [Prose(text, Tone.QUIET), replace(drawn, shades=shades[order, -_COLUMNS:].tolist())]


def _by_step(summary: FleetSummary, own: Matrix, order: list[int]) -> TextTable:
    middle = column_medians(own)
    return _columns(summary, own[order] - middle, order, lambda column: list(map(_signed, column)))


def _columns(summary: FleetSummary, of: Matrix, order: list[int], cells: _Cells) -> TextTable:
    """Return a table with a row per host and a column for each of the last steps."""
    steps = summary.fleet.steps[-_COLUMNS:].tolist()
    columns = [cells(column) for column in of.T[-_COLUMNS:].tolist()]
    ranks = range(len(steps) - 1, -1, -1)
    hosts = labels(_nouns(summary)[0], [summary.hosts[at].host.name for at in order])
    return table(hosts, *map(numbers, map(str, steps), columns, ranks))


def _signed(ms: float) -> str:
    return units.UNKNOWN if np.isnan(ms) else f"{ms:+.2f}"


def _clocks(summary: FleetSummary, top: int) -> list[Section]:
    """Show the hosts whose clocks disagree with the median host's, the farthest first."""
    apart = [
        (abs(ahead), ahead, spread, host.name)
        for host in summary.fleet.hosts
        if (ahead := host.clock_ahead_ms) is not None
        and abs(ahead) > max(_CLOCKS_AGREE_MS, 3 * ((spread := host.clock_spread_ms) or 0.0))
    ]
    if not apart:
        return []
    rows = sorted(apart, reverse=True)[:top]
    noun = "host" if len(apart) == 1 else "hosts"
    text = f"{units.shown_of(len(rows), len(apart))} {noun} more than 1 ms from the median host"
    return [
        Section(
            "Clocks",
            text,
            (
                table(
                    labels("host", [name for *_, name in rows]),
                    numbers("ahead ms", [f"{ahead:+,.2f}" for _, ahead, _, _ in rows]),
                    numbers("+- ms", units.column(spread for _, _, spread, _ in rows), 1),
                ),
                Prose(
                    "by the ends of a collective of all devices; no figure above depends on them,"
                    " but logs of these hosts can't be compared by time: synchronize them (chrony)",
                    Tone.QUIET,
                ),
            ),
        )
    ]


def _builds(summary: FleetSummary, top: int) -> Section:
    rows = summary.builds[:top]
    return Section(
        "Builds",
        f"{_nouns(summary)[1]} run {sum(it.build is not None for it in summary.builds)} different"
        " modules",
        (
            table(
                *field_columns(BuildJson, rows, ["program", "build"]),
                numbers(_nouns(summary)[1], [f"{len(each.hosts):,}" for each in rows]),
                labels("which", [some(each.hosts, 4) for each in rows], 1),
            ),
            Prose(
                "explain two hosts of different builds together to see which instructions differ",
                Tone.QUIET,
            ),
        ),
    )


def _left_out(summary: FleetSummary, top: int) -> list[Section]:
    failures = (*summary.gathering.failures, *summary.gathering.strangers)
    if not failures:
        return []
    rows = tuple(
        Fact(each.name.rpartition("/")[2], "; ".join(filter(None, (each.failure or ())[:2])))
        for each in failures[:top]
    )
    more = len(failures) - len(rows)
    text = f"{counted_noun(len(failures), 'profile')}: all figures are those of the others"
    blocks: tuple[Block, ...] = (FactList(rows),)
    if more:
        blocks = (*blocks, Prose(f"and {more:,} more, which the JSON names", Tone.QUIET))
    return [Section("Left out", text, blocks)]
