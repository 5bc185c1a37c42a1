"""Losses out of what trainers print, and out of nothing else."""

from __future__ import annotations

import json
import math
import os
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from counterpoint.capture.losses import MOST, Losses, read_losses
from counterpoint.runs import layout
from counterpoint.runs.outcomes import Outcome, OutcomeKind
from counterpoint.runs.run import Rank, Run, RunSettings


def run(path: Path, stdout: str = "", stderr: str = "", *command: str) -> Run:
    """A Run of one rank that printed that."""
    directory = path / "rank0"
    directory.mkdir(parents=True)
    (directory / layout.STDOUT).write_bytes(stdout.encode())
    (directory / layout.STDERR).write_bytes(stderr.encode())
    ok = Outcome(OutcomeKind.OK, 0)
    return Run(
        path=path,
        name="train",
        command=command or (sys.executable,),
        cwd=str(path),
        started=datetime.now(UTC) - timedelta(seconds=5),
        ended=None,
        settings=RunSettings(),
        launcher="local",
        outcome=ok,
        ranks=(Rank(0, "here", directory, ok),),
    )


@pytest.mark.parametrize(
    "line",
    [
        "step 7 loss 2.31",
        "step 7: loss: 2.31.",
        "[step 7] loss=2.31 lr=1e-4",
        "I1121 09:25:01.1 4711 /home/test/train.py:3] Train step 7: loss 2.31, took 3s",
        "INFO step=7 train_loss=2.31",
        "completed step: 7, seconds: 1.234, TFLOP/s/device: 98.2, total_weights: 65536, loss: 2.31",
        "{'step': 7, 'loss': 2.31, 'grad': 1}",
        '{"step": 7, "loss": 2.31}',
        '{"step": 7.0, "learning/moe_lb_loss": 0.1, "learning/loss": 2.31}',
        "{'step': 7, 'loss': Array(2.31, dtype=float32)}",
        "Progress on:train 7.00it/100it rate:1.2it/s remaining:01:02 postfix:loss=2.31",
        "train:   7%|#         | 7/100 [00:05<00:45,  2.01it/s, loss=2.31]",
        "global_step: 7 val_loss: 9.9 loss: 2.31",
        "step 7 aux_loss 0.01 z loss 0.3 total loss 2.31",
        "step 7 average train loss: 2.31e0",
    ],
)
def test_a_loss_and_its_step_are_found(tmp_path: Path, line: str) -> None:
    assert read_losses(run(tmp_path, line + "\n")) == Losses(steps=(7,), values=(2.31,))


@pytest.mark.parametrize(
    "line",
    [
        "step 7 eval_loss 2.31",
        "step 7 eval loss: 2.31",
        "step 7 validation/loss=2.31",
        "Eval step 7 loss 2.31",
        "[validation] step=7 loss=2.31",
        '{"step": 7, "eval/loss": 2.31}',
        '{"step": 7, "loss": 2.31, "split": "val"}',
        "step 7 aux_loss 0.01",
        "step 7 loss_scale: 65536",
        "step 7 loss scale 65536",
        "step 7 loss 3s",
        "step 7 loss 5%",
        "step 7 glossary 3",
        "step 7 layer_norm 1.0",
        "",
    ],
)
def test_what_is_no_training_loss_is_not_taken_for_one(tmp_path: Path, line: str) -> None:
    assert read_losses(run(tmp_path, line + "\n")) == Losses()


def test_norms_of_the_gradient_are_beside_them(tmp_path: Path) -> None:
    text = "step 1 loss 3.5 grad_norm 0.25\nstep 2 loss 3.25 gradient norm: 0.5\n"
    text += "step 3 loss 3.125 param_norm 900 gnorm=1.0\n"
    assert read_losses(run(tmp_path, text)) == Losses(
        steps=(1, 2, 3), values=(3.5, 3.25, 3.125), norm_steps=(1, 2, 3), norms=(0.25, 0.5, 1.0)
    )


def test_an_evaluation_between_does_not_mix_in(tmp_path: Path) -> None:
    text = "step 1 loss 3.5\neval at step 1: loss 9.5\nstep 1 loss 9.25\nstep 2 loss 3.25\n"
    assert read_losses(run(tmp_path, text)).values == (3.5, 3.25)


def test_no_number_is_a_loss_too(tmp_path: Path) -> None:
    found = read_losses(run(tmp_path, 'step 1 loss 3\nstep 2 loss nan\n{"step":3,"loss":NaN}\n'))
    assert found.steps == (1, 2, 3)
    assert [math.isnan(it) for it in found.values] == [False, True, True]


def test_lines_without_steps_are_numbered_as_they_come(tmp_path: Path) -> None:
    found = read_losses(run(tmp_path, "loss: 3.5\nhello\nloss: 3.25\n"))
    assert found == Losses(steps=(0, 1), values=(3.5, 3.25))


def test_a_bar_writes_one_line_over_the_other(tmp_path: Path) -> None:
    bar = "\r".join(f"train: {at}/9 [00:01<00:02, 2it/s, loss={9 - at}.5]" for at in range(3))
    assert read_losses(run(tmp_path, "", bar)).values == (9.5, 8.5, 7.5)


def test_of_very_many_the_first_are_kept_and_the_end_of_all(tmp_path: Path) -> None:
    lines = [f"step {at} loss 1.5" for at in range(MOST + 50)]
    lines[MOST + 20] = f"step {MOST + 20} loss nan"
    found = read_losses(run(tmp_path, "\n".join(lines)))
    assert len(found.steps) == MOST + 1
    assert found.steps[-1] == MOST + 20


@pytest.mark.parametrize(
    "words",
    [("metrics_file=m.jsonl",), ("--metrics-file", "m.jsonl"), ("--trainer.metrics_file=m.jsonl",)],
)
class TestMetricsFile:
    def test_the_last_run_in_it_counts(self, tmp_path: Path, words: tuple[str, ...]) -> None:
        lines = [{"step": at, "learning/loss": value} for at, value in ((0, 9.0), (1, 8.0))]
        lines += [{"step": at, "learning/loss": value} for at, value in ((0, 5.0), (1, 4.0))]
        made = run(tmp_path / "run", "quiet\n", "", "python", *words)
        path = tmp_path / "run" / "m.jsonl"
        path.write_text("\n".join(map(json.dumps, lines)) + '\n{"step": 2, "lo')
        assert read_losses(made) == Losses(steps=(0, 1), values=(5.0, 4.0))

    def test_one_that_is_older_is_of_another_run(
        self, tmp_path: Path, words: tuple[str, ...]
    ) -> None:
        made = run(tmp_path / "run", "quiet\n", "", "python", *words)
        path = tmp_path / "run" / "m.jsonl"
        path.write_text('{"step": 1, "loss": 3}\n')
        os.utime(path, (1, 1))
        assert read_losses(made) == Losses()


def test_a_rank_whose_logs_are_gone_has_none(tmp_path: Path) -> None:
    made = run(tmp_path / "run", "step 1 loss 2\n")
    made.ranks[0].stdout.unlink()
    assert read_losses(made) == Losses()
