"""`search`: the offline part of a tune. Docs: docs/concepts/tune-search.md.

    base ──► remedies, seeds, single choices ──► stacks ──► proposals, climbing ──► PGLE on the best
                                                                                        │
                                               shortlist ◄── minimal winner (ablation) ◄┘

Each candidate is recorded in the journal as soon as it is known. A restarted search tries the same
candidates in the same order, and finds their results there.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import Final

from counterpoint.compile import Pool
from counterpoint.diagnose import explain
from counterpoint.tune.arm import Acts, Arm, ArmOrigin
from counterpoint.tune.plan import StudyPlan
from counterpoint.tune.search import words
from counterpoint.tune.search.candidates import Board, minimal, shortlist
from counterpoint.tune.search.grid import Grid, Point
from counterpoint.tune.search.predictor import Predictor, SearchStopped
from counterpoint.tune.search.proposer import Proposer, require_optuna, widened
from counterpoint.tune.search.remedies import remedies
from counterpoint.tune.space.space import Dimension, Space, distinct, same_as
from counterpoint.tune.study.records import Ablated, CandidateSeen, SearchEnded, SpaceMade
from counterpoint.tune.study.study import Ledger, stamp
from counterpoint.workflow.forecast import ForecastBatch, PredictionInputs, forecasts

_PROFILED_POINTS: Final = 3  # points to which a profile is added
_UNKNOWN: Final = -1.0
_IDLE: Final = -2.0


def singles(grid: Grid) -> Iterator[Point]:
    """Yield each choice alone, with what it needs."""
    for point in dict.fromkeys(grid.singles()):
        if grid.why_not(point) is None:
            yield point


def stacks(grid: Grid, board: Board) -> Iterator[Point]:
    """Yield the named arms' points, then the best single choices combined: two, three, ...

    The combinations are the best ones if dimensions do not interact; later stages look for the
    rest.
    """
    known: set[Point] = set(board.points)
    for point in (*_of_seeds(grid), *_stacked(grid, board)):
        if point not in known:
            known.add(point)
            yield point


def _stacked(grid: Grid, board: Board) -> Iterator[Point]:
    chosen: dict[str, str] = {}
    for name, choice, _ in sorted(_best_choices(grid, board), key=lambda item: -item[2]):
        point = grid.canonical({**chosen, name: choice})
        if len(point) > len(chosen) and grid.why_not(point) is None:
            chosen = dict(point)
            yield point


def _of_seeds(grid: Grid) -> Iterator[Point]:
    """Yield the part of each named arm that lies in this grid; the rest acts at run time."""
    offered = {
        (dimension.name, choice.choice)
        for dimension in grid.searched
        for choice in dimension.choices
    }
    for arm in grid.space.seeds:
        chosen = {(change.dimension, change.choice) for change in arm.changes} & offered
        point = grid.canonical(dict(sorted(chosen)))
        if len(point) > 1 and grid.why_not(point) is None:
            yield point


def lively(grid: Grid, board: Board) -> tuple[Dimension, ...]:
    """Return dimensions with the choices that, alone, gave a new program; one of equal ones."""
    found: list[Dimension] = []
    for dimension in grid.searched:
        seen = {_program(board, ())}
        choices = [
            choice
            for choice in dimension.choices
            if _is_new(grid, board, dimension, choice.choice, seen)
        ]
        if choices:
            found.append(replace(dimension, choices=tuple(choices)))
    return tuple(found)


def climbing(grid: Grid, board: Board, asked: Collection[Point]) -> Iterator[Point]:
    """Yield neighbors of the current best point, the most promising first.

    `asked` are points in progress; the caller adds each point before requesting the next.
    """
    while True:
        best = next(iter(board.best_points()), ())
        found = [
            point
            for point in grid.neighbours(best)
            if point not in board.points and point not in asked and grid.why_not(point) is None
        ]
        if not found:
            return
        yield max(found, key=lambda point: _promise(grid, board, best, point))


def profiled(grid: Grid, board: Board) -> Iterator[Point]:
    """Yield the best few points with a profile added."""
    for point in board.best_points()[:_PROFILED_POINTS]:
        for name, choice in grid.profiled:
            on_top = grid.canonical({**dict(point), name: choice})
            if (name, choice) in on_top and grid.why_not(on_top) is None:
                yield on_top


def _best_choices(grid: Grid, board: Board) -> Iterator[tuple[str, str, float]]:
    """Yield each dimension's choice with the largest gain alone, if any gains."""
    for dimension in grid.searched:
        gains: list[tuple[float, str]] = []
        for option in dimension.choices:
            point = grid.alone(dimension.name, option.choice)
            gain = board.gain(point) if point is not None else None
            if gain is not None and gain > 0:
                gains.append((gain, option.choice))
        if gains:
            gain, choice = max(gains, key=lambda item: item[0])
            yield dimension.name, choice, gain


