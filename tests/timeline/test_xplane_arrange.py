"""What the compiled decoder tells apart while it decodes is what numpy tells apart afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xspace_builder import Value, field_bytes, message

from counterpoint.core.wire import Malformed
from counterpoint.timeline.xplane import native
from counterpoint.timeline.xplane.arrange import (
    ArrangedHost,
    ArrangedSpans,
    arrange_host,
    arrange_spans,
    compiled_host,
    compiled_spans,
)
from counterpoint.timeline.xplane.events import EventSelection, Strings
from counterpoint.timeline.xplane.lines import begun_ahead, read_arranged
from counterpoint.timeline.xplane.planes import CONSUMER, PRODUCER, USED_STAT, PlaneLine

pytestmark = pytest.mark.skipif(
    not native.is_available(), reason="the compiled decoder was not built: no Rust compiler"
)

NAMES = {1: "fusion.3", 2: "all-reduce", 3: "jit_step"}
STATS = {
    4: "hlo_op",
    5: "hlo_module",
    6: "program_id",
    7: "run_id",
    8: "device_ordinal",
    9: "step_num",
    10: "cuda_graph_id",
    11: USED_STAT,
    12: PRODUCER,
    13: CONSUMER,
}
WANTED = EventSelection(stats=STATS, skipped=frozenset({7}), ends={70_000: 1})
OF_A_DEVICE = replace(WANTED, ends={})
ORIGIN_NS = 1_000

few = st.integers(0, 3)
stats = st.lists(
    st.sampled_from([*range(4, 11), 4, 8, 11, 12, 13]), max_size=7, unique=True
).flatmap(
    lambda ids: st.tuples(
        *(
            st.tuples(st.just(one), st.sampled_from([(7, 1), (7, 2), (4, 0), (4, 5), (3, 6)]))
            for one in ids
        )
    )
)
event_bytes = st.builds(
    lambda kind, start, length, said: field_bytes(
        4,
        message(
            (1, kind),
            (2, start),
            (3, length),
            *[(4, message((1, one), value)) for one, value in said],
        ),
    ),
    st.sampled_from([1, 2, 7, 70_000]),
    st.integers(0, 10**15),
    few,
    stats,
)


def line_of(data: bytes, timestamp_ns: int = 2_000) -> PlaneLine:
    return PlaneLine(id=0, name="thread", timestamp_ns=timestamp_ns, start=0, end=len(data))


def spans_as_rows(spans: ArrangedSpans) -> list[tuple[object, ...]]:
    kinds = [
        (
            key,
            bool(spans.in_graph[number]),
            {
                name: (int(stat.value[number]), bool(stat.is_text[number]))
                for name, stat in spans.stats.items()
                if stat.known[number]
            },
        )
        for number, key in enumerate(spans.keys)
    ]
    columns = (spans.start_ps, spans.duration_ps, spans.run, spans.has_run)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return [(*row, kind, kinds[kind]) for row, kind in zip(rows, spans.kind.tolist(), strict=True)]


def host_as_rows(host: ArrangedHost) -> tuple[object, ...]:
    named = (host.others_start_ps, host.others_duration_ps)
    return (
        [row[:4] + row[5:] for row in spans_as_rows(host.ops)],
        [host.ordinals[code] for code in host.device.tolist()] if len(host.ops) else [],
        [
            (host.names[code], *row)
            for code, *row in zip(host.name.tolist(), *(c.tolist() for c in named), strict=True)
        ],
        [column.tolist() for column in (host.markers.metadata, host.markers.step)],
        [column.tolist() for column in (host.markers.start_ps, host.markers.duration_ps)],
        host.memory_start_ps.tolist(),
        [column.tolist() for column in (host.ends.row, host.ends.producer)],
        [column.tolist() for column in (host.ends.end_ps, host.ends.consumer)],
    )


def read_host(data: bytes, line: PlaneLine, *, compiled: bool) -> list[tuple[object, ...]]:
    batches = read_arranged(
        memoryview(data),
        0,
        len(data),
        WANTED,
        Strings(NAMES),
        lambda events: arrange_host(events, line, ORIGIN_NS, WANTED.ends),
        compiled_host(WANTED, line, ORIGIN_NS) if compiled else None,
    )
    return [(*host_as_rows(host), skipped) for host, skipped in batches]


@given(st.lists(event_bytes))
def test_a_host_thread_is_told_apart_as_numpy_does(events: Sequence[bytes]) -> None:
    data = b"".join(events)
    line = line_of(data)
    assert read_host(data, line, compiled=True) == read_host(data, line, compiled=False)


@given(st.lists(event_bytes))
def test_work_of_a_device_is_numbered_as_numpy_does(events: Sequence[bytes]) -> None:
    data = b"".join(events)
    line = line_of(data)

    def read(*, compiled: bool) -> list[tuple[object, ...]]:
        batches = read_arranged(
            memoryview(data),
            0,
            len(data),
            OF_A_DEVICE,
            Strings(NAMES),
            lambda events: arrange_spans(events, line, ORIGIN_NS),
            compiled_spans(OF_A_DEVICE, line, ORIGIN_NS) if compiled else None,
        )
        return [(spans_as_rows(spans), spans.summaries, skipped) for spans, skipped in batches]

    assert read(compiled=True) == read(compiled=False)


def op(kind: int, start: int, *more: tuple[int, Value]) -> bytes:
    stat = [(4, message((1, one), (7, value))) for one, value in ((4, 1), (8, 3))]
    return field_bytes(4, message((1, kind), (2, start), (3, 5), *stat, *more))


def test_the_compiled_decoder_does_arrange(monkeypatch: pytest.MonkeyPatch) -> None:
    data = b"".join(op(1, start) for start in range(10))
    monkeypatch.setattr(native, "decode", None)  # what would be called instead
    ((_, ordinals, *_, skipped),) = read_host(data, line_of(data), compiled=True)
    assert (ordinals, skipped) == ([3] * 10, 0)


def test_texts_that_events_spell_out_are_left_to_python() -> None:
    data = op(1, 5) + op(1, 6, (4, message((1, 5), (5, "spelled out"))))
    assert native.arrange  # which gives None of these
    assert read_host(data, line_of(data), compiled=True) == read_host(
        data, line_of(data), compiled=False
    )


def test_impossible_times_are_refused_by_both() -> None:
    data = op(1, 5) + op(1, 1 << 62)
    for compiled in (True, False):
        with pytest.raises(Malformed, match="impossible time"):
            read_host(data, line_of(data), compiled=compiled)
    sane = op(1, 5)
    for compiled in (True, False):
        with pytest.raises(Malformed, match="impossible start"):
            read_host(sane, line_of(sane, 1 << 60), compiled=compiled)


def test_batches_come_in_order_however_many_threads_decode_them() -> None:
    padding = (20, b"x" * 4000)  # a field that no schema knows
    count = (24 << 20) // 4000
    data = b"".join(op(1 + start % 2, 10**13 + start, padding) for start in range(count))
    line = line_of(data)
    batches = read_arranged(
        memoryview(data),
        0,
        len(data),
        WANTED,
        Strings(NAMES),
        lambda events: arrange_spans(events, line, 2_000),
        compiled_spans(WANTED, line, 2_000),
    )
    starts = np.concatenate([spans.start_ps for spans, _ in batches])
    assert (starts == np.arange(count) + 10**13).all()


def test_lines_are_begun_before_they_are_asked_for_and_come_in_order() -> None:
    begun: list[int] = []

    def begin(line: PlaneLine) -> int:
        begun.append(line.id)
        return line.id

    lines = [PlaneLine(number, "", 0, 0, 10 << 20) for number in range(5)]
    seen: list[tuple[int, int]] = []
    for line, given_back in begun_ahead(lines, begin):
        assert line.id == given_back
        seen.append((line.id, len(begun)))
    assert seen == [(0, 3), (1, 4), (2, 5), (3, 5), (4, 5)]
