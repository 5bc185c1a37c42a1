"""What the scheduler's log says of memory that forbade a schedule."""

from __future__ import annotations

from counterpoint.workflow.prediction.gain import MemoryPressure, crowding

LINE = (
    "I1122 04:17:22.221204   28504 latency_hiding_scheduler.cc:4325] [latency-hiding-scheduler]"
    " LatencyHidingScheduler current memory usage: {} bytes. Current limit: {}\n"
)


def test_a_schedule_that_needs_too_much_is_told() -> None:
    log = LINE.format(54372320028, 48235282235) + LINE.format(40, 48235282235)
    assert crowding(log) == MemoryPressure(54372320028, 48235282235)


def test_enough_memory_is_nothing_to_tell() -> None:
    assert crowding(LINE.format(10, 20)) is None
    assert crowding("") is None
