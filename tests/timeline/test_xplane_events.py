"""Events by column against google.protobuf's own reading of the same bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xspace_builder import Value, field_bytes, message, varint

from counterpoint.core.wire import Malformed
from counterpoint.hlo.wire_schema import message_classes
from counterpoint.timeline.xplane import native
from counterpoint.timeline.xplane.events import EventSelection, Strings
from counterpoint.timeline.xplane.lines import read_events

Kept = dict[str, int | str]
Row = tuple[int, int, int, Kept]

LINE = message_classes(
    "counterpoint.xplane.oracle",
    """
    Line
      4 events Event*
    Event
      1 metadata_id int64
      2 offset_ps int64
      3 duration_ps int64
      4 stats Stat*
      5 num_occurrences int64
    Stat
      1 metadata_id int64
      2 double_value double
      3 uint64_value uint64
      4 int64_value int64
      5 str_value bytes
      6 bytes_value bytes
      7 ref_value uint64
    """,
)["Line"]

NAMES = {1: "fusion.3", 2: "all-reduce", 3: "jit_step", 70_000: "far away"}
WANTED = EventSelection(
    stats={4: "hlo_op", 9: "program_id", 300: "run_id"}, skipped=frozenset[int]()
)

COMPILED = native.is_available()


@pytest.fixture(scope="module", autouse=True, params=["compiled", "Python"])
def decoder(request: pytest.FixtureRequest) -> Iterator[None]:
    """Every test of this module reads with both decoders."""
    if request.param == "compiled" and not COMPILED:
        pytest.skip("the compiled decoder was not built: there is no Rust compiler")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "is_available", lambda: request.param == "compiled")
        yield


def by_column(data: bytes, wanted: EventSelection = WANTED) -> tuple[list[Row], int]:
    strings = Strings(NAMES)
    rows: list[Row] = []
    skipped = 0
    for events, dropped in read_events(memoryview(data), 0, len(data), wanted, strings):
        skipped += dropped
        times = (events.metadata.tolist(), events.offset_ps.tolist(), events.duration_ps.tolist())
        for at, (metadata, offset, duration) in enumerate(zip(*times, strict=True)):
            kept: Kept = {}
            for name, stat in events.stats.items():
                if stat.known[at]:
                    value = int(stat.value[at])
                    kept[name] = strings.get(value) or "" if stat.is_text[at] else value
            rows.append((metadata, offset, duration, kept))
    return rows, skipped


def by_protobuf(data: bytes, wanted: EventSelection = WANTED) -> list[Row]:
    return [
        (event.metadata_id, event.offset_ps, event.duration_ps, _kept(event.stats, wanted))
        for event in LINE.FromString(data).events
        if event.metadata_id not in wanted.skipped and not event.num_occurrences
    ]


def _kept(stats: Sequence[Any], wanted: EventSelection) -> Kept:
    kept: Kept = {}
    for stat in stats:
        name = wanted.stats.get(stat.metadata_id)
        if name is None:
            continue
        if stat.ref_value:
            kept[name] = NAMES.get(stat.ref_value, "")
        elif stat.str_value or stat.bytes_value:
            kept[name] = (stat.str_value or stat.bytes_value).decode("utf-8", "replace")
        elif not stat.double_value:
            unsigned = stat.int64_value or stat.uint64_value
            kept[name] = unsigned - (1 << 64) if unsigned >> 63 == 1 else unsigned
    return kept


whole = st.integers(-(2**63), 2**63 - 1)
values = st.one_of(
    st.tuples(st.just(2), st.floats(allow_nan=False).filter(bool)),
    st.tuples(st.just(3), st.integers(0, 2**64 - 1)),
    st.tuples(st.just(4), whole),
    st.tuples(st.just(5), st.text(min_size=1)),
    st.tuples(st.just(6), st.binary(min_size=1)),
    st.tuples(st.just(7), st.sampled_from([*NAMES, 99])),
)


@st.composite
def stat_fields(draw: st.DrawFn) -> list[tuple[int, Value]]:
    """At most one of each kind of stat: the profilers write none twice."""
    ids = draw(st.lists(st.sampled_from([0, 1, 4, 9, 300, 2**40, -1]), max_size=6, unique=True))
    return [(4, message((1, one), draw(values))) for one in ids]


@st.composite
def ordered(draw: st.DrawFn) -> bytes:
    """An event as C++ writes it: in order, zeros left out, or not."""
    head = [(1, draw(whole)), (2, draw(whole)), (3, draw(whole))]
    kept: list[tuple[int, Value]] = [field for field in head if draw(st.booleans())]
    return field_bytes(4, message(*kept, *draw(stat_fields())))


unknown = st.one_of(
    st.tuples(st.just(6), st.binary()),
    st.tuples(st.integers(7, 2**20), st.one_of(whole, st.floats(), st.binary())),
)


@st.composite
def disordered(draw: st.DrawFn) -> bytes:
    """The same fields in any order, some of them twice, others that no schema knows between."""
    # An offset and a count exclude each other.
    numbers = draw(st.sampled_from([(1, 2, 3), (1, 3, 5)]))
    head = st.tuples(st.sampled_from(numbers), whole.filter(bool))
    fields = [*draw(st.lists(st.one_of(head, unknown), max_size=8)), *draw(stat_fields())]
    return field_bytes(4, message(*draw(st.permutations(fields))))


other_fields_of_a_line = st.tuples(st.sampled_from([9, 10, 11, 12]), st.one_of(whole, st.text()))


@given(st.lists(ordered()))
def test_events_are_what_protobuf_reads(events: list[bytes]) -> None:
    data = b"".join(events)
    assert by_column(data) == (by_protobuf(data), 0)


@given(st.lists(st.one_of(ordered(), disordered(), other_fields_of_a_line.map(message))))
def test_no_order_of_fields_changes_an_event(pieces: list[bytes]) -> None:
    data = b"".join(pieces)
    assert by_column(data) == (by_protobuf(data), 0)


@pytest.mark.system
@given(st.lists(ordered()), st.integers(0, 2**32))
def test_many_blocks_read_like_one(events: list[bytes], seed: int) -> None:
    order = np.random.default_rng(seed)
    chosen = [events[one] for one in order.integers(len(events), size=3000)] if events else []
    data = b"".join(chosen)
    assert by_column(data) == (by_protobuf(data), 0)


def test_a_line_of_several_blocks_loses_nothing() -> None:
    event = field_bytes(4, message((1, 1), (2, 10**13), (3, 7)) + message((4, b"\x08\x09\x20\x05")))
    count = (20 << 20) // len(event)
    data = memoryview(event * count)
    batches = [batch for batch, _ in read_events(data, 0, len(data), WANTED, Strings(NAMES))]
    assert sum(len(batch) for batch in batches) == count
    assert all((batch.stats["program_id"].value == 5).all() for batch in batches)


def test_an_event_larger_than_a_block_is_read() -> None:
    text = "x" * (9 << 20)
    small = field_bytes(4, message((1, 1), (2, 1), (3, 1)))
    large = field_bytes(4, message((1, 2), (2, 2), (3, 2), (4, message((1, 4), (5, text)))))
    rows, _ = by_column(small + large + small)
    assert [row[:3] for row in rows] == [(1, 1, 1), (2, 2, 2), (1, 1, 1)]
    assert rows[1][3] == {"hlo_op": text}


def test_book_keeping_is_skipped_and_counted() -> None:
    wanted = EventSelection(stats=WANTED.stats, skipped=frozenset({7}))
    kinds = [1, 7, 7, 2, 7]
    data = b"".join(field_bytes(4, message((1, kind), (2, 5), (3, 1))) for kind in kinds)
    rows, skipped = by_column(data, wanted)
    assert (rows, skipped) == (by_protobuf(data, wanted), 3)


def test_a_count_of_events_is_no_event() -> None:
    stat = (4, message((1, 9), (4, 5)))
    event = field_bytes(4, message((1, 1), (2, 10), (3, 5), stat))
    count = field_bytes(4, message((1, 1), (3, 500), stat, (5, 100)))
    data = memoryview(event + count + count)
    ((events, _),) = read_events(data, 0, len(data), WANTED, Strings(NAMES))
    assert (len(events), events.summaries) == (1, 2)
    assert events.stats["program_id"].value.tolist() == [5]


def test_spelled_out_texts_share_one_id() -> None:
    event = field_bytes(4, message((1, 1), (4, message((1, 4), (5, "fusion.9")))))
    strings = Strings(NAMES)
    data = memoryview(event * 3)
    ((events, _),) = read_events(data, 0, len(data), WANTED, strings)
    assert len(set(events.stats["hlo_op"].value.tolist())) == 1
    assert strings[int(events.stats["hlo_op"].value[0])] == "fusion.9"


@pytest.mark.parametrize("id", [2**60, -1])
def test_an_absurd_id_of_a_stat_costs_no_memory(id: int) -> None:
    wanted = EventSelection(stats={id: "hlo_op"}, skipped=frozenset[int]())
    with pytest.raises(Malformed):
        by_column(field_bytes(4, message((1, 1), (4, message((1, id), (7, 2))))), wanted)


@given(st.lists(ordered(), min_size=1), st.data())
def test_damaged_events_are_read_or_refused(events: list[bytes], draw: st.DataObject) -> None:
    data = bytearray(b"".join(events))
    at = draw.draw(st.integers(0, len(data) - 1))
    data[at] ^= 1 << draw.draw(st.integers(0, 7))
    cut = draw.draw(st.integers(0, len(data)))
    try:
        by_column(bytes(data[:cut]))
    except Malformed:
        return


@pytest.mark.parametrize("unknown", [(8, 1), (9, b"text")], ids=["number", "text"])
@pytest.mark.parametrize("first", [(4, 7), None], ids=["beside a value", "alone"])
def test_a_field_of_a_later_version_is_no_value(
    unknown: tuple[int, Value], first: tuple[int, Value] | None
) -> None:
    """In whichever way a decoder reads the event: these have few fields, or one too many."""
    stat = message((1, 9), *([first] if first else []), unknown)
    kept = {"program_id": 7} if first else {}
    for more in ((), ((6, 1),)):
        event = message((1, 1), (2, 0), (3, 5), *more, (4, stat))
        assert by_column(field_bytes(4, event)) == ([(1, 0, 5, kept)], 0)


@pytest.mark.parametrize("size", [1 << 40, 1 << 60, (1 << 63) - 1])
def test_a_length_that_claims_exabytes_is_refused(size: int) -> None:
    claims = [
        b"\x22" + varint(size) + b"\x08\x01",
        field_bytes(4, message((1, 1)) + b"\x22" + varint(size) + b"\x08\x04"),
        field_bytes(4, message((1, 1), (4, message((1, 4)) + b"\x2a" + varint(size) + b"x"))),
    ]
    for data in claims:
        with pytest.raises(Malformed):
            by_column(data)


@pytest.mark.system
@pytest.mark.skipif(not COMPILED, reason="the compiled decoder was not built")
@given(st.lists(st.one_of(ordered(), disordered()), min_size=1), st.data())
def test_both_decoders_make_the_same_of_damage(events: list[bytes], draw: st.DataObject) -> None:
    data = bytearray(b"".join(events))
    for _ in range(draw.draw(st.integers(1, 4))):
        at = draw.draw(st.integers(0, len(data) - 1))
        data[at] = draw.draw(st.integers(0, 255))
    found: list[object] = []
    for compiled in (True, False):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(native, "is_available", lambda compiled=compiled: compiled)
            try:
                found.append(by_column(bytes(data)))
            except Malformed:
                found.append("refused")
    assert found[0] == found[1]
