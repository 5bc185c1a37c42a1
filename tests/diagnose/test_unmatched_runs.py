"""Gaps before runs of which the profile does not show when they were launched."""

from __future__ import annotations

import pytest
from host_side import Event, Run, made, most

from counterpoint.diagnose.explanation import explain

COUNT, EVERY, BUSY = 10, 100, 60
STEPS = [(number * EVERY, EVERY) for number in range(COUNT)]
RUNS = [Run(number * EVERY, BUSY) for number in range(COUNT)]


@pytest.mark.parametrize(("first", "last"), [(0, COUNT - 1), (4, 7)])
def test_they_are_no_gaps_between_kernels(first: int, last: int) -> None:
    """Calls that are missing leave it open who is late, and STEP301 says so."""
    calls = [Event("PjitFunction(step)", EVERY * n + 90, 5) for n in range(first, last)]
    found = {it.code: it for it in explain(made(RUNS, calls, STEPS)).findings}
    is_open = last - first < COUNT - 1
    assert ("does not show whether the host had launched" in found["STEP301"].detail) is is_open
    assert found["STEP301"].title.endswith("does not show why") is is_open
    idle_ms = (EVERY - BUSY) / 1000
    between = most(found["STEP306"]) if "STEP306" in found else 0.0
    assert most(found["STEP301"]) + between == pytest.approx(idle_ms)
    assert between < most(found["STEP301"])


@pytest.mark.parametrize(("first", "last"), [(1, 5), (3, 8), (4, 7), (2, 4)])
def test_calls_from_the_middle_of_a_capture_do_not_show_that_others_were_ahead(
    first: int, last: int
) -> None:
    """Each call precedes a run, so that the host had launched it long before is not known."""
    calls = [Event("PjitFunction(step)", EVERY * n + 90, 5) for n in range(first, last)]
    found = {it.code: it for it in explain(made(RUNS, calls, STEPS)).findings}
    assert "STEP306" not in found
    assert "does not show whether the host had launched" in found["STEP301"].detail


def test_a_host_that_is_ahead_has_launched_what_follows() -> None:
    """The calls of the first three runs came before the profile began."""
    calls = [Event("PjitFunction(step)", EVERY * n + 30, 5) for n in range(COUNT - 3)]
    runs = [Run(number * EVERY, 99) for number in range(COUNT)]
    found = {it.code: it for it in explain(made(runs, calls, STEPS)).findings}
    assert "STEP301" not in found
