"""`search`: the offline part of a tune. Docs: docs/concepts/tune-search.md.

    base ──► remedies, seeds, choices alone ──► stacks ──► proposals, climbing ──► PGLE on the best
                                                                                        │
                                               shortlist ◄── minimal winner (ablation) ◄┘

Each candidate is in the journal as soon as it is known. A search that is begun again asks the same
questions in the same order, and finds the answers there.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import Final

from counterpoint.compile import Pool
from counterpoint.diagnose.explain import explain
from counterpoint.tune.arm import Acts, Arm, Origin
from counterpoint.tune.journal.records import Ablated, CandidateSeen, SearchEnded, SpaceMade
from counterpoint.tune.plan import Plan
from counterpoint.tune.search import stages, words
from counterpoint.tune.search.ablation import minimal
from counterpoint.tune.search.board import Board
from counterpoint.tune.search.grid import Grid, Point
from counterpoint.tune.search.predictor import Predictor, SearchStopped
from counterpoint.tune.search.proposer import Proposer, require_optuna
from counterpoint.tune.search.remedies import remedies
from counterpoint.tune.search.shortlist import shortlist
from counterpoint.tune.search.shows import shows
from counterpoint.tune.search.widened import widened
from counterpoint.tune.space.equals import distinct, same_as
from counterpoint.tune.space.space import Dimension, Space
from counterpoint.tune.study.ledger import Ledger, stamp
from counterpoint.workflow.prediction.trials import Made, Work, forecasts

Say = Callable[[str], None]

_ALONE: Final = 0.6  # of all candidates: at most so many are single choices
_PROFILED: Final = 4  # one in so many candidates, at most, is kept for profiles
_AT_RUN: Final = 4  # one in so many places of the shortlist is for what no simulator can tell


def search(  # noqa: PLR0913
    work: Work,
    space: Space,
    plan: Plan,
    ledger: Ledger,
    say: Say = lambda _: None,
    stopped: Callable[[], bool] = lambda: False,
    *,
    made: Made | None = None,
    confirm: int | None = None,
) -> None:
    """Predict candidates, and write down those that are worth real time.

    It ends when `plan.candidates` were compiled or nothing new is left. When `stopped` says so it
    ends without a SearchEnded: the next call goes on. `made` is the base's prediction, where
    somebody has it already. With `confirm`, so many are listed beside those that somebody named.
    The base's failure is the CounterpointError that `predict` gives.
    """
    if ledger.study.search is not None:
        return
    require_optuna()
    space = widened(space)
    started = time.monotonic()
    if ledger.study.space is None:
        dimensions = tuple((it.name, len(it.choices)) for it in space.dimensions)
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
        one = _Search(grid, plan, predictor, board, say, started, confirm)
        try:
            ended = one.run(ledger)
        except SearchStopped:
            return
    ledger.add(ended)
    say(ended.why)


def _with_remedies(space: Space, work: Work, made: Made) -> Space:
    """What `explain` names against the base's losses comes before all other seeds."""
    base = made.base
    explained = explain(base.simulation.timeline, target=work.bench.target, settings=base.settings)
    by_hand = [it for it in space.seeds if it.origin is Origin.HAND]
    found = remedies(explained.findings, Grid(space))
    first = [same_as(space.base, it, by_hand) or it for it in found]  # the user's name stands
    return replace(space, seeds=tuple(distinct(space.base, (*first, *space.seeds))))


def _base_alone(work: Work, space: Space) -> Work:
    return replace(work, question=replace(work.question, settings=space.base, candidates=()))


