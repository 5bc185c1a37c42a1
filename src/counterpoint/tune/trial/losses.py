"""Losses of a run by step, and the guard that compares an arm's with the base's."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Final, Literal, cast

import numpy as np
import numpy.typing as npt

from counterpoint.capture import step_of
from counterpoint.core import parse_json
from counterpoint.runs import Run
from counterpoint.tune.trial.report import Losses


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


MOST: Final = 2000
"""Steps that are kept: trials are short, and the record of each is read many times."""
_MOST_BYTES: Final = 256 << 20
_METRICS: Final = re.compile(r"^-{0,2}(?:[\w.]*\.)?metrics[_-]file(?:=(.+))?$")
_LATE_S: Final = 1.0


def read_losses(run: Run) -> Losses:
    """The losses of the first rank that printed any; else those of a metrics file of its command.

    A step counts once, by the first that is said of it. Lines without a number of a step are
    numbered as they come, where no line has one.
    """
    for rank in run.ranks:
        for stream in (rank.stdout, rank.stderr):
            found = _series(_printed(stream))
            if found.steps:
                return found
    path = _metrics_file(run)
    return _series(_last_run(_written(path))) if path else Losses()


def _series(figures: Iterable[Figures]) -> Losses:
    told = list(figures)
    if not any(it.step is not None for it in told):
        losses = [it.loss for it in told if it.loss is not None]
        norms = [it.norm for it in told if it.norm is not None]
        return _losses(list(enumerate(losses)), list(enumerate(norms)))
    return _losses(
        _rising((it.step, it.loss) for it in told), _rising((it.step, it.norm) for it in told)
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
    """The first ones; of those beyond, the first that is no number, as that is the end of all."""
    beyond = (it for it in pairs[MOST:] if not math.isfinite(it[1]))
    return [*pairs[:MOST], *([first] if (first := next(beyond, None)) else [])]


def _rising(pairs: Iterable[tuple[int | None, float | None]]) -> list[tuple[int, float]]:
    found: list[tuple[int, float]] = []
    for step, value in pairs:
        if step is not None and value is not None and (not found or step > found[-1][0]):
            found.append((step, value))
    return found


def _printed(path: Path) -> Iterator[Figures]:
    for line in _lines(path):
        if (found := figures_of(line)) is not None:
            yield found


def _lines(path: Path) -> Iterator[str]:
    """Lines as people see them: a progress bar writes one over the other."""
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
    """The file that a trainer is told to write its metrics to (MaxText: `metrics_file=`)."""
    words = run.command
    for at, word in enumerate(words):
        found = _METRICS.match(word)
        if found is None:
            continue
        name = found[1] or (words[at + 1] if at + 1 < len(words) else "")
        path = Path(run.cwd, name)
        with suppress(OSError):
            if name and path.is_file() and _is_of(run, path):
                return path
    return None


def _is_of(run: Run, path: Path) -> bool:
    """Whether this run wrote it, and not one before that had the same command."""
    return path.stat().st_mtime >= run.started.timestamp() - _LATE_S


def _written(path: Path) -> Iterator[Figures]:
    for line in _lines(path):
        with suppress(ValueError):
            made: object = parse_json(line)
            if isinstance(made, dict):
                found = of_mapping(cast("dict[str, object]", made))
                if found is not None:
                    yield found


def _last_run(figures: Iterable[Figures]) -> list[Figures]:
    """Such files are appended to, and each run begins anew."""
    last: list[Figures] = []
    for it in figures:
        if last and it.step is not None and it.step < (last[-1].step or 0):
            last = []
        last.append(it)
    return last


Values = npt.NDArray[np.float64]

FEWEST: Final = 5
"""Steps that runs must have in common."""
LEAST: Final = 0.01
"""No arm is another program for less, whatever the base's runs do."""
_LEAST_NORM: Final = 0.25
"""The same of the gradient's norm, which is louder."""
_TIMES: Final = 3.0
"""The tolerance, in differences of the base's runs."""
_WILD: Final = 0.1
"""Where the base's runs differ by more, nothing can be told from losses."""
_DOUBLES: Final = 200
"""Steps within which the tolerance grows by as much as it began with (rule of thumb)."""
_WINDOW: Final = 5
_NEAR_ZERO: Final = 0.05
"""Of the largest loss: shares are of no less."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarded:
    """`deviation` is the largest one, a share, at `step`; `tolerance` is what was allowed there."""

    kind: Literal["same", "other", "unchecked"]
    deviation: float | None = None
    tolerance: float | None = None
    step: int | None = None
    why: str = ""


def guard(base: Sequence[Losses], arm: Losses | None, tolerance: float | None = None) -> Guarded:
    """Whether an arm's losses are the base's.

    Args:
        base: Of the base's runs.
        arm: Of one run of the arm.
        tolerance: A share by which they may differ; None to learn it from the base's runs.
    """
    if arm is None or not arm.steps:
        return Guarded(kind="unchecked", why="it printed no losses")
    runs = [_finite(it.steps, it.values) for it in base]
    for step, value in zip(arm.steps, arm.values, strict=True):
        if not math.isfinite(value):
            why = f"its loss is {value} at step {step}"
            return Guarded(
                kind="other", deviation=math.inf, tolerance=tolerance, step=step, why=why
            )
    told = _compared(runs, _finite(arm.steps, arm.values), tolerance, LEAST, "losses")
    if told.kind == "other" or tolerance is not None or not arm.norms:
        return told
    norms = [_finite(it.norm_steps, it.norms) for it in base]
    mine = _finite(arm.norm_steps, arm.norms)
    of_norms = _compared(norms, mine, None, _LEAST_NORM, "gradient norms")
    return of_norms if of_norms.kind == "other" else told


def _finite(steps: Sequence[int], values: Sequence[float]) -> dict[int, float]:
    pairs = zip(steps, values, strict=True)
    return {step: value for step, value in pairs if math.isfinite(value)}


def _compared(
    base: Sequence[Mapping[int, float]],
    arm: Mapping[int, float],
    tolerance: float | None,
    least: float,
    what: str,
) -> Guarded:
    runs = [it for it in base if len(it) >= FEWEST]
    if not runs:
        return Guarded(kind="unchecked", why=f"no run of the base printed {what} of {FEWEST} steps")
    steps = sorted(set(arm).intersection(*runs))
    if len(steps) < FEWEST:
        why = f"{len(steps)} steps have {what} in all runs, and {FEWEST} are the least"
        return Guarded(kind="unchecked", why=why)
    series = [np.array([run[at] for at in steps]) for run in runs]
    mine = np.array([arm[at] for at in steps])
    scale = _scale(series)
    allowed = _allowed(series, scale, np.array(steps) - steps[0], tolerance, least)
    if isinstance(allowed, str):
        return Guarded(kind="unchecked", why=f"the base's own {what} {allowed}")
    off = np.min([_off(mine, it, scale) for it in series], axis=0)
    at = int(np.argmax(off / allowed))
    found, limit, step = float(off[at]), float(allowed[at]), steps[at]
    if found > limit:
        said = f"its {what} are {found:.1%} off the base's at step {step}, where {limit:.1%}"
        why = f"{said} would be no wonder"
        return Guarded(kind="other", deviation=found, tolerance=limit, step=step, why=why)
    why = f"{what} of {len(steps)} steps are the base's"
    return Guarded(kind="same", deviation=found, tolerance=limit, step=step, why=why)


def _scale(series: Sequence[Values]) -> Values:
    """What differences are shares of; a loss near zero is no measure of anything."""
    level = np.median(np.abs(series), axis=0)
    floor = _NEAR_ZERO * float(np.max(level))
    return np.maximum(level, floor if floor > 0 else 1.0)


def _off(one: Values, other: Values, scale: Values) -> Values:
    """By what share one is off the other: the running median of signed differences."""
    signed = (one - other) / scale
    reach = _WINDOW // 2
    middle = [np.median(signed[max(at - reach, 0) : at + reach + 1]) for at in range(len(signed))]
    return np.abs(np.array(middle))


def _allowed(
    series: Sequence[Values],
    scale: Values,
    since: npt.NDArray[np.int_],
    tolerance: float | None,
    least: float,
) -> Values | str:
    """How far off is no wonder, at each step; in words, where the base tells nothing."""
    if tolerance is not None:
        return np.full(len(scale), tolerance)
    apart = [_off(one, other, scale) for one, other in combinations(series, 2)]
    widest: Values = np.max(apart, axis=0) if apart else np.zeros(len(scale))
    if (most := float(np.max(widest))) > max(_WILD, least):
        return f"differ by up to {most:.0%} from run to run: give it a fixed seed"
    grown = least * (1 + since / _DOUBLES)
    return np.maximum(grown, _TIMES * np.maximum.accumulate(widest))
