"""The part of a page for one Timeline: steps, programs, devices, ops, places of findings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePath
from statistics import median_low
from typing import Any, Final, TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counterpoint.diagnose.selection import select
from counterpoint.timeline.marked import HOST_MARKS
from counterpoint.timeline.model import Lane, Timeline
from counterpoint.view.blocks import encode_table
from counterpoint.view.lanes import shown_transfers, transfer_names
from counterpoint.view.picture import Picture, PictureTrack, extent

_MOST_RUNS: Final = 4000
"""Runs of programs that are shown; of more, the longest."""
_MOST_PHASES: Final = 8000
"""Stretches of a phase that a page has; of more, the shortest are left out."""
_MOST_CHANGES: Final = 16_000
"""Changes of memory that a page has, of all devices together."""
_WORDS: Final = (
    "name op opcode category lane collective bytes group_size bus_factor scope source phase flops"
    " bytes_accessed"
)
_OP_COLUMNS: Final = tuple(_WORDS.split())


@dataclass(frozen=True, eq=False, kw_only=True)
class TimelinePage:
    """One Timeline of a page; `number` is its place there, and `picture` is None until drawn.

    `preview`: its profile is still being read, and nothing is known but marks (timeline/marked.py).
    """

    number: int
    timeline: Timeline
    findings: Sequence[Mapping[str, Any]] = ()
    picture: Picture | None = None
    step: int | None = None
    preview: bool = False

    @property
    def complete(self) -> bool:
        """True if all levels are computed."""
        return self.picture is not None and self.picture.complete

    @cached_property
    def typical(self) -> tuple[int | None, int, int]:
        """The typical step's number and its window; of a Timeline without steps, the whole."""
        since, end = extent(self.timeline)
        windows = select(self.timeline, step=self.step).windows.filter(
            pl.col("end_ps") > pl.col("start_ps")
        )
        if windows.is_empty():
            return None, 0, end - since
        by_step = windows.group_by("step").agg(
            pl.col("start_ps").min(),
            pl.col("end_ps").max(),
            length=(pl.col("end_ps") - pl.col("start_ps")).mean(),
        )
        middle = median_low(by_step["length"].to_list())
        step, start, stop, _ = by_step.sort((pl.col("length") - middle).abs(), "step").row(0)
        return int(step), int(start) - since, int(stop) - since

    def describe(
        self, has: Mapping[int, Mapping[tuple[int, int], bool]] | None = None
    ) -> dict[str, Any]:
        """Return the Timeline as `TimelinePage` of web/src/page.ts."""
        since, end = extent(self.timeline)
        tracks = () if self.picture is None else self.picture.tracks
        return {
            "name": self._name,
            "basis": str(self.timeline.basis),
            "complete": self.complete,
            "preview": self.preview,
            "marked_by": self.timeline.hosts[0].name if self._is_of_one else None,
            "end": end - since,
            "devices": self._devices(),
            "steps": self._steps(since),
            "typical": None if self.preview else self.typical[0],
            "chosen": self.step is not None,
            "programs": self._programs(since),
            "phases": self._phases(since),
            "tracks": [
                track.describe(None if has is None else has.get(number, {}))
                for number, track in enumerate(tracks)
            ],
            "range_ms": self._range_ms,
            "memory": self._memory(since, end),
            "ops": f"{self.number}.ops",
            "findings": list(self._finding_places(since)),
        }

    @property
    def _name(self) -> str:
        """The last part of the first input's path, and how many more there are."""
        names = [PurePath(name).name or name for name in self.timeline.inputs]
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        return f"{names[0]}{more}" if names else "a prediction"

    @property
    def _is_of_one(self) -> bool:
        """True of a preview that shows one of several hosts, the first."""
        return self.preview and len(self.timeline.hosts) > 1

    @property
    def _range_ms(self) -> list[float] | None:
        """The range of a predicted step; null of a measured one, or where it is not known."""
        predicted = self.timeline.predicted_range
        return None if predicted is None else [predicted.low * 1e3, predicted.high * 1e3]

    def _devices(self) -> list[dict[str, Any]]:
        several = len(self.timeline.hosts) > 1
        return [
            {
                "name": f"{device.kind.upper()} {device.ordinal}",
                "host": self.timeline.hosts[device.host].name if several else "",
                "chip": device.chip,
            }
            for device in self.timeline.devices
        ]

    def _steps(self, since: int) -> dict[str, list[Any]]:
        """Return the steps; how long they take on devices is null where only the host tells."""
        of_host = self.timeline.step_rule == HOST_MARKS
        steps = (
            self.timeline.steps.group_by("step")
            .agg(
                start=pl.col("start_ps").min() - since,
                end=pl.col("end_ps").max() - since,
                ms=(pl.col("end_ps") - pl.col("start_ps")).mean() / 1e9,
                steady=pl.col("steady").all(),
            )
            .sort("start")
            .with_columns(ms=pl.lit(None) if of_host else pl.col("ms"))
        )
        return steps.to_dict(as_series=False)

    def _programs(self, since: int) -> list[dict[str, Any]]:
        runs = self.timeline.runs
        if runs.is_empty():
            return []
        own = (
            runs.filter(pl.col("device") == runs["device"][0])
            .with_columns(length=pl.col("start_ps") - pl.col("end_ps"))
            .sort("length", maintain_order=True)
            .head(_MOST_RUNS)
            .sort("start_ps")
        )
        programs = own.group_by("program", maintain_order=True).agg(
            pl.col("start_ps") - since, pl.col("end_ps") - since
        )
        names = [entry.name for entry in self.timeline.programs]
        return [
            {"name": names[program], "start": start, "end": end}
            for program, start, end in programs.rows()
        ]

    def _phases(self, since: int) -> dict[str, list[Any]]:
        """Return the phases of the first device that computes, as stretches of its kernels."""
        phases: dict[str, list[Any]] = {"phase": [], "start": [], "end": []}
        ops, spans = self.timeline.ops, self.timeline.spans
        names = ops["phase"].drop_nulls().unique().sort()
        if len(names) <= 1 or spans.is_empty():
            return phases
        phase_of = ops.select(
            pl.when(pl.col("lane") == Lane.COMPUTE)
            .then(pl.col("phase").replace_strict(names, range(len(names)), default=None))
            .fill_null(-1)
            .cast(pl.Int64)
        )["phase"].to_numpy()
        own = spans.filter(pl.col("device") == spans["device"][0]).sort("start_ps")
        phase = phase_of[own["op"].to_numpy()]
        known = phase >= 0
        start = own["start_ps"].to_numpy()[known] - since
        stretches = _stretches(phase[known], start, start + own["dur_ps"].to_numpy()[known])
        phases["phase"] = [names[number] for number in stretches[0].tolist()]
        phases["start"], phases["end"] = stretches[1].tolist(), stretches[2].tolist()
        return phases

    def _memory(self, since: int, end: int) -> list[dict[str, Any]]:
        """Return what the allocator of each device gave out; of close changes the highest stays."""
        table = self.timeline.memory.filter(pl.col("start_ps") <= end)
        points = max(_MOST_CHANGES // max(table["device"].n_unique(), 1), 1)
        width = max((end - since) // points, 1)
        at = (pl.col("start_ps") - since).clip(0)
        curves: list[dict[str, Any]] = []
        for (device,), own in table.group_by("device", maintain_order=True):
            thinned = (
                own
                if len(own) <= points
                else own.group_by(at // width, maintain_order=True).agg(
                    pl.all().sort_by("used_bytes").last()
                )
            )
            curves.append(
                {
                    "device": device,
                    "at": thinned.select(at)["start_ps"].to_list(),
                    "used": thinned["used_bytes"].to_list(),
                    "most": own["used_bytes"].max(),
                    "limit": own["limit_bytes"].max(),
                    "peak": own["peak_bytes"].max(),
                }
            )
        return curves

    def ops_block(self) -> bytes:
        """Return the table of ops, then the names of the host's events and transfers."""
        timeline, ops = self.timeline, self.timeline.ops
        others = [*timeline.host_names, *transfer_names(timeline)]
        hosts = len(others)
        table: dict[str, list[Any]] = {
            name: ops[name].to_list() + [None] * hosts for name in _OP_COLUMNS
        }
        table["name"][len(ops) :] = others
        table["lane"][len(ops) :] = ["host"] * hosts
        names = [entry.name for entry in timeline.programs]
        table["program"] = [
            None if program is None else names[program] for program in ops["program"]
        ] + [None] * hosts
        started = {key: row for row, key in enumerate(zip(ops["program"], ops["op"], strict=True))}
        table["pair"] = [
            None if pair is None or pair == op else started.get((program, pair))
            for program, op, pair in ops.select("program", "op", "pair").rows()
        ] + [None] * hosts
        # The results name a collective after its start, which need not be an op of its own.
        table["listed"] = [
            pair if lane == Lane.COLLECTIVE else None
            for lane, pair in zip(ops["lane"], ops["pair"], strict=True)
        ] + [None] * hosts
        priced = ops["priced_how"].to_list() if "priced_how" in ops.columns else [None] * len(ops)
        table["priced"] = priced + [None] * hosts
        return encode_table(table)

    def _finding_places(self, since: int) -> Iterable[dict[str, Any]]:
        """Yield the findings with what shows them, the worst first: gaps, spans, the host's work.

        A place whose track is not drawn yet is left out until it is.
        """
        for finding in self.findings:
            gaps: list[_Place] = []
            others: list[_Place] = []
            for it in finding.get("evidence", ()):
                what = str(it.get("what", ""))
                gaps += (self._gap(gap, what, since) for gap in it.get("gaps", ()))
                others += (
                    place
                    for kind, place_of in self._kinds_of_places
                    for row in it.get(kind, ())
                    if (place := place_of(row, what, since))
                )
            places = [*gaps, *sorted(others, key=lambda place: -place["dur"])]
            yield {
                "code": finding.get("code", ""),
                "title": finding.get("title", ""),
                "places": [place for place in places if place["track"] is not None],
            }

    @property
    def worst_places(self) -> dict[int, list[int]]:
        """When, by track, what each finding opens at begins."""
        starts: dict[int, list[int]] = {}
        for finding in self._finding_places(extent(self.timeline)[0]):
            for place in finding["places"][:1]:
                starts.setdefault(place["track"], []).append(place["start"])
        return starts

    @property
    def _kinds_of_places(self) -> tuple[tuple[str, Callable[[int, str, int], _Place | None]], ...]:
        return ("spans", self._span), ("events", self._event), ("transfers", self._transfer)

    def _gap(self, gap: Mapping[str, int], what: str, since: int) -> _Place:
        """Return idle time of a device: a place in its summary, without an op."""
        return {
            "track": self._track_of.get((gap["device"], None)),
            "start": gap["start_ps"] - since,
            "dur": gap["dur_ps"],
            "op": None,
            "what": what,
        }

    def _span(self, row: int, what: str, since: int) -> _Place | None:
        if row >= len(self.timeline.spans):
            return None
        span = self.timeline.spans.row(row, named=True)
        track = self._track_of.get((span["device"], span["line"]))
        return _place(track, span, span["op"], what, since)

    def _event(self, row: int, what: str, since: int) -> _Place | None:
        if row >= len(self.timeline.host_events):
            return None
        event = self.timeline.host_events.row(row, named=True)
        op = len(self.timeline.ops) + event["name"]
        return _place(self._track_of.get((None, event["line"])), event, op, what, since)

    def _transfer(self, row: int, what: str, since: int) -> _Place | None:
        rows = self._transfers.filter(pl.col("row") == row)
        if rows.is_empty():
            return None
        transfer = rows.row(0, named=True)
        first = len(self.timeline.ops) + len(self.timeline.host_names)
        op = first + transfer_names(self.timeline).index(transfer["name"])
        track = self._track_of.get((transfer["host"], transfer["action"]))
        return _place(track, transfer, op, what, since)

    @cached_property
    def _transfers(self) -> pl.DataFrame:
        return shown_transfers(self.timeline, *extent(self.timeline))

    @cached_property
    def _track_of(self) -> dict[tuple[int | None, int | str | None], int]:
        """The numbers of tracks by device and line, of transfers by host and action."""
        tracks: Sequence[PictureTrack] = () if self.picture is None else self.picture.tracks
        return {
            track.transfers or (track.device, track.line): number
            for number, track in enumerate(tracks)
        }


_Place: TypeAlias = dict[str, Any]


def _place(track: int | None, span: Mapping[str, Any], op: int, what: str, since: int) -> _Place:
    start, dur = span["start_ps"] - since, span["dur_ps"]
    return {"track": track, "start": start, "dur": dur, "op": op, "what": what}


_Longs = NDArray[np.int64]


def _stretches(kinds: _Longs, start: _Longs, end: _Longs) -> tuple[_Longs, _Longs, _Longs]:
    """Return where one kind follows itself: kinds, first starts, latest ends."""
    while len(kinds):
        first = np.flatnonzero(np.append(True, kinds[1:] != kinds[:-1]))
        kinds, start, end = kinds[first], start[first], np.maximum.reduceat(end, first)
        if len(kinds) <= _MOST_PHASES:
            break
        longest = np.sort(np.argpartition(start - end, _MOST_PHASES)[:_MOST_PHASES])
        kinds, start, end = kinds[longest], start[longest], end[longest]
    return kinds, start, end
