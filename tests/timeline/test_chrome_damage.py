"""Broken, cut and hostile trace files: an InputError or an honest part, in bounded memory."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trace_builder import Event, packed, process, span, spans_of, text_of, thread

from counterpoint.core.errors import InputError
from counterpoint.timeline.chrome.reader import read_trace_json
from golden_files import Golden, cases
from refusals import refusal

EVENTS: list[Event] = [
    process(3, "/device:TPU:0"),
    thread(3, 2, "XLA Modules"),
    thread(3, 3, "XLA Ops"),
    thread(3, 5, "Steps"),
    process(701, "/host:CPU"),
    span((3, 2), 10, 25, "jit_f(123)", run_id="1"),
    span((3, 3), 11, 2, "add.1", hlo_category="add", long_name="%add.1 = f32[] add(%a, %b)"),
    span((3, 3), 14, 3, "é\u2028", source='a\\"b.py:1'),
    span((3, 5), 9, 30, "1"),
    span((701, 1), 1, 5, "dot.1", hlo_op="dot.1", device_ordinal="0"),
    {"ph": "B", "pid": 1, "tid": 1, "ts": 1, "name": "b"},
    {"ph": "E", "pid": 1, "tid": 1, "ts": 2},
    span((701, 2), 1, 5, "train", step_num="3"),
]


def random_names(count: int) -> list[Event]:
    """Spans that don't compress away."""
    device = [process(3, "/device:TPU:0"), thread(3, 3, "XLA Ops")]
    spans = [span((3, 3), n, 1, sha256(b"%d" % n).hexdigest()) for n in range(count)]
    return [*device, *spans]


@pytest.mark.parametrize("cut", [1, 6, 10, 500, 4000])
def test_a_text_cut_anywhere_gives_the_whole_events_before_the_cut(cut: int) -> None:
    events = random_names(200)
    text = text_of(events)
    closed = [text.index(str(event["name"]).encode()) + 66 for event in events[2:]]
    recording = read_trace_json(text[:-cut], "cut.json")
    assert len(recording.spans) == sum(end <= len(text) - cut for end in closed)
    assert recording.truncated is (cut > 1)  # the last byte closes the object behind the list
    assert any("cut off after" in note for note in recording.notes) is (cut > 1)