class _Search:
    """One search, stage after stage."""

    def __init__(
        self,
        grid: Grid,
        plan: Plan,
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
        """All stages; what they came to."""
        self._look_alone()
        self._combine()
        self._look(self._arms(stages.profiled(self._grid, self._board), Origin.SEARCH), 0)
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
            told = {(it.arm, it.dimension) for it in ledger.study.ablation}
            for it in ablated:
                if (it.arm, it.dimension) not in told:
                    ledger.add(it)
        untold = list(self._at_run_time(ledger))
        by_hand = self._by_hand(untold)
        places = max(self._plan.shortlist, by_hand)
        if self._confirm is not None:
            places = self._confirm + by_hand
        kept = min(len(untold), max(by_hand, places // _AT_RUN))
        listed = shortlist(
            self._board.base,
            self._board.candidates,
            best,
            most=places - kept,
            indifferent=self._plan.rule.indifferent,
            weights=self._weights(ablated),
        )
        names = tuple(it.name for it in listed.arms)
        at_run = [it for it in untold if it not in names]
        room = max(0, places - len(names))
        why = words.conclusion(
            self._board, listed, best, end=end, indifferent=self._plan.rule.indifferent
        )
        # An arm that was predicted to be the base's program is no arm that can't be predicted.
        silent = [
            [it for it in some if it not in self._known] for some in (at_run[:room], at_run[room:])
        ]
        more = words.at_run(*silent)
        return SearchEnded(
            why=f"{why}; {more}" if more else why,
            shortlist=(*names, *at_run[:room]),
            seconds=time.monotonic() - self._started,
            at=stamp(),
            tied=listed.tied,
        )

    def _by_hand(self, names: Iterable[str]) -> int:
        """How many of them somebody named: those come before what the simulator likes."""
        named = {it.name for it in self._grid.space.seeds if it.origin is Origin.HAND}
        return sum(it in named for it in names)

    def _weights(self, ablated: Iterable[Ablated]) -> dict[tuple[str, str], float]:
        """What each choice brings: to the winner, else alone."""
        found: dict[tuple[str, str], float] = {}
        for point in self._board.points:
            gain = self._board.gain(point) if len(point) == 1 else None
            if gain is not None:
                found[point[0]] = gain
        return {**found, **{(it.dimension, it.choice): it.loses for it in ablated}}

    def _look_alone(self) -> None:
        """Remedies, arms that somebody named, and every choice by itself."""
        seeds = (it for it in self._grid.space.seeds if shows(it))
        asked = {self._grid.point_of(it) for it in self._grid.space.seeds}  # the same, named
        points = (it for it in stages.singles(self._grid) if it not in asked)
        alone = self._arms(points, Origin.SPACE)
        most = int(_ALONE * self._plan.candidates)
        single = islice(alone, max(0, most - len(self._grid.space.seeds)))
        self._look(chain(seeds, single), self._reserve)

    def _combine(self) -> None:
        """Several choices together."""
        grid, board = self._grid, self._board
        self._look(self._arms(stages.stacks(grid, board), Origin.SEARCH), self._reserve)
        self._propose(stages.lively(grid, board))
        self._propose(grid.searched)

    def _propose(self, dimensions: tuple[Dimension, ...]) -> None:
        """Proposals among these dimensions, and steps from the best so far, in turns."""
        proposer = Proposer(self._grid, dimensions, self._board, self._plan.seed)
        climbs = stages.climbing(self._grid, self._board, proposer.asked)
        waiting: list[Point] = []

        def arms() -> Iterator[Arm]:
            for point in _in_turns(proposer.points(), climbs):
                proposer.asked.add(point)
                arm = self._grid.arm(point, Origin.SEARCH)
                if arm.name in self._known:
                    proposer.tell(point, self._known[arm.name])
                else:
                    waiting.append(point)
                    yield arm

        for seen in self._outcomes(arms(), self._reserve):
            proposer.tell(waiting.pop(0), seen)

    def _arms(self, points: Iterable[Point], origin: Origin) -> Iterator[Arm]:
        for point in points:
            if point not in self._board.points:
                yield self._grid.arm(point, origin)

    def _look(self, arms: Iterable[Arm], reserve: int) -> None:
        for _ in self._outcomes(arms, reserve):
            pass

    def _outcomes(self, arms: Iterable[Arm], reserve: int) -> Iterator[CandidateSeen]:
        """What comes of them, while there is room for more."""

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
        """What comes of each, whatever room there is; what is known is known."""
        asked = list(arms)
        fresh = [it for it in asked if it.name not in self._known]
        for seen in self._predictor.outcomes(fresh):
            self._note(seen)
        yield from (self._known[it.name] for it in asked)

    def _note(self, seen: CandidateSeen) -> None:
        self._known[seen.arm.name] = seen
        self._board.add(seen, self._grid.point_of(seen.arm))
        seconds = time.monotonic() - self._started
        done, most = self._predictor.answered, self._plan.candidates
        self._say(words.progress(self._board, done, most, seconds))

    def _is_full(self, reserve: int) -> bool:
        return self._predictor.asked >= self._plan.candidates - reserve

    def _at_run_time(self, ledger: Ledger) -> list[str]:
        """Arms that no prediction covers: those of the user's first, then single choices."""
        base = self._board.base.arm.predicted
        program = base.program if base is not None else None
        known = {it.arm.name for it in ledger.study.candidates}
        names: list[str] = []
        space = self._grid.space
        for arm in distinct(space.base, (*space.seeds, *self._single_at_run_time())):
            seen = self._known.get(arm.name)
            if arm.name not in known:
                ledger.add(CandidateSeen(arm=arm, at=stamp()))
            figures = seen.arm.predicted if seen is not None else None
            silent = figures is not None and figures.program == program
            may_run = seen is None or (figures is not None and figures.fits is not False)
            wanted = arm.origin is Origin.HAND and may_run  # whatever is predicted of it
            if arm.acts is Acts.RUNTIME and (not shows(arm) or silent or wanted):
                names.append(arm.name)
        return names

    def _single_at_run_time(self) -> Iterator[Arm]:
        for dimension in self._grid.space.dimensions:
            for it in dimension.choices:
                point = ((dimension.name, it.choice),)
                if it.acts is Acts.RUNTIME and self._grid.why_not(point) is None:
                    yield self._grid.arm(point, Origin.SPACE)


def _in_turns(*sources: Iterator[Point]) -> Iterator[Point]:
    """One of each, as long as any has one."""
    left = list(sources)
    while left:
        for source in list(left):
            point = next(source, None)
            if point is None:
                left.remove(source)
            else:
                yield point
