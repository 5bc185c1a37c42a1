"""Steps in the lines that trainers print."""

from __future__ import annotations

import pytest

from counterpoint.capture.step_lines import NamedStep, StepLines


@pytest.mark.parametrize(
    ("line", "step"),
    [
        ("step 7 loss 1.23", 7),
        ("step=7", 7),
        ("Step: 7/100", 7),
        ("[step 7] loss=3", 7),
        ("global_step: 7, lr: 1e-4", 7),
        ("{'step': 7, 'loss': 2.5}", 7),
        ('{"step": 7}', 7),
        ("I1121 09:25:01 train.py:3] Train step 7: loss 2", 7),
        ("Step #7", 7),
        ("at step 7.", 7),
    ],
)
def test_a_step_is_found(line: str, step: int) -> None:
    assert StepLines().find(line) == NamedStep(step)


@pytest.mark.parametrize(
    "line",
    [
        "steps: 7",
        "time per step 0.57 s",
        "step_time: 7",
        "step 3s",
        "step 50%",
        "footstep 7",
        "stepping 7",
        "step seven",
        "",
    ],
)
def test_no_step_is_found(line: str) -> None:
    assert StepLines().find(line) is None


def test_a_trainer_s_own_seconds_are_taken() -> None:
    line = "completed step: 7, seconds: 1.234, TFLOP/s/device: 3.2, loss: 10.1"
    assert StepLines().find(line) == NamedStep(7, 1.234)


def test_only_a_higher_number_is_another_step() -> None:
    steps = StepLines()
    found = [steps.find(f"step {number}") for number in (1, 1, 2, 0, 3)]
    assert [step.step if step else None for step in found] == [1, None, 2, None, 3]


def test_a_line_without_end_costs_no_time() -> None:
    assert StepLines().find("step" * 1_000_000 + " 7") is None
