"""Transfers between TPU slices: what is read of Megascale's plane and of host threads."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from megascale_fixture import BYTES, RENDEZVOUS, Scene, files, write
from xspace_builder import (
    MS,
    US,
    Plane,
    Unsigned,
    field_bytes,
    host,
    message,
    tpu,
    tpu_op,
    xspace,
)

from counterpoint.timeline.host_transfers import host_transfers
from counterpoint.timeline.hosts.assemble import assemble
from counterpoint.timeline.model import Action, Timeline
from counterpoint.timeline.reading import read
from counterpoint.timeline.recording import Recording
from counterpoint.timeline.storage.parquet import read_parquet, write_parquet
from counterpoint.timeline.xplane.reader import read_xplane

PLANE = "/device:CUSTOM:Megascale Trace"
KEY = "device_200001_gid_psum.7_0$l456^i78"


def opened(scene: Scene, into: Path) -> Timeline:
    return read(*write(scene, into))


def recorded(*planes: Plane) -> Recording:
    return read_xplane(memoryview(xspace(*planes)), "host.xplane.pb")


def cores(count: int) -> list[Plane]:
    made = [tpu(ordinal) for ordinal in range(count)]
    for core in made:
        tpu_op(core, "%fusion.1 = f32[8]{0} fusion(f32[8]{0} %p)", 0, MS, hlo_category="fusion")
    return made


def graph(*events: tuple[str, int, int, dict[str, int | str]], key: str = KEY) -> Plane:
    """Megascale's plane: name, start and duration in us, and args."""
    plane = Plane(PLANE)
    for name, start, length, args in events:
        plane.add("track", name, start * US, length * US, {"graph_key": key, **args})
    return plane


def test_every_action_of_every_device_is_read_with_its_true_length(tmp_path: Path) -> None:
    timeline = opened(Scene(steps=4), tmp_path)
    counts = timeline.transfers.group_by("action").len()
    assert dict(counts.filter(pl.col("action") != Action.MAP_BUFFER).rows()) == dict.fromkeys(
        ["device-to-host", "network-send", "network-receive", "host-to-device"], 2 * 4 * 4
    )
    received = timeline.transfers.filter(pl.col("action") == Action.RECEIVE)
    # The line shows 20 us of each: the action took 4 ms, from 0.5 ms after the send.
    assert received["dur_ps"].unique().to_list() == [4 * MS]
    assert received["latency_ps"].unique().to_list() == [4 * MS]
    assert received["bytes"].unique().to_list() == [BYTES]
    assert received["name"].unique().to_list() == [RENDEZVOUS]
    assert received.sort("start_ps", "device").select("start_ps", "device", "peer").row(0) == (
        104_500 * US,
        0,
        "200000",
    )


def test_the_plane_is_no_longer_noted_as_not_read(tmp_path: Path) -> None:
    assert not [note for note in opened(Scene(), tmp_path).notes if "Megascale" in note]


def test_an_end_without_a_length_lasts_from_its_start() -> None:
    plane = graph(
        ("NetworkSend START", 100, 0, {"action_index": 1}),
        ("NetworkSend START", 120, 0, {"action_index": 2}),
        ("NetworkSend END", 900, 100, {"action_index": 1}),
        ("NetworkSend END", 990, 20, {"action_index": 2}),
        ("HostToDevice END", 2000, 7, {"action_index": 3}),
    )
    rows = recorded(*cores(1), plane).transfers
    assert rows.select("action", "start_ps", "dur_ps").rows() == [
        ("network-send", 100 * US, 900 * US),
        ("network-send", 120 * US, 890 * US),
        ("host-to-device", 2000 * US, 7 * US),
    ]


def test_what_a_device_sends_to_itself_is_left_out_and_counted() -> None:
    plane = graph(
        ("NetworkSend END", 0, 9, {"buffer_sizes": "s200001->200001d|$c0=64"}),
        (
            "NetworkSend END",
            10,
            9,
            {"buffer_sizes": "s200001->200001d|$c0=64,s200001->100001d|$c0=100,"
             "s200001->300001d|$c1=100"},
        ),
    )  # fmt: skip
    recording = recorded(*cores(1), plane)
    assert recording.transfers.select("bytes", "peer").rows() == [(200, "100001,300001")]
    assert any(note.startswith("1 transfers of a") for note in recording.notes)


