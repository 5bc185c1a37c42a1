"""Savings of predicted steps, against what the simulator says when a price is really zero."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from counterpoint.diagnose.savings import savings_of
from counterpoint.diagnose.selection import select
from counterpoint.diagnose.step_data import Context, StepData
from counterpoint.hlo.reader import read_program
from counterpoint.simulate.simulation import simulate
from hand_made import Told, compute, done, entry, loop, run_loop, start

IN_A_LOOP = loop(
    compute("first"), start("gather"), compute("second"), done("gather"), compute("third")
) + entry(compute("before"), run_loop(5), compute("after"))
STRAIGHT = entry(
    compute("first"),
    start("gather"),
    compute("second"),
    done("gather"),
    start("alone", sync=True),
    done("alone"),
    compute("third"),
)
SECONDS: Mapping[str, float] = {
    "before": 0.010,
    "first": 0.004,
    "gather": 0.009,
    "second": 0.005,
    "alone": 0.003,
    "third": 0.002,
    "after": 0.001,
    "result": 0.001,
}


def step_ms(text: str, seconds: Mapping[str, float]) -> tuple[float, StepData]:
    module = f"HloModule made, is_scheduled=true, num_partitions=2\n{text}"
    program = read_program(module.encode())
    simulation = simulate(program, Told(seconds), hlo=module.encode())
    case = StepData(selection=select(simulation.timeline), context=Context())
    return simulation.step_s * 1e3, case


@pytest.mark.parametrize(
    ("text", "name"),
    [
        *((STRAIGHT, name) for name in ("gather", "alone", "first", "second", "third")),
        *((IN_A_LOOP, name) for name in ("gather", "first", "second", "third", "before")),
    ],
)
def test_what_a_step_would_gain_is_what_the_simulator_says(text: str, name: str) -> None:
    now, case = step_ms(text, SECONDS)
    then, _ = step_ms(text, {**SECONDS, name: 0.0})
    found = case.cached(savings_of).without([name])
    assert found is not None
    assert found.low - 1e-6 <= now - then <= found.high + 1e-6
    assert found.high - found.low <= 0.11 * (now - then) + (0.7 * 5 if name == "gather" else 1e-6)