def test_a_cut_gzip_stream_gives_what_could_be_unpacked() -> None:
    data = packed(random_names(5000))
    recording = read_trace_json(data[: len(data) // 2], "cut.json.gz")
    assert recording.truncated
    assert 2000 < len(recording.spans) < 3000
    assert any("ends too early" in note for note in recording.notes)


def test_a_gzip_stream_with_a_wrong_checksum_is_read_but_not_trusted() -> None:
    data = bytearray(packed(random_names(5000)))
    data[-5] ^= 1
    recording = read_trace_json(bytes(data), "damaged.json.gz")
    assert len(recording.spans) == 5000
    assert recording.truncated
    assert any("is damaged" in note for note in recording.notes)


def test_a_damaged_event_ends_the_reading_and_is_told() -> None:
    text = text_of(random_names(100))
    middle = text.index(b'"ts":50,')
    recording = read_trace_json(text[:middle] + b"}}]" + text[middle:], "damaged.json")
    assert recording.truncated
    assert [row[3] for row in spans_of(recording)] == [n * 1_000_000 for n in range(50)]


NO_TRACES = {
    "nothing": b"",
    "a web page": b"<!DOCTYPE html><html>",
    "no list of events": b'{"a": [1, 2, 3]}',
    "a list of events within something": b'{"a": {"traceEvents": [{"ph":"X"}]}}',
    "a protobuf": b"\x0a\x05plane",
    "an empty list": b"[]",
    "a list that is cut off": b'{"traceEvents":[',
    "an event without duration": b'[{"ph":"X","ts":1}]',
    "a duration that is no number": b'[{"ph":"X","ts":1,"dur":NaN,"name":"a"}]',
    "an endless duration": b'[{"ph":"X","ts":1,"dur":1e999999999999,"name":"a"}]',
    "a start beyond all times": b'[{"ph":"X","ts":1e30,"dur":1,"name":"a"},' * 2,
    "a start of many digits": b'[{"ph":"X","ts":' + b"9" * 10_000 + b',"dur":1}]',
    "deep lists": b"[" * 100_000,
    "deep arguments": b'[{"ph":"X","ts":1,"dur":1,"args":' + b'{"a":' * 100_000,
    "nothing, packed": gzip.compress(b"", mtime=0),
    "a packed one cut off in its head": gzip.compress(text_of(EVENTS), mtime=0)[:5],
    "the first bytes of a packed one": b"\x1f\x8b",
}


@pytest.mark.parametrize("kind", NO_TRACES)
def test_what_is_not_a_trace_is_refused(kind: str) -> None:
    with pytest.raises(InputError, match=r"^bad\.json: ") as refused:
        read_trace_json(NO_TRACES[kind], "bad.json")
    assert refused.value.next


def test_how_it_is_refused(golden: Golden) -> None:
    golden(
        "no_traces.txt",
        cases(
            {
                kind: refusal(lambda data=data: read_trace_json(data, "bad.json"))
                for kind, data in NO_TRACES.items()
            }
        ),
    )


def test_odd_values_do_not_stop_the_reading() -> None:
    odd: list[object] = [
        None,
        7,
        [],
        {"ph": []},
        {"ph": "X", "ts": "1", "dur": 1},
        {"ph": "X", "ts": 1, "dur": -1},
        {"ph": "X", "ts": 1, "dur": 1, "pid": [], "tid": {}},
        {"ph": "M", "name": "process_name", "args": [], "pid": 3},
        {"ph": "M", "name": "process_name", "args": {"name": 5}, "pid": 3},
        {"ph": "M", "name": [], "args": {"name": "x"}, "pid": {}},
        {"ph": "B"},
        {"ph": "E", "ts": None},
        {"ph": "X", "ts": 1, "dur": 2, "name": ["n"], "args": {"hlo_op": {}}},
        {"ph": "X", "ts": 1, "dur": 2, "name": "\ud800", "pid": 3, "tid": 3, "args": 5},
        {
            **span((3, 3), 1, 2, "numbers", flops="many", bytes_accessed=-1, run_id="9" * 30),
            "cat": {},
        },
    ]
    text = json.dumps([*EVENTS[:3], *odd]).encode()
    recording = read_trace_json(text, "odd.json")
    assert not recording.truncated
    assert [row[2] for row in spans_of(recording)] == ["?", "numbers"]
    assert recording.ops.select("flops", "bytes").rows() == [(None, None)] * 2
    assert recording.spans["run_key"].to_list() == [None, None]
    assert any("5 events without" in note for note in recording.notes)


@pytest.mark.system
def test_a_gzip_bomb_is_refused_before_it_fills_the_memory() -> None:
    bomb = gzip.compress(
        b"[" + (b'{"a":"' + bytes(4000) + b'"},') * 50_000, compresslevel=1, mtime=0
    )
    tracemalloc.start()
    with pytest.raises(InputError, match="unpacks to more"):
        read_trace_json(bomb, "bomb.json.gz")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 150 << 20


@given(st.binary(max_size=300))
def test_any_bytes_are_refused_or_read(data: bytes) -> None:
    check(data)


@given(st.data())
def test_mutated_traces_are_refused_or_read(data: st.DataObject) -> None:
    text = bytearray(text_of(EVENTS))
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(text) - 1))
        text[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    check(bytes(text))


@given(st.data())
def test_mutated_packed_traces_are_refused_or_read(data: st.DataObject) -> None:
    stream = bytearray(packed(EVENTS))
    for _ in range(data.draw(st.integers(1, 3))):
        stream[data.draw(st.integers(0, len(stream) - 1))] = data.draw(st.integers(0, 255))
    check(bytes(stream[: data.draw(st.integers(0, len(stream)))]))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=3,
)
event_fields = st.sampled_from(["ph", "pid", "tid", "ts", "dur", "name", "cat", "args"])


any_event = st.dictionaries(event_fields, json_values | st.sampled_from(["X", "B", "E", "M"]))


@given(st.lists(any_event, max_size=4))
def test_events_of_any_shape_are_refused_or_read(events: list[Event]) -> None:
    check(json.dumps([*EVENTS, *events]).encode())


def check(data: bytes) -> None:
    """Nothing but an InputError, or a Recording whose tables fit together."""
    try:
        recording = read_trace_json(data, "any.json")
    except InputError:
        return
    spans = recording.spans
    assert spans["op"].max() is None or spans["op"].max() < len(recording.ops)  # type: ignore[operator]
    assert spans["device"].max() is None or spans["device"].max() < len(recording.devices)  # type: ignore[operator]
    assert spans["line"].max() is None or spans["line"].max() < len(recording.lines)  # type: ignore[operator]
    assert (spans["dur_ps"] >= 0).all()
