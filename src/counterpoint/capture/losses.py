"""The losses of a run by step, read from what it printed or from its metrics file."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

from counterpoint.capture.steps import step_of
from counterpoint.core import parse_json
from counterpoint.runs.run import Run

__all__ = ["MOST", "LoggedValues", "Losses", "logged_values", "read_losses"]


def _set(text: str) -> frozenset[str]:
    return frozenset(text.split())


_NUMBER: Final = r"[-+]?(?:nan|inf(?:inity)?|\d+(?:\.\d*)?(?:e[-+]?\d+)?)(?![\w.%]*[A-Za-z%])"
_FIGURE: Final = re.compile(
    r"(?:(?<![A-Za-z])(?P<before>[A-Za-z]+) )?(?<![A-Za-z])"
    r"(?P<name>(?:[A-Za-z][A-Za-z0-9]{0,60}[/_.-]){0,16}(?:loss(?:es)?|g?norm))"
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
_PHASE_NAMES: Final = ("split", "mode", "phase", "stage")
_LONGEST_LINE: Final = 4000
MOST: Final = 2000
"""Maximum number of recorded steps: trials are short, and each record is read many times."""
_MOST_BYTES: Final = 256 << 20
_METRICS: Final = re.compile(r"^-{0,2}(?:[\w.]*\.)?metrics[_-]file(?:=(.+))?$")
_CLOCKS_DIFFER_S: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Losses:
    """The losses that the program printed, by step; empty if it prints none.

    Norms of the gradient are included if they are printed.
    """

    steps: tuple[int, ...] = ()
    values: tuple[float, ...] = ()
    norm_steps: tuple[int, ...] = ()
    norms: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class LoggedValues:
    """The values in one line; `step` is None if it has none."""

    step: int | None
    loss: float | None
    norm: float | None


def logged_values(line: str) -> LoggedValues | None:
    """Return the training loss and the gradient norm in a line; None if it has neither.

    Known formats:

        step 3 loss 2.31 · [step 3] loss=2.31 · {'step': 3, 'loss': 2.31}
        completed step: 7, seconds: 1.2, ..., total_weights: 65536, loss: 10.8      MaxText
        {"step": 7.0, "learning/loss": 10.8, "learning/grad_norm": 1.2}             its metrics_file
        Progress on:train 7.00it/100it rate:1.2it/s ... postfix:loss=10.8           Levanter
        train:  7%|#  | 7/100 [00:05<00:45, 2.0it/s, loss=2.31]                     tqdm

    A loss of an evaluation does not count, nor does a part of the loss (auxiliary, load balancing,
    z), which may be zero or vary by itself.
    """
    line = line[:_LONGEST_LINE]
    if "loss" not in line.lower() and "norm" not in line.lower():
        return None
    if line.lstrip()[:1] == "{":
        try:
            parsed: object = parse_json(line)
        except ValueError:
            parsed = None
        if isinstance(parsed, dict):
            return logged_values_of_json(cast("Mapping[str, object]", parsed))
    figures = list(_FIGURE.finditer(line))
    loss = next((match for match in figures if _is_loss(match["name"], match["before"])), None)
    norm = next((match for match in figures if _is_norm(match["name"], match["before"])), None)
    first = loss or norm
    if first is None or _ELSEWHERE.search(_FIGURE.sub("", line[: first.start()])):
        return None
    step = step_of(line)
    if step is None:
        bar = next((bar for pattern in _BARS if (bar := pattern.search(line))), None)
        step = int(bar[1]) if bar else None
    return LoggedValues(step, _value(loss), _value(norm))


def _value(match: re.Match[str] | None) -> float | None:
    return float(match["value"]) if match else None


def logged_values_of_json(values: Mapping[str, object]) -> LoggedValues | None:
    """Return the training loss and the gradient norm in a line of JSON; None if it has neither."""
    loss = _first(values, _is_loss)
    norm = _first(values, _is_norm)
    about = " ".join(str(values[name]) for name in _PHASE_NAMES if name in values)
    if (loss is None and norm is None) or _ELSEWHERE.search(about):
        return None
    for name in _STEP_NAMES:
        step = values.get(name)
        if isinstance(step, int | float) and not isinstance(step, bool) and step == int(step):
            return LoggedValues(int(step), loss, norm)
    return LoggedValues(None, loss, norm)


def _first(values: Mapping[str, object], is_it: Callable[[str], bool]) -> float | None:
    for name, value in values.items():
        if not is_it(name):
            continue
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
        if str(value).lower() == "nan":  # JSON has no literal for NaN
            return math.nan
    return None


def _words(name: str) -> frozenset[str]:
    return frozenset(re.findall(r"[a-z]+", name.lower()))


def _is_loss(name: str, before: str | None = None) -> bool:
    """Return True for the name of the whole training loss; `before`: the preceding word."""
    words = _words(name)
    elsewhere = (before or "").lower() in _EVALUATES | _PARTS
    return bool(words & {"loss", "losses"}) and words <= _OF_THE_WHOLE and not elsewhere


def _is_norm(name: str, before: str | None = None) -> bool:
    words = _words(name) | _words(before or "")
    named = _words(name) <= _ABOUT_NORMS and bool(words & {"norm", "gnorm"})
    return named and bool(words & _OF_GRADIENTS)


def read_losses(run: Run) -> Losses:
    """Read the losses of the first rank that printed any, or of a metrics file of its command.

    A step counts once, by its first value. If no line has a step number, lines are numbered in
    order.
    """
    for rank in run.ranks:
        for stream in (rank.stdout, rank.stderr):
            losses = _series(_printed(stream))
            if losses.steps:
                return losses
    path = _metrics_file(run)
    return _series(_last_run(_written(path))) if path else Losses()


def _series(figures: Iterable[LoggedValues]) -> Losses:
    lines = list(figures)
    if not any(line.step is not None for line in lines):
        losses = [line.loss for line in lines if line.loss is not None]
        norms = [line.norm for line in lines if line.norm is not None]
        return _losses(list(enumerate(losses)), list(enumerate(norms)))
    return _losses(
        _rising((line.step, line.loss) for line in lines),
        _rising((line.step, line.norm) for line in lines),
    )


def _losses(losses: Sequence[tuple[int, float]], norms: Sequence[tuple[int, float]]) -> Losses:
    losses, norms = _kept(losses), _kept(norms)
    return Losses(
        steps=tuple(step for step, _ in losses),
        values=tuple(value for _, value in losses),
        norm_steps=tuple(step for step, _ in norms),
        norms=tuple(value for _, value in norms),
    )


def _kept(pairs: Sequence[tuple[int, float]]) -> Sequence[tuple[int, float]]:
    """Return the first steps; of the rest, only the first value that is not finite: it is fatal."""
    beyond = (pair for pair in pairs[MOST:] if not math.isfinite(pair[1]))
    return [*pairs[:MOST], *([first] if (first := next(beyond, None)) else [])]


def _rising(pairs: Iterable[tuple[int | None, float | None]]) -> list[tuple[int, float]]:
    rising: list[tuple[int, float]] = []
    for step, value in pairs:
        if step is not None and value is not None and (not rising or step > rising[-1][0]):
            rising.append((step, value))
    return rising


def _printed(path: Path) -> Iterator[LoggedValues]:
    for line in _lines(path):
        if (values := logged_values(line)) is not None:
            yield values


def _lines(path: Path) -> Iterator[str]:
    """Yield lines as displayed: a progress bar overwrites its line."""
    with suppress(OSError), path.open("rb") as file:
        size = 0
        for raw in file:
            size += len(raw)
            if size > _MOST_BYTES:
                return
            for part in raw.split(b"\r"):
                if part.strip():
                    yield part.decode("utf-8", errors="replace")


def _metrics_file(run: Run) -> Path | None:
    """Return the file to which the trainer writes its metrics (MaxText: `metrics_file=`)."""
    words = run.command
    for at, word in enumerate(words):
        match = _METRICS.match(word)
        if match is None:
            continue
        name = match[1] or (words[at + 1] if at + 1 < len(words) else "")
        path = Path(run.cwd, name)
        with suppress(OSError):
            if name and path.is_file() and _is_of(run, path):
                return path
    return None


def _is_of(run: Run, path: Path) -> bool:
    """Return True if this run wrote it, not an earlier one with the same command."""
    return path.stat().st_mtime >= run.started.timestamp() - _CLOCKS_DIFFER_S


def _written(path: Path) -> Iterator[LoggedValues]:
    for line in _lines(path):
        with suppress(ValueError):
            parsed: object = parse_json(line)
            if isinstance(parsed, dict):
                values = logged_values_of_json(cast("dict[str, object]", parsed))
                if values is not None:
                    yield values


def _last_run(figures: Iterable[LoggedValues]) -> list[LoggedValues]:
    """Return the figures of the last run: such files are appended to, and each run starts over."""
    last: list[LoggedValues] = []
    for entry in figures:
        if last and entry.step is not None and entry.step < (last[-1].step or 0):
            last = []
        last.append(entry)
    return last
