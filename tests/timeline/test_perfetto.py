"""A written trace holds the Timeline's spans, in both formats, and reads back as what it was."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from trace_builder import wide

from counterpoint.core.basis import Basis, Range
from counterpoint.core.errors import InputError, UsageError
from counterpoint.hlo.wire_schema import message_classes
from counterpoint.timeline.chrome.reader import read_trace_json
from counterpoint.timeline.hosts.assemble import assemble
from counterpoint.timeline.model import Device, Timeline
from counterpoint.timeline.reading import read
from counterpoint.timeline.recording import Recording
from counterpoint.timeline.storage.trace_json import write_perfetto
from counterpoint.timeline.storage.trace_layout import order, rows
from real_profiles import opened
from recordings import Span, recording

Slice = tuple[str, str, str, int, int]
"""Process, thread, name, start and end in nanoseconds."""

TRACES = (
    "jax_conv_mi300x_8gpu.xplane.pb",
    "jax_inference_v6e_4tpu.xplane.pb",
    "pytorch_h100_2gpu.nsys.sqlite",
    "vllm_qwen3_2tpu.trace.json.gz",
)


def made(*recordings: Recording) -> Timeline:
    return assemble(recordings, ["made"])


def steps(count: int = 5, device: int = 0) -> list[Span]:
    """Runs of 100 ns: a fusion, and a collective beside it on another line."""
    return [
        Span(op, 100 * k + start, length, device=device, line=line, run=k)
        for k in range(count)
        for op, start, length, line in (("fusion.1", 0, 60, 0), ("all-reduce.2", 20, 70, 1))
    ]


def json_slices(path: Path) -> list[Slice]:
    text = path.read_bytes()
    trace = json.loads(gzip.decompress(text) if path.suffix == ".gz" else text)
    names: dict[tuple[str, int, int], str] = {}
    for event in trace["traceEvents"]:
        if event["ph"] == "M" and "name" in event["args"]:
            place = (event["name"], event["pid"], event.get("tid", 0))
            assert place not in names
            names[place] = event["args"]["name"]
    return [
        (
            names["process_name", event["pid"], 0],
            names["thread_name", event["pid"], event["tid"]],
            event["name"],
            round(event["ts"] * 1000),
            round(event["ts"] * 1000) + round(event["dur"] * 1000),
        )
        for event in trace["traceEvents"]
        if event["ph"] == "X"
    ]


# Written apart from the schema under test, with Perfetto's own names for the fields.
MESSAGES = message_classes(
    "test.perfetto",
    """
    Trace
      1 packet TracePacket*
    TracePacket
      8 timestamp uint64
      10 trusted_packet_sequence_id uint32
      11 track_event TrackEvent
      12 interned_data InternedData
      13 sequence_flags uint32
      60 track_descriptor TrackDescriptor
    TrackDescriptor
      1 uuid uint64
      3 process ProcessDescriptor
      4 thread ThreadDescriptor
    ProcessDescriptor
      1 pid int32
      6 process_name string
    ThreadDescriptor
      1 pid int32
      2 tid int32
      5 thread_name string
    TrackEvent
      3 category_iids uint64
      4 debug_annotations DebugAnnotation*
      9 type int32
      10 name_iid uint64
      11 track_uuid uint64
    DebugAnnotation
      1 name_iid uint64
      4 int_value int64
      17 string_value_iid uint64
    InternedData
      1 event_categories Interned*
      2 event_names Interned*
      3 debug_annotation_names Interned*
      29 debug_annotation_string_values Interned*
    Interned
      1 iid uint64
      2 name string
    """,
)


def proto_slices(path: Path) -> list[Slice]:
    """Play the packets as Perfetto does: a stack for each track, an end closes the last begin."""
    names: dict[int, str] = {}
    processes: dict[int, str] = {}
    threads: dict[int, tuple[str, str]] = {}
    stacks: dict[int, list[tuple[str, int]]] = defaultdict(list)
    slices: list[Slice] = []
    for packet in packets(path):
        names |= {name.iid: name.name for name in packet.interned_data.event_names}
        described = packet.track_descriptor
        if described.HasField("process"):
            processes[described.process.pid] = described.process.process_name
        if described.HasField("thread"):
            thread = described.thread
            threads[described.uuid] = (processes[thread.pid], thread.thread_name)
        event = packet.track_event
        if event.type == 1:
            stacks[event.track_uuid].append((names[event.name_iid], packet.timestamp))
        elif event.type == 2:
            name, start = stacks[event.track_uuid].pop()
            slices.append((*threads[event.track_uuid], name, start, packet.timestamp))
    assert not any(stacks.values())
    return slices


def packets(path: Path) -> Iterator[Any]:
    yield from MESSAGES["Trace"].FromString(path.read_bytes()).packet


def test_a_step_has_its_tracks_and_words(tmp_path: Path) -> None:
    path = write_perfetto(made(recording(steps())), tmp_path / "made.json")
    found = json_slices(path)
    assert [s for s in found if s[1] == "line 0"][:2] == [
        ("/device:GPU:0", "line 0", "fusion.1", 0, 60),
        ("/device:GPU:0", "line 0", "fusion.1", 100, 160),
    ]
    assert ("/device:GPU:0", "line 1", "all-reduce.2", 20, 90) in found
    assert [s[2:] for s in found if s[1] == "Steps"][1] == ("1", 100, 200)
    assert [s[2:] for s in found if s[1] == "XLA Modules"][1] == ("jit_step", 100, 190)
    events = json.loads(path.read_text())["traceEvents"]
    fusion = next(e for e in events if e["name"] == "fusion.1" and e["ts"] == 0.1)
    assert fusion["cat"] == "compute"
    assert fusion["args"]["hlo_op"] == "fusion.1"
    assert fusion["args"]["hlo_module"] == "jit_step"
    assert fusion["args"]["step"] == 1
    collective = next(e for e in events if e["name"] == "all-reduce.2")
    assert collective["cat"] == "collective"
    assert collective["args"]["collective"] == "all-reduce"


def test_protobuf_says_the_same_as_json(tmp_path: Path) -> None:
    timeline = made(recording(steps() + steps(device=1)))
    text = write_perfetto(timeline, tmp_path / "a.json")
    packed = write_perfetto(timeline, tmp_path / "a.json.gz")
    proto = write_perfetto(timeline, tmp_path / "a.pftrace")
    assert json_slices(text) == json_slices(packed)
    assert sorted(proto_slices(proto)) == sorted(json_slices(text))


def test_protobuf_interns_names_and_annotates_slices(tmp_path: Path) -> None:
    path = write_perfetto(made(recording(steps(3))), tmp_path / "a.pftrace")
    found = list(packets(path))
    assert found[0].sequence_flags == 1  # Perfetto: the names that follow start anew
    assert all(packet.trusted_packet_sequence_id == 1 for packet in found)
    keys: dict[int, str] = {}
    texts: dict[int, str] = {}
    said: list[dict[str, str | int]] = []
    for packet in found:
        keys |= {name.iid: name.name for name in packet.interned_data.debug_annotation_names}
        values = packet.interned_data.debug_annotation_string_values
        texts |= {name.iid: name.name for name in values}
        if packet.track_event.type == 1:
            annotations = packet.track_event.debug_annotations
            said.append(
                {
                    keys[one.name_iid]: texts.get(one.string_value_iid) or one.int_value
                    for one in annotations
                }
            )
    ops = [words for words in said if words.get("hlo_op") == "fusion.1"]
    assert [words["step"] for words in ops] == [0, 1, 2]
    assert {words["hlo_module"] for words in ops} == {"jit_step"}


@pytest.mark.parametrize(
    "name", [TRACES[0], *(pytest.param(it, marks=pytest.mark.system) for it in TRACES[1:])]
)
def test_a_real_profile_reads_back_as_it_was(shared: Path, tmp_path: Path, name: str) -> None:
    before = opened(shared / "data/traces" / name)
    path = write_perfetto(before, tmp_path / "out.json.gz")
    after = read_trace_json(path, "out")
    assert [(d.kind, d.ordinal) for d in after.devices] == [
        (d.kind, d.ordinal) for d in before.devices
    ]
    assert not after.truncated
    expected = spans_by_place(before)
    again = wide(after).select("device", "start_ps", "dur_ps", "name", "op")
    found = again.sort("device", "start_ps", "dur_ps", "name")
    # Starts and ends in whole nanoseconds, rounded down; everything else as it was.
    assert found["start_ps"].to_list() == expected["start_ps"].to_list()
    assert found["dur_ps"].to_list() == expected["dur_ps"].to_list()
    assert found["device"].to_list() == expected["device"].to_list()
    assert found["name"].to_list() == expected["name"].to_list()
    assert found["op"].to_list() == expected["op"].to_list()
    assert len(after.executions) == len(before.runs)
    assert len(after.markers) == len(before.steps)


@pytest.mark.system
@pytest.mark.parametrize("name", TRACES)
def test_a_real_profile_is_the_same_in_both_formats(
    shared: Path, tmp_path: Path, name: str
) -> None:
    timeline = opened(shared / "data/traces" / name)
    text = write_perfetto(timeline, tmp_path / "out.json")
    proto = write_perfetto(timeline, tmp_path / "out.pftrace")
    assert sorted(proto_slices(proto)) == sorted(json_slices(text))


def spans_by_place(timeline: Timeline) -> pl.DataFrame:
    """Spans as a trace can hold them, sorted as `found` above."""
    devices = [f"{d.kind}{d.ordinal}" for d in timeline.devices]
    start, dur = timeline.spans["start_ps"].to_numpy(), timeline.spans["dur_ps"].to_numpy()
    start_ns, end_ns = start // 1000, (start + dur) // 1000
    ops = timeline.ops[timeline.spans["op"]]
    return pl.DataFrame(
        {
            "device": [devices[d] for d in timeline.spans["device"].to_list()],
            "start_ps": start_ns * 1000,
            "dur_ps": (end_ns - start_ns) * 1000,
            "name": ops["name"],
            "op": ops["op"],
        }
    ).sort("device", "start_ps", "dur_ps", "name")


def test_what_overlaps_gets_a_row_of_its_own(tmp_path: Path) -> None:
    spans = [
        Span("a", 0, 100),
        Span("inside a", 10, 50),
        Span("across", 60, 80),
        Span("after all", 140, 5),
    ]
    path = write_perfetto(made(recording(spans)), tmp_path / "a.json")
    threads: dict[str, int] = {
        e["name"]: e["tid"]
        for e in json.loads(path.read_text())["traceEvents"]
        if e["ph"] == "X" and e["cat"] not in ("step", "run")
    }
    assert threads["a"] == threads["inside a"] == threads["after all"]
    assert threads["across"] == threads["a"] + 1
    assert {s[1] for s in json_slices(path)} == {"line 0", "Steps", "XLA Modules"}


intervals = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 30)), max_size=40)


@given(intervals)
def test_in_a_row_slices_follow_or_contain_each_other(pairs: list[tuple[int, int]]) -> None:
    start = np.array([at for at, _ in pairs], np.int64)
    end = start + np.array([length for _, length in pairs], np.int64)
    by_start = order(start, end)
    start, end = start[by_start], end[by_start]
    row = rows(start, end)
    for a in range(len(start)):
        for b in range(a + 1, len(start)):
            if row[a] == row[b]:
                assert start[b] >= end[a] or end[b] <= end[a]
    crowds = [int(((start <= at) & (at < end)).sum()) for at in start.tolist()]
    assert row.max(initial=0) < max(crowds, default=1) or row.max(initial=0) == 0


@pytest.mark.system
@given(intervals)
def test_whatever_overlaps_both_formats_agree(
    tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[int, int]]
) -> None:
    directory = tmp_path_factory.mktemp("trace")
    spans = [Span(f"op.{n}", at, length) for n, (at, length) in enumerate(pairs)]
    timeline = made(recording(spans, devices=1))
    text = json_slices(write_perfetto(timeline, directory / "a.json"))
    proto = proto_slices(write_perfetto(timeline, directory / "a.pftrace"))
    assert sorted(text) == sorted(proto)
    expected = [(f"op.{n}", at, at + length) for n, (at, length) in enumerate(pairs)]
    assert sorted(s[2:] for s in text if s[1] == "line 0") == sorted(expected)


def test_times_before_zero_are_shifted_and_it_is_said(tmp_path: Path) -> None:
    path = write_perfetto(
        made(recording([Span("a", -50, 20), Span("b", 10, 5)])), tmp_path / "a.json"
    )
    found = {s[2]: s[3:] for s in json_slices(path)}
    assert found["a"] == (0, 20)
    assert found["b"] == (60, 65)
    assert json.loads(path.read_text())["otherData"]["times_shifted_by_ps"] == 50_000


def test_hosts_keep_their_devices_apart(tmp_path: Path) -> None:
    two = made(recording(steps(), host="a"), recording(steps(), host="b"))
    path = write_perfetto(two, tmp_path / "two.json.gz")
    assert {s[0] for s in json_slices(path)} == {"a /device:GPU:0", "b /device:GPU:0"}
    assert len(read_trace_json(path, "two").devices) == 2


def test_an_empty_timeline_is_an_empty_trace(tmp_path: Path) -> None:
    nothing = made(recording([], devices=1))
    assert json_slices(write_perfetto(nothing, tmp_path / "a.json")) == []
    assert proto_slices(write_perfetto(nothing, tmp_path / "a.pftrace")) == []


@pytest.mark.parametrize("name", ["a.json", "a.json.gz", "a.pftrace"])
def test_the_same_timeline_gives_the_same_bytes(tmp_path: Path, name: str) -> None:
    timeline = made(recording(steps()))
    first = write_perfetto(timeline, tmp_path / name).read_bytes()
    assert write_perfetto(timeline, tmp_path / name, overwrite=True).read_bytes() == first


def test_nothing_is_overwritten_unless_told(tmp_path: Path) -> None:
    timeline, path = made(recording(steps())), tmp_path / "a.json"
    path.write_text("precious")
    with pytest.raises(UsageError, match="exists") as refused:
        write_perfetto(timeline, path)
    assert "--force" in str(refused.value)
    assert path.read_text() == "precious"
    write_perfetto(timeline, path, overwrite=True)
    assert json_slices(path)


def test_a_directory_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "a.json").mkdir()
    with pytest.raises(UsageError, match="exists"):
        write_perfetto(made(recording(steps())), tmp_path / "a.json", overwrite=True)


def test_a_name_without_a_known_ending_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not a file") as refused:
        write_perfetto(made(recording(steps())), tmp_path / "a.perfetto")
    assert ".pftrace" in str(refused.value)


def test_a_place_that_cannot_be_written_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="can't write"):
        write_perfetto(made(recording(steps())), tmp_path / "file" / "a.json")


@pytest.mark.parametrize("name", ["a.json", "a.json.gz", "a.pftrace"])
def test_an_interruption_leaves_what_was_there(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    timeline, path = made(recording(steps())), tmp_path / name
    path.write_text("old")

    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(pl.DataFrame, "partition_by", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_perfetto(timeline, path, overwrite=True)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("basis", ["predicted", "measured"])
def test_the_basis_and_the_chip_come_back(basis: str, tmp_path: Path) -> None:
    chip = Device(ordinal=0, kind="gpu", chip="Some GPU", peak_flops=1e15, peak_bytes=3e12)
    wrote = replace(made(recording(steps())), basis=Basis(basis), devices=(chip,))
    path = write_perfetto(wrote, tmp_path / "t.json.gz")
    back = read(str(path))
    assert back.basis is Basis(basis)
    assert back.devices == (chip,)
    assert back.hosts[0].name == wrote.hosts[0].name
    assert set(wrote.notes) <= set(back.notes)


@pytest.mark.system
@pytest.mark.parametrize("jobs", [1, 2])
def test_the_target_and_the_range_of_a_prediction_come_back(tmp_path: Path, jobs: int) -> None:
    wrote = replace(
        made(recording(steps())),
        basis=Basis.PREDICTED,
        target="2x8xH100",
        predicted_range=Range(0.009, 0.012),
    )
    paths = [tmp_path / "host-0.json", tmp_path / "host-1.json"]
    for path in paths:
        write_perfetto(wrote, path)
    back = read(*paths, jobs=jobs)
    assert (back.target, back.predicted_range) == ("2x8xH100", Range(0.009, 0.012))


def test_a_trace_of_an_earlier_version_has_its_target(tmp_path: Path) -> None:
    path = write_perfetto(
        replace(made(recording(steps())), basis=Basis.PREDICTED), tmp_path / "t.json"
    )
    trace = json.loads(path.read_text())
    del trace["otherData"]["target"], trace["otherData"]["predicted_range_s"]
    trace["otherData"]["hosts"] = ["one device stands for 16 of 2x8xH100"]
    path.write_text(json.dumps(trace))
    assert read(path).target == "2x8xH100"


@pytest.mark.parametrize(
    "about", [[], {"writer": 3}, {"writer": "counterpoint 1", "basis": [], "devices": [7, {}]}]
)
def test_a_head_of_another_shape_says_nothing(about: object, tmp_path: Path) -> None:
    path = write_perfetto(made(recording(steps())), tmp_path / "t.json")
    trace = json.loads(path.read_text())
    path.write_text(json.dumps({**trace, "otherData": about}))
    assert read(str(path)).basis is Basis.MEASURED


def test_predicted_and_measured_are_not_hosts_of_one_run(tmp_path: Path) -> None:
    one = made(recording(steps()))
    first = write_perfetto(one, tmp_path / "a.json")
    second = write_perfetto(replace(one, basis=Basis.PREDICTED), tmp_path / "b.json")
    with pytest.raises(InputError, match="not hosts of"):
        read(str(first), str(second))


@pytest.mark.parametrize("number", [10**400, float("inf"), float("nan"), -1.0, "x"])
def test_peaks_and_ranges_that_are_no_numbers_are_unknown(number: object, tmp_path: Path) -> None:
    chip = Device(ordinal=0, kind="gpu", peak_flops=1e15, peak_bytes=3e12)
    wrote = replace(
        made(recording(steps())),
        devices=(chip,),
        basis=Basis.PREDICTED,
        predicted_range=Range(1, 2),
    )
    path = write_perfetto(wrote, tmp_path / "t.json")
    trace = json.loads(path.read_text())
    trace["otherData"]["devices"][0] |= {"peak_flops": number, "peak_bytes": number}
    trace["otherData"]["predicted_range_s"] = [1.0, number]
    path.write_text(json.dumps(trace))
    back = read(str(path))
    assert (back.devices[0].peak_flops, back.devices[0].peak_bytes) == (None, None)
    assert back.predicted_range is None
