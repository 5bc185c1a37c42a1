"""Idle time belongs to what the host does meanwhile, and its parts add up to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest
from host_side import Event, Run, case, loop, made
from hypothesis import given
from hypothesis import strategies as st
from xspace_builder import US, Plane, xspace

from counterpoint.diagnose.host.causes import IdleCause, causes_of
from counterpoint.diagnose.host.idle import idle_of
from counterpoint.diagnose.host.threads import is_frame
from counterpoint.diagnose.selection import select
from counterpoint.timeline.model import Timeline
from counterpoint.timeline.reading import read
from counterpoint.timeline.recording import WORKS_IN_PYTHON
from counterpoint.timeline.storage.parquet import write_parquet
from real_profiles import opened


def parts(timeline: Timeline) -> dict[str, float]:
    """Microseconds by cause."""
    found = idle_of(case(timeline)).parts.group_by("cause").agg(pl.col("ms").sum())
    return {row["cause"]: round(row["ms"] * 1e3, 6) for row in found.iter_rows(named=True)}


def test_a_gap_belongs_to_what_the_calling_thread_does() -> None:
    between = [Event("$train.py:9 log", 10, 20), Event("np.asarray(jax.Array)", 0, 10)]
    assert parts(loop(between)) == {"blocked": 10, "python": 20, "unknown": 20, "dispatch": 10}


def test_a_helper_does_what_the_event_around_it_does() -> None:
    between = [Event("$loader.py:7 next_batch", 0, 40), Event("$threading.py:323 wait", 5, 30)]
    assert parts(loop(between)) == {"input": 40, "unknown": 10, "dispatch": 10}


def test_a_wait_for_another_thread_names_the_programs_own_frame() -> None:
    """With what it calls: the lock within is of the library, which no reader of a loop wrote."""
    lock = [Event("$threading.py:295 wait", 6, 28), Event("$<unknown> acquire", 7, 26)]
    own = Event("$mine.py:18 main", 1, 48)
    queue = idle_of(case(loop([own, Event("$queue.py:154 get", 5, 30), *lock])))
    assert queue.top(IdleCause.INPUT)[0][0] == "$queue.py:154 get in $mine.py:18 main"
    assert queue.ms(IdleCause.INPUT) == pytest.approx(0.030)
    event = idle_of(case(loop([own, *lock])))
    assert event.top(IdleCause.THREAD)[0][0] == "$<unknown> acquire in $mine.py:18 main"
    assert event.ms(IdleCause.THREAD) == pytest.approx(0.028)


@pytest.mark.parametrize("works", [False, True])
def test_a_sampled_frame_from_which_a_copy_is_awaited_is_the_copy(works: bool) -> None:
    """`device_put(x).block_until_ready()`: that is native code, so samples show its caller."""
    main = Event("$train.py:1 main", 0, 48)
    put = [Event("DevicePutWithSharding", 2, 4)]
    copy = Event("TransferToDevice", 5, 40, thread="transfers")
    work = Event(WORKS_IN_PYTHON, 6, 42) if works else Event(WORKS_IN_PYTHON, -40, 30)
    found = parts(loop([main, *put, copy, work]))
    assert found["transfer"] == (4 if works else 43)


def test_python_is_named_with_the_function_that_the_loop_calls() -> None:
    write = [Event("$_format_impl.py:702 write_array", 3, 40), Event("$<unknown> compress", 5, 36)]
    idle = idle_of(case(loop([Event("$train.py:88 save_checkpoint", 1, 48), *write])))
    assert idle.top(IdleCause.PYTHON)[0][0] == "$<unknown> compress in $train.py:88 save_checkpoint"
    labelled = idle_of(case(loop([Event("data", 1, 48), Event("$time sleep", 2, 46)])))
    assert labelled.top(IdleCause.PYTHON)[0][0] == "$time sleep in data"


def test_what_runs_in_an_annotation_is_not_in_the_frame_that_creates_it() -> None:
    """An annotation begins in its constructor, whose frame ends shortly after that."""
    creating = [Event("$loop.py:9 marker", 0, 4), Event("$profiler.py:385 __init__", 1, 2)]
    waiting = [Event("$_base.py:428 result", 6, 40), Event("$<unknown> acquire", 7, 38)]
    idle = idle_of(case(loop([*creating, Event("train", 2, 47), *waiting])))
    assert idle.top(IdleCause.INPUT)[0][0] == "$<unknown> acquire in $_base.py:428 result"


def test_next_inside_of_a_call_is_no_input() -> None:
    between = [Event("$builtins next", 52, 5)]
    assert parts(loop(between)) == {"unknown": 50, "dispatch": 10}


def test_a_gap_is_held_from_the_wait_on() -> None:
    held = idle_of(
        case(loop([Event("np.asarray(jax.Array)", -20, 30), Event("$a.py:1 f", 10, 40)]))
    )
    assert held.ms(IdleCause.PYTHON, held=True) == pytest.approx(0.040)
    assert held.blocked_ms == pytest.approx(0.030)
    later = idle_of(case(loop([Event("$a.py:1 f", 0, 30), Event("np.asarray(jax.Array)", 30, 5)])))
    assert later.ms(IdleCause.PYTHON, held=False) == pytest.approx(0.030)
    assert later.ms(*IdleCause, held=True) == pytest.approx(0.030)
    assert later.blocked_ms == pytest.approx(0.005)


def test_where_the_thread_waits_the_others_count() -> None:
    between = [
        Event("$api.py:3154 block_until_ready", 0, 50),
        Event("TransferToDevice", 10, 15, thread="pool"),
    ]
    assert parts(loop(between)) == {"blocked": 35, "transfer": 15, "dispatch": 10}


def test_what_other_threads_do_beside_python_does_not_count() -> None:
    between = [
        Event("$train.py:9 log", 0, 50),
        Event("TransferToDevice", 10, 15, thread="pool"),
    ]
    assert parts(loop(between)) == {"python": 50, "dispatch": 10}


def test_gaps_within_a_run_are_the_devices_own() -> None:
    runs = [Run(n * 100, 100, busy=((0, 40), (70, 30))) for n in range(4)]
    calls = [Event("PjitFunction(step)", n * 100 - 150, 5) for n in range(4)]
    steps = [(n * 100, 100) for n in range(4)]
    assert parts(made(runs, [*calls, Event("$a.py:1 f", 0, 400)], steps)) == {"device": 30}


def test_gaps_in_a_run_that_is_still_being_launched_are_the_hosts() -> None:
    runs = [Run(n * 100, 100, busy=((0, 40), (70, 30))) for n in range(4)]
    launches = [Event("GpuExecutable::ExecuteThunks", n * 100 - 5, 60) for n in range(4)]
    steps = [(n * 100, 100) for n in range(4)]
    assert parts(made(runs, launches, steps)) == {"launching": 15, "device": 15}


def test_a_run_that_was_launched_before_the_gap_is_not_late() -> None:
    """The calls of runs 0 to 4 return before the gaps that they end."""
    runs = [Run(n * 150, 90) for n in range(5)]
    calls = [Event("PjitFunction(step)", n * 150 - 100, 10) for n in range(5)]
    steps = [(n * 150, 150) for n in range(5)]
    assert parts(made(runs, [*calls, Event("$log.py:1 f", 0, 700)], steps)) == {"device": 60}


def test_late_calls_are_late_where_the_typical_steps_are_not_the_last() -> None:
    """Eight steps of a host that launches late; the last two take longer, and are not typical."""
    lengths = [90, 90, 90, 90, 90, 90, 200, 200]
    starts = [sum(lengths[:n]) + 60 * n for n in range(9)]
    runs = [Run(start, length) for start, length in zip(starts, lengths, strict=False)]
    calls = [Event("PjitFunction(step)", start - 10, 10) for start in starts]
    steps = [(one, two - one) for one, two in pairwise(starts)]
    assert parts(made(runs, calls, steps)) == {"unknown": 50, "dispatch": 10}


LATE, IN_TIME, NOT_KNOWN = "late", "device", "unmatched"


def blamed(calls: list[Event], runs: list[Run]) -> dict[str, float]:
    """Microseconds between runs by who is to blame."""
    found = parts(made(runs, [*calls, Event("$log.py:1 f", 0, 2000)]))
    late = sum(us for cause, us in found.items() if cause not in (IN_TIME, NOT_KNOWN))
    known = {cause: us for cause, us in found.items() if cause in (IN_TIME, NOT_KNOWN)}
    return {name: us for name, us in ({LATE: late} | known).items() if us}


@pytest.mark.parametrize(
    ("calls", "runs", "expected"),
    [
        # The profile stops inside the last call: one call less than runs.
        (range(145, 1400, 150), range(150, 1550, 150), {LATE: 52.5, NOT_KNOWN: 7.5}),
        (range(145, 500, 150), range(150, 650, 150), {LATE: 30, NOT_KNOWN: 30}),
        # A queue: the first run, or the first two, were called before the profile.
        (range(155, 1400, 150), range(150, 1550, 150), {IN_TIME: 60}),
        (range(25, 1200, 150), range(150, 1550, 150), {IN_TIME: 52.5, NOT_KNOWN: 7.5}),
        # One call and two runs: either may be the one that it launched.
        ([20], [80, 230], {NOT_KNOWN: 60}),
        ([75], [80, 230], {NOT_KNOWN: 60}),
    ],
)
def test_a_run_is_matched_with_the_latest_call_that_fits(
    calls: Sequence[int], runs: Sequence[int], expected: dict[str, float]
) -> None:
    made_calls = [Event("PjitFunction(step)", start, 10) for start in calls]
    made_runs = [Run(start, 90) for start in runs]
    assert blamed(made_calls, made_runs) == expected


@pytest.mark.parametrize(("ahead", "who"), [(5, LATE), (120, NOT_KNOWN)])
def test_calls_for_one_device_at_a_time_are_not_matched_on_each(ahead: int, who: str) -> None:
    """Two calls in each step, one for each device; on each device, runs would seem early."""
    runs = [Run(n * 300 + 100 * d, 90, d) for n in range(6) for d in range(2)]
    calls = [Event("PjitFunction(step)", run.start - ahead, 10) for run in runs]
    assert blamed(calls, runs) == {who: 210}


def test_a_lambda_is_known_by_the_name_of_its_module() -> None:
    runs = [Run(n * 150, 90, program="jit__lambda") for n in range(8)]
    calls = [Event("PjitFunction(<lambda>)", run.start - 100, 10) for run in runs]
    assert blamed(calls, runs) == {IN_TIME: 60}


def test_a_call_with_the_id_of_a_run_is_its_call(tmp_path: Path) -> None:
    """As XLA records it on the CPU: devices in turn, and the profile stops inside the last call."""
    host = Plane("/host:CPU")
    for number in range(12):
        start, device = 150 * number, number % 2
        name, run = "CommonPjRtLoadedExecutable::Execute (jit_step)", {"run_id": 70 + number}
        host.add("python", name, (start - 15) * US, 10 * US, run)
        if number < 11:
            host.add("python", "PjitFunction(step)", (start - 20) * US, 20 * US)
        op = {"hlo_op": "dot.1", "hlo_module": "jit_step", "device_ordinal": device}
        host.add(f"worker{device}", "dot.1", start * US, 90 * US, {**op, **run})
    path = tmp_path / "host.xplane.pb"
    path.write_bytes(xspace(host))
    stored = write_parquet(read(path), tmp_path / "stored")
    for source in (path, stored):
        found = parts(read(source))
        assert IN_TIME not in found
        assert NOT_KNOWN not in found
        assert sum(found.values()) == pytest.approx(210)


def test_other_devices_that_work_meanwhile_are_waited_for() -> None:
    runs = [Run(n * 150, 90 if d else 30, d) for n in range(4) for d in range(2)]
    events = [Event("$api.py:1 block_until_ready", n * 150 + 20, 120) for n in range(4)]
    calls = [Event("PjitFunction(step)", n * 150 - 10, 10) for n in range(5)]
    steps = [(n * 150, 150) for n in range(4)]
    found = parts(made(runs, [*events, *calls], steps))
    assert found["others"] == pytest.approx(60 / 2)


def test_a_profile_without_host_events_says_that_it_does_not_know() -> None:
    found = idle_of(case(made([Run(n * 150, 90) for n in range(4)])))
    assert not found.seen
    assert found.ms(IdleCause.UNKNOWN) == pytest.approx(found.total_ms)


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("PjitFunction(train_step)", IdleCause.DISPATCH),
        ("TSL:XlaModule:#hlo_module=jit_step,program_id=3#", IdleCause.DISPATCH),
        ("XlaCompile:#module=jit_f,program_id=1#", IdleCause.COMPILE),
        ("backend_compile", IdleCause.COMPILE),
        ("TfrtTpuCompiler::Compile", IdleCause.COMPILE),
        ("np.asarray(jax.Array)", IdleCause.BLOCKED),
        ("$array.py:650 _value", IdleCause.BLOCKED),
        ("cuStreamSynchronize", IdleCause.BLOCKED),
        ("Acquire semaphore", IdleCause.RUNTIME),
        ("hipFree", IdleCause.RUNTIME),
        ("cudaMallocAsync", IdleCause.RUNTIME),
        ("cuMemHostAlloc", IdleCause.TRANSFER),
        ("IteratorGetNextOp::DoCompute", IdleCause.INPUT),
        ("data loading", IdleCause.INPUT),
        ("data_fetch", IdleCause.INPUT),
        ("$data_loader.py:33 load_next_batch", IdleCause.INPUT),
        ("$dataloader.py:701 __next__", IdleCause.INPUT),
        ("$queue.py:154 get", IdleCause.INPUT),
        ("$queues.py:103 get", IdleCause.INPUT),
        ("$<unknown> acquire", IdleCause.THREAD),
        ("$_base.py:428 result", IdleCause.INPUT),
        ("BufferFromHostBuffer", IdleCause.TRANSFER),
        ("$profiler.py:213 stop_trace", IdleCause.PROFILER),
        ("$profiler.py:356 wrapper", None),
        ("$train.py:12 main", None),
        ("train", None),
    ],
)
def test_names_tell_causes(name: str, cause: IdleCause | None) -> None:
    assert causes_of([name]) == [cause]
    assert causes_of([name] * 1000) == [cause] * 1000  # of many names, polars finds them


NAMES = (
    "PjitFunction(step)",
    "$a.py:1 f",
    "np.asarray(jax.Array)",
    "TransferToDevice",
    "$b.py:2 next_batch",
    "backend_compile",
    "GpuExecutable::ExecuteThunks",
    "Acquire semaphore",
)
EVENTS = st.builds(
    Event,
    st.sampled_from(NAMES),
    st.integers(-50, 900),
    st.integers(0, 300),
    st.sampled_from(["python", "pool"]),
)


@pytest.mark.system
@given(st.lists(EVENTS, max_size=30), st.lists(st.integers(1, 120), min_size=4, max_size=8))
def test_causes_add_up_to_the_idle_time(events: list[Event], lengths: list[int]) -> None:
    runs = [
        Run(number * 150, length, device)
        for number, length in enumerate(lengths)
        for device in range(2)
    ]
    looked = case(made(runs, events))
    assert idle_of(looked).total_ms == pytest.approx(looked.breakdown.idle_ms, abs=1e-9)


@pytest.mark.parametrize("name", ["jax_conv_mi300x_8gpu.xplane.pb", "jax_gemm_mi300x.xplane.pb"])
def test_causes_of_real_profiles_add_up(shared: object, name: str) -> None:
    timeline = opened(f"{shared}/data/traces/{name}")
    looked = case(timeline)
    assert looked.selection.lengths_ms == select(timeline).lengths_ms
    assert idle_of(looked).total_ms == pytest.approx(looked.breakdown.idle_ms)


AWAIT = "CommonPjRtBuffer::Await"


def test_two_marks_of_a_wait_are_one_wait() -> None:
    """The marks last next to nothing, and what is between them is not recorded."""
    marks = [Event(AWAIT, -40, 1), Event(AWAIT, 9, 1)]
    idle = idle_of(case(loop(marks)))
    assert idle.blocked_ms == pytest.approx(0.050)
    assert parts(loop(marks)) == {"blocked": 10, "unknown": 40, "dispatch": 10}


def test_a_wait_that_begins_before_the_profile_has_one_mark() -> None:
    runs = [Run(n * 150, 90) for n in range(5)]
    calls = [Event("PjitFunction(step)", n * 150 - 10, 10) for n in range(5)]
    cut = [Event(AWAIT, -200, 1), Event(AWAIT, 20, 1), Event(AWAIT, 91, 1)]
    idle = idle_of(case(made(runs, [*cut, *calls], [(n * 150, 150) for n in range(5)])))
    assert idle.ms(IdleCause.UNKNOWN) == pytest.approx(0.050, abs=0.002)


def test_a_wait_after_a_copy_was_begun_is_for_the_copy() -> None:
    copy = [Event("CopyToMemorySpace", 2, 5), Event(AWAIT, 10, 1), Event(AWAIT, 48, 1)]
    assert parts(loop(copy)) == {"transfer": 44, "unknown": 6, "dispatch": 10}
    called = [Event(AWAIT, 10, 1), Event(AWAIT, 48, 1)]
    assert parts(loop(called)) == {"blocked": 39, "unknown": 11, "dispatch": 10}


def in_time(copies: Sequence[Event]) -> Timeline:
    """Each run was called long before, but begins only when the copies are over."""
    runs = [Run(n * 1_000, 400) for n in range(5)]
    calls = [Event("PjitFunction(step)", n * 1_000 - 700, 50) for n in range(5)]
    steps = [(n * 1_000, 1_000) for n in range(5)]
    moved = [
        replace(event, start=event.start + n * 1_000 + 400) for event in copies for n in range(5)
    ]
    return made(runs, [*calls, *moved], steps)


def test_a_run_that_was_called_in_time_waits_for_its_arguments() -> None:
    copy = Event("H2D Dispatch", 10, 600, thread="client")
    assert parts(in_time([copy])) == {"transfer": 590, "device": 10}


def test_a_copy_that_ends_long_before_is_not_what_a_run_waited_for() -> None:
    copy = Event("H2D Dispatch", 10, 300, thread="client")
    assert parts(in_time([copy])) == {"device": 600}


def test_what_a_virtual_run_waits_for_long_after_its_call_is_not_the_hosts() -> None:
    runs = [Run(n * 1_000, 400) for n in range(5)]
    calls = [Event("PjitFunction(step)", n * 1_000 - 550, 50) for n in range(5)]
    steps = [(n * 1_000, 1_000) for n in range(5)]
    looked = made(runs, [*calls, Event("$log.py:1 f", 0, 5_000)], steps)
    assert parts(looked) == {"dispatch": 50, "python": 550}
    virtual = tuple(replace(device, kind="cpu") for device in looked.devices)
    assert parts(replace(looked, devices=virtual)) == {
        "dispatch": 50,
        "python": 50,
        "settling": 500,
    }


def test_devices_that_are_called_in_turn_wait_for_the_host() -> None:
    """It waits for one before it calls the other: each is idle while the other works."""
    runs: list[Run] = []
    events: list[Event] = []
    for number in range(10):
        at = number * 100
        runs.append(Run(at, 90, device=number % 2))
        events.append(Event("PjitFunction(step)", at - 5, 5))
        events.append(Event("$api.py:2479 block_until_ready", at, 92))
    steps = [(number * 200, 200) for number in range(5)]
    idle = idle_of(case(made(runs, events, steps)))
    assert idle.in_turn
    assert idle.ms(IdleCause.OTHERS) == 0
    assert idle.hidden_by_not_waiting_ms == pytest.approx(0.100, abs=0.02)


def test_the_launching_thread_is_the_one_that_calls_the_step() -> None:
    """An actor on another thread calls its own program more often, and sleeps in between."""
    actor = [
        event
        for k in range(3)
        for event in (
            Event("PjitFunction(act)", k * 20, 15, thread="actor"),
            Event("$time sleep", k * 20 + 15, 5, thread="actor"),
        )
    ]
    assert "python" not in parts(loop(actor))


def test_a_future_is_named_with_what_its_thread_did() -> None:
    waiting = [Event("$_base.py:428 result", 0, 50), Event("$<unknown> acquire", 2, 46)]
    worker = [
        Event("$train.py:7 prepare", -60, 107, thread="worker"),
        Event("$time sleep", -50, 96, thread="worker"),
        Event("$_base.py:537 set_result", 47, 2, thread="worker"),
    ]
    idle = idle_of(case(loop([*waiting, *worker])))
    assert idle.others_did(IdleCause.INPUT, count=1)[0][0] == "$time sleep in $train.py:7 prepare"


def test_a_thread_that_only_hands_on_is_followed_to_the_one_that_works() -> None:
    """A pool's results come from a thread of its own, which waits for the workers."""
    waiting = [Event("$pool.py:767 get", 0, 50), Event("$<unknown> acquire", 2, 46)]
    hands_on = [
        Event("$<unknown> get", -60, 106, thread="results"),
        Event("$pool.py:800 _set", 46, 1, thread="results"),
    ]
    worker = [
        Event("$train.py:7 decode", -60, 105, thread="worker"),
        Event("$pool.py:125 put", 45, 1, thread="worker"),
    ]
    idle = idle_of(case(loop([*waiting, *hands_on, *worker])))
    assert idle.others_did(IdleCause.INPUT, count=1)[0][0] == "$train.py:7 decode"


@pytest.mark.parametrize(
    ("name", "is_named"),
    [
        ("$train.py:7 loop", True),
        ("$profiler.py:417 wrapper", False),  # what it calls is meant
        ("$traceback_util.py:191 reraise_with_filtered_traceback", False),
        ("$profiler.py:12 start", True),  # the program may have a file of that name
        ("$queue.py:154 get", False),
        ("$time sleep", False),
    ],
)
def test_frames_that_name_idle_time(name: str, *, is_named: bool) -> None:
    assert is_frame(name) is is_named
