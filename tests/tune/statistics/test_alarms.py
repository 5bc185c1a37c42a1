"""What makes measurements doubtful is said, and nothing is left out for it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from counterpoint.tune.arm import BASE
from counterpoint.tune.statistics.alarms import alarms
from counterpoint.tune.statistics.estimate import Observation


def runs(rows: int, arms: int, *, drift: float = 0.0) -> list[Observation]:
    rng = np.random.default_rng(3)
    names = (BASE, *map(str, range(1, arms + 1)))
    return [
        Observation(name, row, float(np.exp(drift * row + rng.normal(0, 0.002))))
        for row in range(rows)
        for name in names
    ]


def test_quiet_runs_give_none() -> None:
    assert alarms(runs(6, 3)) == ()
    assert alarms(runs(1, 1)) == ()
    assert alarms([]) == ()


def test_a_drift_is_said() -> None:
    (note,) = alarms(runs(6, 3, drift=0.005))
    assert note.startswith("the machine became 2.7% slower over 6 rows")


def test_a_drift_of_few_rows_is_none() -> None:
    assert alarms(runs(3, 3, drift=0.005)) == ()


def test_a_run_that_stands_out_is_named() -> None:
    seen = runs(6, 3)
    seen[9] = replace(seen[9], seconds=seen[9].seconds * 1.05)
    (note,) = alarms(seen)
    assert note.startswith(f"row {seen[9].row + 1}: the run of {seen[9].arm} took ")
    assert "still included" in note


def test_of_two_runs_nobody_knows_which_stands_out() -> None:
    seen = runs(8, 1)
    seen[5] = replace(seen[5], seconds=seen[5].seconds * 1.05)
    (note,) = alarms(seen)
    assert note.startswith("row 3: 1 and base ")


def test_figures_that_were_rounded_are_said() -> None:
    seen = [replace(it, seconds=round(it.seconds, 1)) for it in runs(4, 3)]
    (note,) = alarms(seen)
    assert note.startswith("16 runs gave only 1 different step times")
