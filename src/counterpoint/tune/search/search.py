"""`search`: the offline part of a tune. Docs: docs/concepts/tune-search.md.

    base ──► remedies, seeds, single choices ──► stacks ──► proposals, climbing ──► PGLE on the best
                                                                                        │
                                               shortlist ◄── minimal winner (ablation) ◄┘

Each candidate is recorded in the journal as soon as it is known. A restarted search tries the same
candidates in the same order, and finds their results there.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import Final

from counterpoint.compile.pool import Pool
from counterpoint.core import Range
from counterpoint.core.printable import counted_noun
from counterpoint.core.scratch import scratch_directory
from counterpoint.diagnose.explanation import explain
from counterpoint.tune.arm import Acts, Arm, ArmOrigin
from counterpoint.tune.plan import StudyPlan
from counterpoint.tune.search.grid import Grid, Point
from counterpoint.tune.search.leaderboard import Leaderboard
from counterpoint.tune.search.minimal_winner import minimal_winner
from counterpoint.tune.search.predictor import Predictor, SearchStopped
from counterpoint.tune.search.proposer import Proposer, require_optuna
from counterpoint.tune.search.shortlist import Shortlist, shortlist
from counterpoint.tune.search.stages import (
    climbing,
    effective_dimensions,
    profiled,
    remedies,
    singles,
    stacks,
)
from counterpoint.tune.space.space import Dimension, Space, distinct, same_as
from counterpoint.tune.study.ledger import Ledger, stamp
from counterpoint.tune.study.records import Ablated, CandidateSeen, SearchEnded, SpaceMade
from counterpoint.workflow.forecast import ForecastBatch, PredictionInputs, forecasts

Say = Callable[[str], None]

_SHORTENED_NAME: Final = re.compile(r" #[0-9a-f]{6}$")
"""The end of an arm's name that an earlier version shortened."""
_MOST_SINGLES: Final = 0.6  # maximum share of single choices among all candidates
_PROFILE_SHARE: Final = 4  # at most one in so many candidates is reserved for profiles
_RUNTIME_SHARE: Final = (
    4  # one in so many places of the shortlist is for arms that can't be predicted
)


def search(  # noqa: PLR0913
    work: PredictionInputs,
    space: Space,
    plan: StudyPlan,
    ledger: Ledger,
    say: Say = lambda _: None,
    stopped: Callable[[], bool] = lambda: False,
    *,
    base_forecast: ForecastBatch | None = None,
    confirm: int | None = None,
    keep: Path | None = None,
) -> None:
    """Predict candidates, and record the shortlist.

    It ends when `plan.candidates` were compiled or nothing new is left. If `stopped` returns true,
    it ends without recording a SearchEnded, and the next call continues. `base_forecast` is the
    base's prediction, if available. With `confirm`, that many arms are listed in addition to those
    named by the user. `keep` is the study's directory, for the Timelines of the best steps. If the
    base fails, the CounterpointError of `predict` is raised.
    """
    if ledger.study.search is not None:
        return
    require_optuna()
    started = time.monotonic()
    if ledger.study.space is None:
        ledger.add(SpaceMade.of(space, stamp()))
    if base_forecast is None:
        base_forecast = forecasts(_base_alone(work, space))
    jobs = plan.jobs or work.question.jobs
    with scratch_directory("tune") as scratch, Pool(jobs) as pool:
        predictor = Predictor(
            work, base_forecast, ledger, pool, scratch=scratch, keep=keep, stopped=stopped
        )
        board = Leaderboard(predictor.begin(space.base))
        say("explaining the base's predicted step")
        recorded = (seen.arm for seen in ledger.study.candidates)
        shortened = tuple(arm for arm in recorded if _SHORTENED_NAME.search(arm.name))
        grid = Grid(_with_remedies(replace(space, recorded=shortened), work, base_forecast, say))
        searcher = _Search(grid, plan, predictor, board, say, started)
        try:
            ended = searcher.run(ledger, confirm)
        except SearchStopped:
            return
    ledger.add(ended)
    say(ended.why)


