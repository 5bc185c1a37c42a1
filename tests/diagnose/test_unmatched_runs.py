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