def _is_new(
    grid: Grid, board: Board, dimension: Dimension, choice: str, seen: set[str | None]
) -> bool:
    point = grid.alone(dimension.name, choice)
    if point is None or point not in board.points:
        return True  # unknown
    program = _program(board, point)
    if program is None or program in seen:
        return False
    seen.add(program)
    return True


def _program(board: Board, point: Point) -> str | None:
    seen = board.points.get(point)
    figures = seen.arm.predicted if seen is not None else None
    return figures.program if figures is not None else None


def _promise(grid: Grid, board: Board, best: Point, point: Point) -> float:
    """Return the gain of the change alone; removing one ranks before changes that cost time.

    Choices that left the base's program unchanged come last: here, too, they likely change nothing.
    """
    changed = set(point) - set(best)
    if not changed:
        return 0.0
    alone = [point for point in (grid.alone(*pair) for pair in changed) if point is not None]
    gains = [gain for gain in map(board.gain, alone) if gain is not None]
    idle = {_program(board, point) for point in alone} == {_program(board, ())}
    return _IDLE if idle else max(gains, default=_UNKNOWN)


Say = Callable[[str], None]

_ALONE: Final = 0.6  # maximum share of single choices among all candidates
_PROFILED: Final = 4  # at most one in so many candidates is reserved for profiles
_AT_RUN: Final = 4  # one in so many places of the shortlist is for arms that can't be predicted


def search(  # noqa: PLR0913
    work: PredictionInputs,
    space: Space,
    plan: StudyPlan,
    ledger: Ledger,
    say: Say = lambda _: None,
    stopped: Callable[[], bool] = lambda: False,
    *,
    made: ForecastBatch | None = None,
    confirm: int | None = None,
) -> None:
    """Predict candidates, and record the shortlist.

    It ends when `plan.candidates` were compiled or nothing new is left. If `stopped` returns true,
    it ends without a SearchEnded, and the next call continues. `made` is the base's prediction, if
    available. With `confirm`, that many arms are listed in addition to those named by the user.
    If the base fails, the CounterpointError of `predict` is raised.
    """
    if ledger.study.search is not None:
        return
    require_optuna()
    space = widened(space)
    started = time.monotonic()
    if ledger.study.space is None:
        dimensions = tuple(
            (dimension.name, len(dimension.choices)) for dimension in space.dimensions
        )
        ledger.add(
            SpaceMade(
                dimensions=dimensions,
                left_out=space.left_out,
                at=stamp(),
                notes=space.notes,
                jaxlib=space.version,
            )
        )
    if made is None:
        made = forecasts(_base_alone(work, space))
    jobs = plan.jobs or work.question.jobs
    with tempfile.TemporaryDirectory(prefix="counterpoint-tune-") as scratch, Pool(jobs) as pool:
        predictor = Predictor(work, made, ledger, pool, scratch=Path(scratch), stopped=stopped)
        board = Board(predictor.begin(space.base))
        say("explaining the base's predicted step")
        grid = Grid(_with_remedies(space, work, made))
        searcher = _Search(grid, plan, predictor, board, say, started, confirm)
        try:
            ended = searcher.run(ledger)
        except SearchStopped:
            return
    ledger.add(ended)
    say(ended.why)


def _with_remedies(space: Space, work: PredictionInputs, made: ForecastBatch) -> Space:
    """Put the remedies that `explain` names for the base's losses before all other seeds."""
    base = made.base
    explained = explain(base.simulation.timeline, target=work.bench.target, settings=base.settings)
    by_hand = [arm for arm in space.seeds if arm.origin is ArmOrigin.HAND]
    found = remedies(explained.findings, Grid(space))
    first = [same_as(space.base, arm, by_hand) or arm for arm in found]  # keep the user's name
    return replace(space, seeds=tuple(distinct(space.base, (*first, *space.seeds))))


