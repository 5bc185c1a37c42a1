"""`read_losses`: the losses of a run by step, from what it printed or wrote to its metrics file."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, cast

from counterpoint.core.documents import parse_json
from counterpoint.runs import Run
from counterpoint.tune.trial.loss_lines import Figures, figures_of, of_mapping
from counterpoint.tune.trial.report import Losses

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