@pytest.mark.parametrize("latency", [Unsigned(0), Unsigned((1 << 64) - 20)])
def test_a_latency_that_clocks_made_impossible_is_not_known(latency: int) -> None:
    plane = graph(("NetworkReceive END", 50, 9, {"network_transport_latency_us": latency}))
    assert recorded(*cores(1), plane).transfers["latency_ps"].to_list() == [None]


def test_devices_are_told_by_their_order_and_else_by_their_place() -> None:
    def keyed(number: int) -> Plane:
        event = ("HostToDevice END", 0, 1, {})
        return graph(event, key=f"device_{number}_gid_x_0$l1^i0")

    all_of_them = [keyed(number) for number in (200_012, 200_004, 200_013, 200_005)]
    rows = recorded(*cores(4), *all_of_them).transfers
    assert rows["device"].to_list() == [2, 0, 3, 1]
    assert recorded(*cores(4), keyed(200_006)).transfers["device"].to_list() == [2]
    unclear = recorded(*cores(4), keyed(200_002), keyed(200_006))
    assert unclear.transfers["device"].to_list() == [None, None]
    assert any(note.startswith("2 transfers belong") for note in unclear.notes)


def test_messages_on_host_threads_start_when_they_were_sent(tmp_path: Path) -> None:
    timeline = opened(Scene(steps=3, plane=False, messages=True, loopback=True), tmp_path)
    rows = timeline.transfers.filter(pl.col("action") == Action.RECEIVE)
    assert len(rows) == 2 * 4 * 3
    first = rows.sort("start_ps", "device").select("device", "start_ps", "dur_ps", "bytes", "peer")
    assert first.row(0) == (0, 104_500 * US, 4 * MS, BYTES, "2/0")
    assert any(note.startswith("12 messages of a") for note in timeline.notes)


def test_messages_are_not_counted_twice_where_the_plane_has_them_too(tmp_path: Path) -> None:
    timeline = opened(Scene(steps=3, messages=True), tmp_path)
    assert len(timeline.transfers.filter(pl.col("action") == Action.RECEIVE)) == 2 * 4 * 3


def test_messages_between_clocks_that_differ_have_no_time_and_are_left_out(tmp_path: Path) -> None:
    timeline = opened(Scene(steps=3, plane=False, messages=True, skewed=True), tmp_path)
    assert not len(timeline.transfers.filter(pl.col("action") == Action.RECEIVE))
    assert "12 messages between slices" in "\n".join(timeline.notes)


def test_one_host_without_transfers_leaves_the_others_theirs(tmp_path: Path) -> None:
    with_them, _ = files(Scene(steps=3))
    (tmp_path / "a.xplane.pb").write_bytes(with_them)
    _, without = files(Scene(steps=3, plane=False))
    (tmp_path / "b.xplane.pb").write_bytes(without)
    timeline = read(tmp_path / "a.xplane.pb", tmp_path / "b.xplane.pb")
    assert len(timeline.transfers.filter(pl.col("action") == Action.RECEIVE)) == 4 * 3


@pytest.mark.parametrize(
    ("size", "bytes_"),
    [("4.29GB", 4_290_000_000), ("512B", 512), ("29.70KB", 29_700), ("2MiB", 1 << 21),
     (4096, 4096), ("much", None)],
)  # fmt: skip
def test_registrations_are_read_with_their_sizes(size: str | int, bytes_: int | None) -> None:
    threads = host()
    threads.add("pjrt", "MapDmaBuffer", 5 * US, 30 * US, {"size": size})
    threads.add("pjrt", "UnmapDmaBuffer", 50 * US, 30 * US, {"size": size})
    threads.add("python", "MapDmaBuffers are fine", 50 * US, 30 * US)
    rows = recorded(*cores(1), threads).transfers
    assert rows.select("action", "device", "dur_ps", "bytes").rows() == [
        ("map-dma-buffer", None, 30 * US, bytes_)
    ]


def test_memory_copies_count_by_their_name_or_by_the_line_they_lie_on() -> None:
    threads = host()
    threads.add("worker", "Megascale: Memory Copy", 0, US)
    threads.add("Communication Transport/3", "memcpy", 2 * US, US)
    threads.add("python", "memcpy", 4 * US, US)
    rows = recorded(*cores(1), threads).transfers
    assert rows.select("action", "start_ps").rows() == [
        ("memory-copy", 0),
        ("memory-copy", 2 * US),
    ]


