"""Losses in the lines of trainers: which figures are the training loss, and of which step.

    step 3 loss 2.31 · [step 3] loss=2.31 · {'step': 3, 'loss': 2.31}
    completed step: 7, seconds: 1.2, ..., total_weights: 65536, loss: 10.8          MaxText
    {"step": 7.0, "learning/loss": 10.8, "learning/grad_norm": 1.2}                 its metrics_file
    Progress on:train 7.00it/100it rate:1.2it/s ... postfix:loss=10.8               levanter
    train:  7%|#  | 7/100 [00:05<00:45, 2.0it/s, loss=2.31]                         tqdm

Only a loss that no word calls another counts: that of an evaluation is not, nor are parts of the
whole (auxiliary, load balancing, z), which may be zero or wander by themselves.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, cast

from counterpoint.capture.step_lines import step_of
from counterpoint.core.documents import parse_json


def _set(text: str) -> frozenset[str]:
    return frozenset(text.split())


_NUMBER: Final = r"[-+]?(?:nan|inf(?:inity)?|\d+(?:\.\d*)?(?:e[-+]?\d+)?)(?![\w.%]*[A-Za-z%])"
_FIGURE: Final = re.compile(
    r"(?:(?<![A-Za-z])(?P<before>[A-Za-z]+) )?(?<![A-Za-z])"
    r"(?P<name>(?:[A-Za-z][A-Za-z0-9]*[/_.-])*(?:loss(?:es)?|g?norm))"
    rf"[\"']?\s*(?:[:=]\s*|\s)[\"']?(?:[A-Za-z]+\()?(?P<value>{_NUMBER})",
    re.IGNORECASE,
)
_EVALUATES: Final = _set(
    "eval evals evaluation evaluating val valid validation validating test testing dev"
    " holdout heldout"
)
_ELSEWHERE: Final = re.compile(
    rf"(?<![\w/.-])(?:{'|'.join(sorted(_EVALUATES))})(?![\w/.-])", re.IGNORECASE
)
_PARTS: Final = _set(
    "aux auxiliary z balance balancing router kl reg regularization mtp distillation"
)
_BARS: Final = (
    re.compile(r"(?<![\d.])(\d+)/\d+ \["),
    re.compile(r"(?<![\d.])(\d+)(?:\.0+)?it/[\d.]+k?it rate:"),
)
_OF_THE_WHOLE: Final = _set(
    "train training learning loss losses total mean avg average global lm ce xent"
    " cross entropy metrics optim current"
)
_OF_GRADIENTS: Final = frozenset({"grad", "grads", "gradient", "gradients", "gnorm"})
_ABOUT_NORMS: Final = _OF_THE_WHOLE | _OF_GRADIENTS | {"raw", "norm"}
_STEP_NAMES: Final = ("step", "global_step", "train_step", "train/step", "_step", "iteration")
_WHERE: Final = ("split", "mode", "phase", "stage")
_LONGEST: Final = 4000


@dataclass(frozen=True, slots=True)
class Figures:
    """What one line tells; `step` is None where it names none."""

    step: int | None
    loss: float | None
    norm: float | None


def figures_of(line: str) -> Figures | None:
    """The training loss and the gradient's norm in a line; None where there is neither."""
    line = line[:_LONGEST]
    if "loss" not in line.lower() and "norm" not in line.lower():
        return None
    if line.lstrip()[:1] == "{":
        try:
            made: object = parse_json(line)
        except ValueError:
            made = None
        if isinstance(made, dict):
            return of_mapping(cast("Mapping[str, object]", made))
    found = list(_FIGURE.finditer(line))
    loss = next((it for it in found if _is_loss(it["name"], it["before"])), None)
    norm = next((it for it in found if _is_norm(it["name"], it["before"])), None)
    first = loss or norm
    if first is None or _ELSEWHERE.search(_FIGURE.sub("", line[: first.start()])):
        return None
    step = step_of(line)
    if step is None:
        bar = next((bar for it in _BARS if (bar := it.search(line))), None)
        step = int(bar[1]) if bar else None
    return Figures(step, _value(loss), _value(norm))


def _value(found: re.Match[str] | None) -> float | None:
    return float(found["value"]) if found else None


def of_mapping(told: Mapping[str, object]) -> Figures | None:
    """The same of a line of JSON."""
    loss = _first(told, _is_loss)
    norm = _first(told, _is_norm)
    about = " ".join(str(told[it]) for it in _WHERE if it in told)
    if (loss is None and norm is None) or _ELSEWHERE.search(about):
        return None
    for name in _STEP_NAMES:
        step = told.get(name)
        if isinstance(step, int | float) and not isinstance(step, bool) and step == int(step):
            return Figures(int(step), loss, norm)
    return Figures(None, loss, norm)


def _first(told: Mapping[str, object], is_it: Callable[[str], bool]) -> float | None:
    for name, value in told.items():
        if not is_it(name):
            continue
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
        if str(value).lower() == "nan":  # JSON has no word for it
            return math.nan
    return None


def _words(name: str) -> frozenset[str]:
    return frozenset(re.findall(r"[a-z]+", name.lower()))


def _is_loss(name: str, before: str | None = None) -> bool:
    """Whether a name is that of the whole training loss; `before`: the word in front of it."""
    words = _words(name)
    other = (before or "").lower() in _EVALUATES | _PARTS
    return bool(words & {"loss", "losses"}) and words <= _OF_THE_WHOLE and not other


def _is_norm(name: str, before: str | None = None) -> bool:
    words = _words(name) | _words(before or "")
    named = _words(name) <= _ABOUT_NORMS and bool(words & {"norm", "gnorm"})
    return named and bool(words & _OF_GRADIENTS)
