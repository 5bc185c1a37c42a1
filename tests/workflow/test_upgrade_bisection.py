"""Bisection: the releases that changed a step are found with few compiles."""

from __future__ import annotations

import pytest

from counterpoint.core import InputError
from counterpoint.workflow.upgrade.bisection import bisect, moves_of
from counterpoint.workflow.upgrade.side import UpgradeSide
from hand_made import Told, compute, straight
from made_upgrade import side as predicted

VERSIONS = [f"0.{minor}.0" for minor in range(8)]


def side(version: str, seconds: float) -> UpgradeSide:
    program = straight(compute("work"))
    return predicted(version, program, Told({"work": seconds, "result": 0.0}))


class Releases:
    """Steps by release, and a record of which were asked for."""

    def __init__(self, *seconds: float | None) -> None:
        self.seconds = dict(zip(VERSIONS, seconds, strict=False))
        self.asked: list[str] = []

    def predict(self, version: str) -> UpgradeSide:
        self.asked.append(version)
        seconds = self.seconds[version]
        if seconds is None:
            raise InputError(f"{version} can't compile it")
        return side(version, seconds)

    @property
    def ends(self) -> tuple[UpgradeSide, UpgradeSide]:
        found = [*self.seconds.items()]
        return tuple(side(version, seconds or 0.0) for version, seconds in (found[0], found[-1]))  # pyright: ignore[reportReturnType]


@pytest.mark.parametrize("at", range(1, 8))
def test_the_release_of_a_change_is_found_in_few_compiles(at: int) -> None:
    releases = Releases(*[1.0] * at, *[1.1] * (8 - at))
    steps = bisect(VERSIONS, releases.ends, releases.predict)
    (move,) = moves_of(steps)
    assert (move.before, move.after) == (VERSIONS[at - 1], VERSIONS[at])
    assert move.change == pytest.approx(0.1)
    assert move.difference_ms == pytest.approx(100)
    assert len(releases.asked) <= 3


def test_two_changes_are_both_found() -> None:
    releases = Releases(1.0, 1.0, 1.3, 1.3, 1.3, 1.3, 1.1, 1.1)
    moves = moves_of(bisect(VERSIONS, releases.ends, releases.predict))
    assert [(move.after, round(move.change, 3)) for move in moves] == [
        ("0.2.0", 0.3),
        ("0.6.0", round(1.1 / 1.3 - 1, 3)),
    ]


def test_nothing_is_compiled_between_equal_ends() -> None:
    releases = Releases(*[1.0] * 8)
    steps = bisect(VERSIONS, releases.ends, releases.predict)
    assert releases.asked == []
    assert [step.version for step in steps] == [VERSIONS[0], VERSIONS[-1]]
    each = bisect(VERSIONS, releases.ends, releases.predict, each=True)
    assert [step.version for step in each] == VERSIONS


def test_a_release_that_fails_is_named_and_the_search_goes_on_around_it() -> None:
    releases = Releases(1.0, 1.0, 1.0, 1.0, None, 1.2, 1.2, 1.2)
    steps = bisect(VERSIONS, releases.ends, releases.predict)
    (failed,) = [step for step in steps if step.error is not None]
    assert failed.version == VERSIONS[4]
    (move,) = moves_of(steps)
    assert (move.before, move.after) == (VERSIONS[3], VERSIONS[5])