def test_sends_and_receives_between_slices_are_one_collective_of_its_kind(tmp_path: Path) -> None:
    timeline = opened(Scene(), tmp_path)
    ops = timeline.ops.filter(pl.col("pair") == "send.3")
    assert ops.select("opcode", "lane", "collective", "bytes", "group_size").rows() == [
        (opcode, "collective", "all-reduce", BYTES, 2)
        for opcode in ("send", "recv", "send-done", "recv-done")
    ]
    assert ops["done_position"].to_list() == [7, None, None, None]
    found = host_transfers(timeline)
    assert found["role"].to_list() == ["send", "recv", "send-done", "recv-done"]
    assert found["rendezvous"].unique().to_list() == [RENDEZVOUS]
    assert found["wire_bytes"].unique().to_list() == [BYTES]  # 2 (n - 1) / n of two slices


def test_the_text_of_each_op_is_enough(tmp_path: Path) -> None:
    timeline = opened(Scene(hlo=False), tmp_path)
    ops = timeline.ops.filter(pl.col("lane") == "collective")
    assert ops["pair"].to_list() == ["send.3"] * 4
    assert ops["collective"].unique().to_list() == ["all-reduce"]
    assert host_transfers(timeline)["rendezvous"].to_list() == [None] * 4


def test_the_profilers_note_tells_the_slices_where_the_text_does_not() -> None:
    attributes = (
        'frontend_attributes={_xla_host_transfer_rendezvous="x_0",'
        '_xla_megascale_transfer_type="REDUCE_SCATTER"}'
    )
    endpoints = b"".join(field_bytes(1, message((1, slice_id))) for slice_id in (1, 2, 3, 4))
    note = message((1, 3), (2, endpoints), (2, b""))
    core = tpu(0)
    for name, text in (
        (
            "send",
            f"(f32[1024]{{0}}, u32[], token[]) send(f32[1024]{{0}} %p, token[] %t), {attributes}",
        ),
        ("recv", f"(f32[256]{{0}}, u32[], token[]) recv(token[] %t), {attributes}"),
    ):
        told = f"%{name}.1 = {text}, channel_id=1, is_host_transfer=true, {attributes}"
        core.describe(told, {"hlo_category": f"host {name}", "dcn_collective_info": note})
        core.add("XLA Ops", told, 0, US)
    recording = recorded(core)
    ops = assemble([recording], ["x"]).ops
    # Received 1 KiB of 4 KiB in all, of which each of four sends three quarters.
    assert ops.select("collective", "bytes", "group_size", "bus_factor").unique().rows() == [
        ("reduce-scatter", 4096, 4, 0.75)
    ]


def test_transfers_are_stored_and_older_timelines_open_without_them(tmp_path: Path) -> None:
    timeline = opened(Scene(steps=3), tmp_path)
    kept = write_parquet(timeline, tmp_path / "kept.parquet")
    assert read_parquet(kept).transfers.equals(timeline.transfers)
    (kept / "transfers.parquet").unlink()
    assert not len(read_parquet(kept).transfers)


def test_a_trace_json_tells_the_same_of_transfers(tmp_path: Path) -> None:
    def event(process: int, name: str, start: float, length: float, **args: object) -> object:
        return {"ph": "X", "pid": process, "tid": 1, "name": name, "ts": start, "dur": length,
                "args": args}  # fmt: skip

    def names(process: int, name: str, thread: str) -> list[object]:
        return [
            {"ph": "M", "pid": process, "name": "process_name", "args": {"name": name}},
            {"ph": "M", "pid": process, "tid": 1, "name": "thread_name", "args": {"name": thread}},
        ]

    sizes = "s100001->200001d|$c0=1000"
    told = {"graph_key": KEY, "action_duration_ns": "40000", "buffer_sizes": sizes,
            "network_transport_latency_us": "30"}  # fmt: skip
    events = [
        *names(1, "/device:TPU:0", "XLA Ops"),
        *names(2, "/host:CPU", "pjrt"),
        *names(3, PLANE, "track"),
        event(1, "fusion.1", 0, 900, hlo_category="fusion"),
        event(2, "MapDmaBuffer", 10, 30, size="4.29GB"),
        event(3, "NetworkReceive END", 90, 10, **told),
    ]
    path = tmp_path / "host.trace.json"
    path.write_text(json.dumps({"traceEvents": events}))
    rows = read(path).transfers.drop("host", "line", "name")
    assert rows.rows() == [
        (None, "map-dma-buffer", 10 * US, 30 * US, 4_290_000_000, None, None),
        (0, "network-receive", 60 * US, 40 * US, 1000, 30 * US, "100001"),
    ]