def _with_remedies(
    space: Space, work: PredictionInputs, base_forecast: ForecastBatch, say: Say
) -> Space:
    """Put the remedies that `explain` names for the base's losses before all other seeds."""
    base = base_forecast.base
    explained = explain(
        base.simulation.timeline,
        target=work.pricing.target,
        settings=base.settings,
        jaxlib=base.jaxlib,
    )
    for failure in explained.failures:
        say(failure)
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
        board: Leaderboard,
        say: Say,
        started: float,
    ) -> None:
        self._grid = grid
        self._plan = plan
        self._predictor = predictor
        self._board = board
        self._say = say
        self._started = started
        self._known = {board.base.arm.name: board.base}
        self._reserve = min(3 * len(grid.profiled), plan.candidates // _PROFILE_SHARE)

    def run(self, ledger: Ledger, confirm: int | None) -> SearchEnded:
        """Run all stages, and return their result."""
        self._try_singles()
        self._combine()
        self._try(self._arms(profiled(self._grid, self._board), ArmOrigin.SEARCH), 0)
        end = f"{self._predictor.requested} compiled"
        if not self._is_full(self._reserve):
            end += ", and nothing new is left"
        best, ablated = self._minimal(ledger)
        unpredicted = list(self._at_run_time(ledger))
        named = {arm.name for arm in self._grid.space.seeds if arm.origin is ArmOrigin.HAND}
        by_hand = sum(name in named for name in unpredicted)
        places = max(self._plan.shortlist, by_hand) if confirm is None else confirm + by_hand
        listed = shortlist(
            self._board.base,
            self._board.candidates,
            best,
            most=places - min(len(unpredicted), max(by_hand, places // _RUNTIME_SHARE)),
            indifferent=self._plan.rule.indifferent,
            weights=self._weights(ablated),
        )
        names = tuple(arm.name for arm in listed.arms)
        at_run = [name for name in unpredicted if name not in names]
        room = max(0, places - len(names))
        why = why_ended(self._board, listed, best, end=end, indifferent=self._plan.rule.indifferent)
        # Arms predicted to compile to the base's program do not count as unpredictable.
        unknown = [
            [name for name in some if name not in self._known]
            for some in (at_run[:room], at_run[room:])
        ]
        more = _at_run_note(*unknown)
        return SearchEnded(
            why=f"{why}; {more}" if more else why,
            shortlist=(*names, *at_run[:room]),
            seconds=time.monotonic() - self._started,
            at=stamp(),
            tied=listed.tied,
        )

    def _minimal(self, ledger: Ledger) -> tuple[CandidateSeen, tuple[Ablated, ...]]:
        """Return the best candidate without idle changes, and record the loss without each."""
        base, best = self._board.base.arm.predicted, self._board.best()
        if base is None or best.arm.is_base:
            return best, ()
        self._say(f"leaving out each change of {best.arm.name}")
        found = minimal_winner(self._grid, base, best, self._predict)
        recorded = {(entry.arm, entry.dimension) for entry in ledger.study.ablation}
        for entry in found.ablated:
            if (entry.arm, entry.dimension) not in recorded:
                ledger.add(entry)
        return found.winner, found.ablated

    def _weights(self, ablated: Iterable[Ablated]) -> dict[tuple[str, str], float]:
        """Return each choice's gain: in the winner if known, else alone."""
        found: dict[tuple[str, str], float] = {}
        for point in self._board.points:
            gain = self._board.gain(point) if len(point) == 1 else None
            if gain is not None:
                found[point[0]] = gain
        return {**found, **{(entry.dimension, entry.choice): entry.loses for entry in ablated}}

    def _try_singles(self) -> None:
        """Try remedies, arms named by the user, and every choice by itself."""
        seeds = (arm for arm in self._grid.space.seeds if arm.is_worth_compiling)
        # Points already tried as named arms.
        seeded = {self._grid.point_of(arm) for arm in self._grid.space.seeds}
        points = (point for point in singles(self._grid) if point not in seeded)
        alone = self._arms(points, ArmOrigin.SPACE)
        most = int(_MOST_SINGLES * self._plan.candidates)
        single = islice(alone, max(0, most - len(self._grid.space.seeds)))
        self._try(chain(seeds, single), self._reserve)

    def _combine(self) -> None:
        """Try several choices together."""
        grid, board = self._grid, self._board
        self._try(self._arms(stacks(grid, board), ArmOrigin.SEARCH), self._reserve)
        self._propose(effective_dimensions(grid, board))
        self._propose(grid.searched)

    def _propose(self, dimensions: tuple[Dimension, ...]) -> None:
        """Alternate between proposals in these dimensions and neighbors of the best point."""
        proposer = Proposer(self._grid, dimensions, self._board, self._plan.seed)
        climbs = climbing(self._grid, self._board, proposer.proposed)
        waiting: list[Point] = []

        def arms() -> Iterator[Arm]:
            for point in _alternate(proposer.points(), climbs):
                proposer.proposed.add(point)
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

    def _try(self, arms: Iterable[Arm], reserve: int) -> None:
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
        self._say(_progress(self._board, done, most, seconds))

    def _is_full(self, reserve: int) -> bool:
        return self._predictor.requested >= self._plan.candidates - reserve

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
            same_as_base = figures is not None and figures.program == program
            may_run = seen is None or (figures is not None and figures.fits is not False)
            wanted = arm.origin is ArmOrigin.HAND and may_run  # whatever its prediction
            if arm.acts is Acts.RUNTIME and (not arm.is_worth_compiling or same_as_base or wanted):
                names.append(arm.name)
        return names

    def _single_at_run_time(self) -> Iterator[Arm]:
        for dimension in self._grid.space.dimensions:
            for choice in dimension.choices:
                point = ((dimension.name, choice.choice),)
                if choice.acts is Acts.RUNTIME and self._grid.why_not(point) is None:
                    yield self._grid.arm(point, ArmOrigin.SPACE)


def _alternate(*sources: Iterator[Point]) -> Iterator[Point]:
    """Yield from each source in turn until all are exhausted."""
    left = list(sources)
    while left:
        for source in list(left):
            point = next(source, None)
            if point is None:
                left.remove(source)
            else:
                yield point


def _progress(board: Leaderboard, done: int, most: int, seconds: float) -> str:
    """Return one line: the progress, the best so far, and the numbers of dropped candidates."""
    best = board.best()
    figures = best.arm.predicted
    gain = figures.gain if figures is not None else 0.0
    first = (
        f"best {_share(gain)}: {best.arm.name}" if not best.arm.is_base else "none beats the base"
    )
    dropped = ", ".join(_dropped(board))
    place = f"candidate {done} of {most}" if done <= most else f"{done - most} more compiled"
    rest = f", about {seconds / done * (most - done):.0f} s for the rest" if 0 < done < most else ""
    return f"{place}; {first}{f'; {dropped}' if dropped else ''}; {seconds:.0f} s{rest}"


def why_ended(
    board: Leaderboard, listed: Shortlist, winner: CandidateSeen, *, end: str, indifferent: float
) -> str:
    """Return why the search ended, and its result."""
    arms, programs = len(board.candidates), board.programs
    counts = f"{counted_noun(arms, 'arm')} and the base compared"
    counts += f", {counted_noun(programs, 'different program')}"
    dropped = ", ".join(_dropped(board))
    looked = f"{counts}{f' ({dropped})' if dropped else ''}; {end}"
    figures = winner.arm.predicted
    if figures is None or not listed.effect:
        found = f"nothing is predicted to be more than {_share(indifferent, sign='')} faster"
        if listed.arms:
            found += f"; {counted_noun(len(listed.arms), 'arm')} tied with the base"
        return f"{found}. {looked}"
    reach = figures.gain_range
    found = f"predicted to save {_share(figures.gain, sign='')} {_range(reach)} of the step"
    others = max(0, len(listed.tied) - 1)  # each with another program; one is the winner's
    tied = f"; {counted_noun(others, 'other')} tied with it" if others else ""
    return f"{found}: {winner.arm.name}{tied}. {looked}"


def _at_run_note(listed: Sequence[str], left: Sequence[str]) -> str:
    """Count the arms that can't be predicted, on the list and left out of it."""
    parts: list[str] = []
    if listed:
        parts.append(
            f"{counted_noun(len(listed), 'arm')} on the list can't be predicted (acts at run time)"
        )
    if left:
        parts.append(
            f"no room on the list for {counted_noun(len(left), 'arm')} that can't be predicted"
        )
    return "; ".join(parts)


def _share(of_step: float, sign: str = "+") -> str:
    """Format a share of the step."""
    return f"{100 * of_step:{sign}.1f}%"


def _range(reach: Range) -> str:
    return f"[{100 * reach.low:.1f}, {100 * reach.high:.1f}]"


def _dropped(board: Leaderboard) -> Iterator[str]:
    if board.same:
        yield f"{board.same} with the program of another"
    if board.too_large:
        yield f"{board.too_large} too large for memory"
    if board.failed:
        yield f"{board.failed} failed"
