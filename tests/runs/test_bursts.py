"""Lines that arrive together tell no step times."""

from __future__ import annotations

import pytest

from counterpoint.runs.run import in_bursts


@pytest.mark.parametrize(
    ("gaps", "are_bursts"),
    [
        ([], False),
        ([0.13] * 20, False),
        ([0.13] * 20 + [0.0] * 5, False),  # a stall of the reader
        ([5e-5] * 20, False),  # steps that are so short
        ([0.0], True),
        ([0.0] * 30, True),  # all at the end
        ([0.0, 0.0, 0.4] * 10, True),  # three to a block
        ([0.0, 0.4] * 10, True),
    ],
)
def test_in_bursts(gaps: list[float], are_bursts: bool) -> None:
    arrivals = [100.0]
    for gap in gaps:
        arrivals.append(arrivals[-1] + gap)
    assert in_bursts(arrivals) is are_bursts
