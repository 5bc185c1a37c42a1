"""Every level of a picture has exactly the time of each class that the spans have."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoint.diagnose.attribution import attribute
from counterpoint.diagnose.selection import select
from counterpoint.timeline.hosts.assemble import assemble
from counterpoint.timeline.model import Timeline
from counterpoint.view.blocks import encode
from counterpoint.view.lanes import CLASSES
from counterpoint.view.levels import LevelColumns
from counterpoint.view.picture import Picture, PictureTrack, draw
from counterpoint.view.segments import Segments, coarsen, pieces
from recordings import NS, Span, recording
from span_lists import SPANS


def made(spans: list[Span], devices: int = 2) -> Timeline:
    markers = [(d, k, 50 * k, 50) for d in range(devices) for k in range(5)]
    return assemble([recording(spans, devices=devices, markers=markers)], ["made"])


def times(level: LevelColumns, track: PictureTrack, start: int, end: int) -> dict[str, int]:
    """The time of each class in a window, as a browser adds it up."""
    columns = level.columns
    begin = columns["start"]
    shared = np.minimum(begin + columns["dur"], end) - np.maximum(begin, start)
    share = np.clip(shared, 0, None) / np.maximum(columns["dur"], 1)
    return {
        CLASSES[each]: round(float((columns[CLASSES[each]] * share).sum()))
        for each in track.classes
    }


def tracks(picture: Picture, kind: str) -> list[PictureTrack]:
    return [track for track in picture.tracks if track.kind == kind]


@given(SPANS)
def test_a_summary_is_the_attribution_of_each_step(spans: list[Span]) -> None:
    timeline = made(spans)
    selection = select(timeline)
    parts = attribute(selection, selection.spans())
    picture = draw(timeline)
    for device, step, start, end in selection.windows.select(
        "device", "step", "start_ps", "end_ps"
    ).rows():
        (track,) = (it for it in tracks(picture, "summary") if it.device == device)
        found = times(track.levels[0], track, start - picture.since, end - picture.since)
        own = parts.filter((pl.col("device") == device) & (pl.col("step") == step))

        def ps(of: pl.Expr, own: pl.DataFrame = own) -> int:
            return int(own.filter(of)["ps"].sum())

        state, hidden = pl.col("state"), pl.col("hidden")
        assert found == {
            "compute": ps((state == "compute") & ~hidden),
            "hidden": ps(hidden),
            "exposed": ps(state == "collective"),
            "copy": ps(state == "copy"),
        }


@given(SPANS)
def test_streams_show_each_span_once_and_how_much_of_it_is_exposed(spans: list[Span]) -> None:
    timeline = made(spans)
    picture = draw(timeline)
    shown: list[tuple[int, int, int]] = []
    for track in picture.tracks:
        if track.device is None or track.kind == "summary":
            continue
        columns = track.levels[0].columns
        for row in range(track.rows):
            own = columns["row"] == row
            start, end = columns["start"][own], (columns["start"] + columns["dur"])[own]
            assert (start[1:] >= end[:-1]).all()
        shown += zip(
            columns["span"].tolist(),
            (columns["start"] + picture.since).tolist(),
            columns["dur"].tolist(),
            strict=True,
        )
    table = timeline.spans.with_row_index("span").select("span", "start_ps", "dur_ps")
    assert sorted(shown) == table.rows()


def test_a_collective_is_exposed_where_nothing_computes() -> None:
    # collective  ==========      exposed for 4 ns, then hidden for 3, then exposed for 3
    # compute         ===
    picture = draw(made([Span("all-gather", 10, 10), Span("fusion", 14, 3, line=1)], devices=1))
    (track,) = tracks(picture, "collective")
    assert track.levels[0].columns["exposed"].tolist() == [7 * NS]
    assert track.levels[0].columns["dur"].tolist() == [10 * NS]


@st.composite
def lanes(draw: st.DrawFn) -> Segments:
    """Pieces of four classes in a row."""
    gaps = draw(st.lists(st.integers(0, 40), min_size=1, max_size=30))
    lengths = draw(st.lists(st.integers(1, 90), min_size=len(gaps), max_size=len(gaps)))
    kinds = draw(st.lists(st.integers(0, 3), min_size=len(gaps), max_size=len(gaps)))
    end = np.cumsum(np.array(gaps) + np.array(lengths))
    op = np.arange(len(gaps), dtype=np.uint32) * 10
    return pieces(end - np.array(lengths), end, np.array(kinds, np.int8), op, classes=4)


@given(lanes(), st.integers(1, 9), st.integers(1, 4))
def test_sums_between_borders_of_a_grid_are_exact(finest: Segments, width: int, up: int) -> None:
    below = finest
    for _ in range(up):
        coarser = coarsen(below, width)
        ends = np.arange(0, int(coarser.end[-1]) + width, width)
        for until in ends.tolist():
            covered = np.clip(np.minimum(finest.end, until) - finest.start, 0, None)
            expected = [int(covered[finest.times[each] > 0].sum()) for each in range(4)]
            inside = np.clip(np.minimum(coarser.end, until) - coarser.start, 0, None)
            whole = coarser.end - coarser.start
            assert ((inside == whole) | (inside == 0) | (coarser.times.max(axis=0) == whole)).all()
            assert (coarser.times * inside // whole).sum(axis=1).tolist() == expected
        assert (coarser.start[1:] >= coarser.end[:-1]).all()
        assert coarser.count.sum() == len(finest)
        assert set(coarser.op.tolist()) <= set(finest.op.tolist())
        below, width = coarser, width * 8


def test_the_op_of_a_bucket_is_that_of_the_longest_piece_in_it() -> None:
    start, end = np.array([0, 3, 9]), np.array([2, 8, 40])
    finest = pieces(start, end, np.zeros(3, np.int8), np.array([7, 8, 9], np.uint32), classes=1)
    coarser = coarsen(finest, 10)
    assert coarser.start.tolist() == [0, 10]
    assert coarser.end.tolist() == [10, 40]
    assert coarser.op.tolist() == [8, 9]
    assert coarser.longest.tolist() == [5, 30]


@pytest.mark.parametrize("devices", [1, 2, 5])
def test_a_long_recording_has_levels_that_agree_and_take_little_room(devices: int) -> None:
    random = np.random.default_rng(devices)
    at = np.cumsum(random.integers(1, 60, 9000))
    names = random.choice(["fusion", "all-gather", "copy"], len(at))
    spans = [
        Span(str(name), int(start), int(dur), device=device, line=line)
        for device in range(devices)
        for start, dur, name, line in zip(
            at, random.integers(1, 50, len(at)), names, random.integers(0, 2, len(at)), strict=True
        )
    ]
    picture = draw(assemble([recording(spans, devices=devices)], ["made"]))
    for track in picture.tracks:
        if track.kind in ("fold", "host"):
            continue
        assert len(track.levels) > 1
        sizes = [len(level) for level in track.levels]
        assert sum(sizes[1:]) < sizes[0]
        whole = [times(level, track, 0, 1 << 50) for level in track.levels[1:]]
        assert all(found == whole[0] for found in whole)


def test_a_fold_adds_up_its_devices() -> None:
    spans = [Span("fusion", 0, 30, device=0), Span("fusion", 0, 10, device=1)]
    picture = draw(made([*spans, Span("all-gather", 20, 40, device=1, line=1)]))
    (fold,) = tracks(picture, "fold")
    assert fold.title == "2 devices"
    for level in fold.levels:
        columns = level.columns
        assert columns["compute"].sum() == 40 * NS
        assert columns["exposed"].sum() == 40 * NS
        assert (columns["busy_min"] <= columns["busy_median"]).all()
        assert (columns["busy_median"] <= columns["busy_max"]).all()
        assert columns["busy_max"].sum() == 30 * NS


def decoded(block: bytes) -> dict[str, list[float]]:
    """The columns of a block, as web/src/source.ts decodes them."""
    size = int.from_bytes(block[:4], "little")
    header = json.loads(block[4 : 4 + size])
    found: dict[str, list[float]] = {}
    for name, column in header["columns"].items():
        kind: Any = {"u8": "<u1", "u16": "<u2", "u32": "<u4", "f64": "<f8"}[column["type"]]
        assert (4 + size + column["at"]) % np.dtype(kind).itemsize == 0
        values = np.frombuffer(block, kind, header["rows"], 4 + size + column["at"]).astype(float)
        summed = np.cumsum(values) if column["delta"] else values
        found[name] = (summed * column["unit"] + column["base"]).tolist()
    return found


@given(
    st.lists(
        st.tuples(st.integers(0, 1 << 50), st.integers(-5, 1 << 40), st.integers(0, 300)),
        max_size=20,
    ),
    st.sampled_from([1, 1000]),
)
def test_a_block_holds_its_columns_exactly(rows: list[tuple[int, int, int]], unit: int) -> None:
    scaled = [tuple(value * unit // 1000 for value in row) for row in rows]
    columns = {
        name: np.array([row[at] for row in scaled], np.int64) for at, name in enumerate("abc")
    }
    columns["sorted"] = np.sort(columns["a"])
    assert decoded(encode(columns)) == {name: list(column) for name, column in columns.items()}


def test_a_time_of_days_is_rounded_to_what_a_browser_can_hold() -> None:
    assert decoded(encode({"a": np.array([(1 << 53) + 1])})) == {"a": [1 << 53]}


def test_a_fold_of_many_short_pieces_and_long_pauses_is_fine_where_something_runs() -> None:
    spans = [
        Span("fusion", pause * 10**9 + 7 * at, 3, device=device)
        for pause in range(3)
        for at in range(5000)
        for device in (0, 1)
    ]
    picture = draw(assemble([recording(spans, devices=2)], ["made"]))
    (fold,) = tracks(picture, "fold")
    assert fold.levels[0].width == 1000
    assert all(level.columns["compute"].sum() == 2 * 15_000 * 3 * NS for level in fold.levels)
