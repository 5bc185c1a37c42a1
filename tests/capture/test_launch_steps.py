"""Steps in the lines that trainers print."""

from __future__ import annotations

import pytest

from counterpoint.capture.steps import NamedStep, StepLines, bar_step_of


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
        ("iter 7: loss 10.9417, time 3000.12ms, mfu -100.00%", 7),  # nanoGPT
        (" iteration        7/     100 | consumed samples: 56 | lm loss: 1.1E+01 |", 7),  # Megatron
        ("[   7/30] loss=0.999 tok/s=1,805 step_time=0.0573s lr=1.00e-04", 7),
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
        "iter 7",
        "iter 7.5 loss 2",
        "iterations 7 loss 2",
        "[7/30] Building CXX object loss.o",
        "Epoch [7/30] loss 2.3",
        "[7/30] val loss 2.3",
        "lossless [7/30]",
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


@pytest.mark.parametrize(
    ("line", "step"),
    [
        (" 78%|###| 39/40 [00:02<00:00, 19.2it/s, loss=6.9]", 39),
        ("train:   7%|#  | 7/100 [00:05<00:45,  2.00s/it, loss=2.31, lr=1e-3]", 7),
        ("  0%|   | 0/40 [00:00<?, ?it/s, loss=9]", 0),
        ("Steps:  50%|##  | 20/40 [00:01<00:01, 19.1it/s]", 20),
        (" 50%|##  | 20/40 [00:01<00:01, 19.1step/s]", 20),
        ("Training step:  7%|# | 7/100 [00:05<00:45, 2.0it/s]", 7),
        (" 50%|##  | 20/40 [00:01<00:01, 19.1it/s]", None),
        ("model.safetensors:  50%|##  | 1.2G/2.4G [00:10<00:10, 120MB/s]", None),
        ("Loading checkpoint shards:  50%|##  | 2/4 [00:10<00:10, 5.0s/it]", None),
        ("Map:  50%|## | 500/1000 [00:00<00:00, 900.1 examples/s]", None),
        ("Evaluating:  50%|## | 5/10 [00:00<00:00, 9.1it/s, loss=2.1]", None),
        ("Epoch:  50%|## | 1/2 [00:09<00:09, 9.1s/it, loss=2.1]", None),
        (
            "train: 2%|# | 1/61 [00:01<01:38, 1.64s/it]I to jax_ir0013_jit_step_compile.mlir.",
            None,
        ),
        ("train: 2%|# | 1/61 [00:01<01:38, 1.64s/it, train_loss=2.0, step_time=0.1]", 1),
        ("step 3/40 loss 2.1", None),
        ("loss 2.1 [12/40]", None),
    ],
)
def test_a_bar_that_speaks_of_training_tells_its_steps(line: str, step: int | None) -> None:
    assert bar_step_of(line) == step


def test_a_bar_without_end_costs_no_time() -> None:
    assert bar_step_of("loss" + "7/8 [" * 1_000_000) is None