def _base_alone(work: PredictionInputs, space: Space) -> PredictionInputs:
    return replace(work, question=replace(work.question, settings=space.base, candidates=()))


class _Search:
    """One search, stage by stage."""

    def __init__(
        self,
        grid: Grid,
        plan: StudyPlan,
        predictor: Predictor,
        board: Board,
        say: Say,
        started: float,
        confirm: int | None,
    ) -> None:
        self._grid = grid
        self._plan = plan
        self._predictor = predictor
        self._board = board
        self._say = say
        self._started = started
        self._confirm = confirm
        self._known = {board.base.arm.name: board.base}
        self._reserve = min(3 * len(grid.profiled), plan.candidates // _PROFILED)

    def run(self, ledger: Ledger) -> SearchEnded:
        """Run all stages, and return their result."""
        self._look_alone()
        self._combine()
        self._look(self._arms(profiled(self._grid, self._board), ArmOrigin.SEARCH), 0)
        end = f"{self._predictor.asked} compiled" + (
            "" if self._is_full(self._reserve) else ", and nothing new is left"
        )
        base = self._board.base.arm.predicted
        best = self._board.best()
        ablated: tuple[Ablated, ...] = ()
        if base is not None and not best.arm.is_base:
            self._say(f"leaving out each change of {best.arm.name}")
            found = minimal(self._grid, base, best, self._predict)
            best, ablated = found.winner, found.ablated
            recorded = {(entry.arm, entry.dimension) for entry in ledger.study.ablation}
            for entry in ablated:
                if (entry.arm, entry.dimension) not in recorded:
                    ledger.add(entry)
        unpredicted = list(self._at_run_time(ledger))
        by_hand = self._by_hand(unpredicted)
        places = max(self._plan.shortlist, by_hand)
        if self._confirm is not None:
            places = self._confirm + by_hand
        reserved = min(len(unpredicted), max(by_hand, places // _AT_RUN))
        listed = shortlist(
            self._board.base,
            self._board.candidates,
            best,
            most=places - reserved,
            indifferent=self._plan.rule.indifferent,
            weights=self._weights(ablated),
        )
        names = tuple(arm.name for arm in listed.arms)
        at_run = [name for name in unpredicted if name not in names]
        room = max(0, places - len(names))
        why = words.conclusion(
            self._board, listed, best, end=end, indifferent=self._plan.rule.indifferent
        )
        # Arms predicted to compile to the base's program do not count as unpredictable.
        unpredictable = [
            [name for name in some if name not in self._known]
            for some in (at_run[:room], at_run[room:])
        ]
        more = words.at_run(*unpredictable)
        return SearchEnded(
            why=f"{why}; {more}" if more else why,
            shortlist=(*names, *at_run[:room]),
            seconds=time.monotonic() - self._started,
            at=stamp(),
            tied=listed.tied,
        )

    def _by_hand(self, names: Iterable[str]) -> int:
        """Count the arms named by the user, which take precedence over the search's own."""
        named = {arm.name for arm in self._grid.space.seeds if arm.origin is ArmOrigin.HAND}
        return sum(name in named for name in names)

    def _weights(self, ablated: Iterable[Ablated]) -> dict[tuple[str, str], float]:
        """Return each choice's gain: in the winner if known, else alone."""
        found: dict[tuple[str, str], float] = {}
        for point in self._board.points:
            gain = self._board.gain(point) if len(point) == 1 else None
            if gain is not None:
                found[point[0]] = gain
        return {**found, **{(entry.dimension, entry.choice): entry.loses for entry in ablated}}

    def _look_alone(self) -> None:
        """Try remedies, arms named by the user, and every choice by itself."""
        seeds = (arm for arm in self._grid.space.seeds if arm.shows)
        # Points already tried as named arms.
        seeded = {self._grid.point_of(arm) for arm in self._grid.space.seeds}
        points = (point for point in singles(self._grid) if point not in seeded)
        alone = self._arms(points, ArmOrigin.SPACE)
        most = int(_ALONE * self._plan.candidates)
        single = islice(alone, max(0, most - len(self._grid.space.seeds)))
        self._look(chain(seeds, single), self._reserve)

    def _combine(self) -> None:
        """Try several choices together."""
        grid, board = self._grid, self._board
        self._look(self._arms(stacks(grid, board), ArmOrigin.SEARCH), self._reserve)
        self._propose(lively(grid, board))
        self._propose(grid.searched)

    def _propose(self, dimensions: tuple[Dimension, ...]) -> None:
        """Alternate between proposals in these dimensions and neighbors of the best point."""
        proposer = Proposer(self._grid, dimensions, self._board, self._plan.seed)
        climbs = climbing(self._grid, self._board, proposer.asked)
        waiting: list[Point] = []

        def arms() -> Iterator[Arm]:
            for point in _in_turns(proposer.points(), climbs):
                proposer.asked.add(point)
                arm = self._grid.arm(point, ArmOrigin.SEARCH)
                if arm.name in self._known:
                    proposer.tell(point, self._known[arm.name])
                else:
                    waiting.append(point)
                    yield arm

        for seen in self._outcomes(arms(), self._reserve):
            proposer.tell(waiting.pop(0), seen)

    def _arms(self, points: Iterable[Point], origin: ArmOrigin) -> Iterator[Arm]:
        for point in points:
            if point not in self._board.points:
                yield self._grid.arm(point, origin)

    def _look(self, arms: Iterable[Arm], reserve: int) -> None:
        for _ in self._outcomes(arms, reserve):
            pass

    def _outcomes(self, arms: Iterable[Arm], reserve: int) -> Iterator[CandidateSeen]:
        """Yield the candidates of these arms while there is room for more."""

        def within() -> Iterator[Arm]:
            for arm in arms:
                if arm.name in self._known:
                    continue
                yield arm
                if self._is_full(reserve):
                    return

        if self._is_full(reserve):
            return
        for seen in self._predictor.outcomes(within()):
            self._note(seen)
            yield seen

    def _predict(self, arms: Iterable[Arm]) -> Iterator[CandidateSeen]:
        """Yield each arm's candidate, regardless of room; known ones are reused."""
        wanted = list(arms)
        fresh = [arm for arm in wanted if arm.name not in self._known]
        for seen in self._predictor.outcomes(fresh):
            self._note(seen)
        yield from (self._known[arm.name] for arm in wanted)

    def _note(self, seen: CandidateSeen) -> None:
        self._known[seen.arm.name] = seen
        self._board.add(seen, self._grid.point_of(seen.arm))
        seconds = time.monotonic() - self._started
        done, most = self._predictor.answered, self._plan.candidates
        self._say(words.progress(self._board, done, most, seconds))

    def _is_full(self, reserve: int) -> bool:
        return self._predictor.asked >= self._plan.candidates - reserve

    def _at_run_time(self, ledger: Ledger) -> list[str]:
        """Return arms that can't be predicted: the user's first, then single choices."""
        base = self._board.base.arm.predicted
        program = base.program if base is not None else None
        known = {seen.arm.name for seen in ledger.study.candidates}
        names: list[str] = []
        space = self._grid.space
        for arm in distinct(space.base, (*space.seeds, *self._single_at_run_time())):
            seen = self._known.get(arm.name)
            if arm.name not in known:
                ledger.add(CandidateSeen(arm=arm, at=stamp()))
            figures = seen.arm.predicted if seen is not None else None
            silent = figures is not None and figures.program == program
            may_run = seen is None or (figures is not None and figures.fits is not False)
            wanted = arm.origin is ArmOrigin.HAND and may_run  # whatever its prediction
            if arm.acts is Acts.RUNTIME and (not arm.shows or silent or wanted):
                names.append(arm.name)
        return names

    def _single_at_run_time(self) -> Iterator[Arm]:
        for dimension in self._grid.space.dimensions:
            for choice in dimension.choices:
                point = ((dimension.name, choice.choice),)
                if choice.acts is Acts.RUNTIME and self._grid.why_not(point) is None:
                    yield self._grid.arm(point, ArmOrigin.SPACE)


def _in_turns(*sources: Iterator[Point]) -> Iterator[Point]:
    """Yield from each source in turn until all are exhausted."""
    left = list(sources)
    while left:
        for source in list(left):
            point = next(source, None)
            if point is None:
                left.remove(source)
            else:
                yield point
