"""Predict the step that a command would run: it is lowered, and nothing is trained."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

from counterpoint.compile.interpreter import require_compiler
from counterpoint.core.notebook import as_typed
from counterpoint.core.scratch import scratch_directory
from counterpoint.hardware.target import Target
from counterpoint.workflow.forecast.options import PredictionOptions
from counterpoint.workflow.prediction.prediction import Prediction, predict, require_target
from counterpoint.workflow.subject import run_subject


def predict_command(
    words: Sequence[str],
    target: Target | None,
    program: str | None,
    question: PredictionOptions,
    *,
    keep: Path | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Prediction:
    """Return the prediction; the lowered step is written to `keep`."""
    where = require_target(target, shlex.join(as_typed(words)))
    require_compiler(tpus=where.tpu is not None)
    with scratch_directory("lower") as scratch:
        say(f"lowering {shlex.join(as_typed(words))}")
        subject = run_subject(
            words,
            target=where,
            devices=question.devices,
            directory=scratch,
            program=program,
            timeout_s=question.timeout_s,
            keep=keep,
            say=say,
        )
        return predict(subject, target=where, question=question, say=say)
