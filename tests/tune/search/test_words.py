"""What a search says of its counts adds up."""

from __future__ import annotations

import re
from dataclasses import replace

from counterpoint.core.basis import Range
from counterpoint.tune.arm import BASE, ArmOrigin
from counterpoint.tune.search.leaderboard import Leaderboard
from counterpoint.tune.search.search import why_ended
from counterpoint.tune.search.shortlist import shortlist
from tune_search_spaces import seen


def test_programs_and_copies_add_up_to_the_base_and_the_arms() -> None:
    board = Leaderboard(seen(BASE, 0.0, origin=ArmOrigin.BASE, program="p"))
    best = seen("best", 0.1, ("a", "on"), program="q")
    others = [seen(f"arm {at}", 0.0, (at, "on"), program="p") for at in "bcde"]
    for one in (best, seen("new", 0.05, ("f", "on"), program="r")):
        board.add(one, None)
    for one in others:
        board.add(replace(one, same_as=BASE), None)
    listed = shortlist(board.base, board.candidates, best, most=4, indifferent=0.005)
    said = why_ended(board, listed, best, end="6 compiled", indifferent=0.005)
    assert re.search(r"6 arms .* 3 different programs \(4 ", said)


def test_what_is_predicted_within_the_indifferent_is_tied_as_in_the_report() -> None:
    board = Leaderboard(seen(BASE, 0.0, origin=ArmOrigin.BASE, program="p"))
    best = seen("best", 0.003, ("a", "on"), program="q", gain_range=Range(-0.002, 0.008))
    board.add(best, None)
    listed = shortlist(board.base, board.candidates, best, most=4, indifferent=0.005)
    said = why_ended(board, listed, best, end="1 compiled", indifferent=0.005)
    expected = "nothing is predicted to be more than 0.5% faster; 1 arm tied with the base. "
    assert said.startswith(expected)
