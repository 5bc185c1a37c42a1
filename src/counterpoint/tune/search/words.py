"""Messages of a search: its progress and its result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from counterpoint.core import Range
from counterpoint.tune.search.candidates import Board, Shortlist
from counterpoint.tune.study.records import CandidateSeen


def progress(board: Board, done: int, most: int, seconds: float) -> str:
    """Return one line: the progress, the best so far, and the numbers of dropped candidates."""
    best = board.best()
    figures = best.arm.predicted
    gain = figures.gain if figures is not None else 0.0
    first = (
        f"best {share(gain)}: {best.arm.name}" if not best.arm.is_base else "none beats the base"
    )
    dropped = ", ".join(_dropped(board))
    place = f"candidate {done} of {most}" if done <= most else f"{done - most} more compiled"
    rest = f", about {seconds / done * (most - done):.0f} s to go" if 0 < done < most else ""
    return f"{place}; {first}{f'; {dropped}' if dropped else ''}; {seconds:.0f} s{rest}"


def conclusion(
    board: Board, listed: Shortlist, winner: CandidateSeen, *, end: str, indifferent: float
) -> str:
    """Return why the search ended, and its result."""
    arms, programs = len(board.candidates), board.programs
    counts = f"the base and {_many(arms, 'arm')} looked at, {_many(programs, 'different program')}"
    dropped = ", ".join(_dropped(board))
    looked = f"{counts}{f' ({dropped})' if dropped else ''}; {end}"
    figures = winner.arm.predicted
    if figures is None or not listed.effect:
        found = f"no effect predicted: nothing is more than {share(indifferent, sign='')} faster"
        if listed.arms:
            found += f"; {_many(len(listed.arms), 'arm')} can't be told from the base"
        return f"{found}. {looked}"
    reach = figures.gain_range
    found = f"predicted to save {share(figures.gain, sign='')} {_range(reach)} of the step"
    others = max(0, len(listed.tied) - 1)  # each with another program; one is the winner's
    tied = f"; {_many(others, 'other')} tied with it" if others else ""
    return f"{found}: {winner.arm.name}{tied}. {looked}"


def at_run(listed: Sequence[str], left: Sequence[str]) -> str:
    """Describe the arms that can't be predicted."""
    predictions = (
        f"{_many(len(listed), 'arm')} on the list can't be predicted (acts at run time)"
        * bool(listed)
    )
    more = f"{_many(len(left), 'arm')} that can't be predicted found no room on it" * bool(left)
    return "; ".join(part for part in (predictions, more) if part)


def share(of_step: float, sign: str = "+") -> str:
    """Format a share of the step."""
    return f"{100 * of_step:{sign}.1f} %"


def _range(reach: Range) -> str:
    return f"[{100 * reach.low:.1f}, {100 * reach.high:.1f}]"


def _dropped(board: Board) -> Iterator[str]:
    if board.same:
        yield f"{board.same} the same program as another"
    if board.too_large:
        yield f"{board.too_large} too large for the memory"
    if board.failed:
        yield f"{board.failed} failed"


def _many(count: int, of: str) -> str:
    return f"{count} {of}{'' if count == 1 else 's'}"
