"""Proposer: chooses the next point with Optuna's TPE, from choices that good points share.

All randomness comes from one seed, and results are reported in the order of the proposals, so the
same seed makes the same proposals. A point is proposed once. If the sampler has nothing new,
neighbors of the best points are drawn, then any points.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Final

from counterpoint.core import UsageError
from counterpoint.tune.search.grid import Grid, Point
from counterpoint.tune.search.leaderboard import Leaderboard
from counterpoint.tune.space.space import Dimension
from counterpoint.tune.study.records import CandidateSeen

if TYPE_CHECKING:
    import optuna


_UNCHANGED: Final = "as the base has it"
_MOST_ASKS: Final = 24
_MOST_DRAWS: Final = 400
_MOST_LISTED: Final = 4096  # largest space that is enumerated
_BEST: Final = 4  # points whose neighbors are proposed
_WORST: Final = 1.0  # a step that is twice the base's
_OVER_LIMIT: Final = "counterpoint: bytes over the limit"  # as a share: above zero, it does not fit


class Proposer:
    """Proposes points of some dimensions of a grid.

    Args:
        grid: The full grid.
        dimensions: The dimensions to vary; they may have fewer choices here.
        board: The candidates so far.
        seed: Seed for all random choices.
    """

    def __init__(
        self, grid: Grid, dimensions: Sequence[Dimension], board: Leaderboard, seed: int
    ) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._grid = grid
        self._choices = {
            dimension.name: (_UNCHANGED, *(choice.choice for choice in dimension.choices))
            for dimension in dimensions
        }
        self._board = board
        self.proposed: set[Point] = set()  # points, whatever their source
        self._trials: dict[Point, optuna.trial.Trial] = {}
        self._random = random.Random(seed)  # noqa: S311  nothing secret
        self._distributions: dict[str, optuna.distributions.BaseDistribution] = {
            name: optuna.distributions.CategoricalDistribution(choices)
            for name, choices in self._choices.items()
        }
        self._study = optuna.create_study(sampler=_sampler(seed))
        for point, seen in board.points.items():
            self._remember(point, seen)

    def points(self) -> Iterator[Point]:
        """Yield new points until the space is exhausted; report each one with `tell`."""
        while self._choices:
            point = self._next()
            if point is None:
                return
            self.proposed.add(point)
            yield point

    def tell(self, point: Point, seen: CandidateSeen) -> None:
        """Report a point's result, whatever its source."""
        trial = self._trials.pop(point, None)
        if trial is None:
            self._remember(point, seen)
        else:
            self._finish(trial, seen)

    def _next(self) -> Point | None:
        for _ in range(_MOST_ASKS):
            trial = self._study.ask(self._distributions)
            point = self._point(trial.params)
            if self._is_new(point):
                self._trials[point] = trial
                return point
            self._study.tell(trial, state=_failed())
        point = self._beside() or self._anywhere()
        if point is not None:
            self._study.enqueue_trial(self._parameters(point))
            self._trials[point] = self._study.ask(self._distributions)
        return point

    def _beside(self) -> Point | None:
        """Return a new point that differs in one dimension from one of the best."""
        for point in self._board.best_points()[:_BEST]:
            found = [
                neighbor
                for neighbor in self._grid.neighbors(point)
                if self._is_mine(neighbor) and self._is_new(neighbor)
            ]
            if found:
                return self._random.choice(found)
        return None

    def _anywhere(self) -> Point | None:
        lists = list(self._choices.values())
        if prod(map(len, lists)) <= _MOST_LISTED:
            every = (
                self._point(dict(zip(self._choices, chosen, strict=True)))
                for chosen in product(*lists)
            )
            found = list(dict.fromkeys(point for point in every if self._is_new(point)))
            return self._random.choice(found) if found else None
        drawn = (
            self._point(
                {name: self._random.choice(choices) for name, choices in self._choices.items()}
            )
            for _ in range(_MOST_DRAWS)
        )
        return next((point for point in drawn if self._is_new(point)), None)

    def _is_new(self, point: Point) -> bool:
        known = point in self.proposed or point in self._board.points
        return not known and self._grid.why_not(point) is None

    def _is_mine(self, point: Point) -> bool:
        return all(choice in self._choices.get(name, ()) for name, choice in point)

    def _point(self, parameters: Mapping[str, str]) -> Point:
        return self._grid.canonical(
            {name: choice for name, choice in parameters.items() if choice != _UNCHANGED}
        )

    def _parameters(self, point: Point) -> dict[str, str]:
        return {**dict.fromkeys(self._choices, _UNCHANGED), **dict(point)}

    def _remember(self, point: Point, seen: CandidateSeen) -> None:
        """Report an earlier result to the sampler as if it had proposed the point."""
        if self._choices and self._is_mine(point):
            self._study.enqueue_trial(self._parameters(point))
            self._finish(self._study.ask(self._distributions), seen)

    def _finish(self, trial: optuna.trial.Trial, seen: CandidateSeen) -> None:
        """Report a result; a failure is the worst gain and violates the constraint."""
        figures = seen.arm.predicted
        over = 0.0 if figures is not None else 1.0
        if figures is not None and figures.fits is False:
            over = (figures.peak_bytes or 2) / (figures.limit_bytes or 1) - 1
        trial.set_user_attr(_OVER_LIMIT, over)
        self._study.tell(trial, -figures.gain if figures is not None else _WORST)


def require_optuna() -> None:
    """Raise UsageError if Optuna is missing, before anything is compiled."""
    try:
        import optuna
    except ModuleNotFoundError as error:
        raise UsageError(
            "searching needs Optuna, which is not installed",
            why=str(error),
            next="pip install 'counterpoint[tune]'",
        ) from None
    del optuna


def _failed() -> optuna.trial.TrialState:
    """Return the state from which the sampler learns nothing."""
    from optuna.trial import TrialState

    return TrialState.FAIL


def _sampler(seed: int) -> optuna.samplers.BaseSampler:
    import optuna

    with warnings.catch_warnings():  # conditions need its experimental options
        warnings.simplefilter("ignore")
        return optuna.samplers.TPESampler(
            seed=seed,
            n_startup_trials=0,
            multivariate=True,
            constant_liar=True,
            constraints_func=lambda trial: (trial.user_attrs.get(_OVER_LIMIT, 0.0),),
        )
