"""What explain says first: a loss that is worth a user's time, or that there is none."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from random import Random

import pytest
from host_side import Event, Run, made

from counterpoint.diagnose.explanation import Explanation, explain
from counterpoint.diagnose.rules import RULES

COUNT = 14


def explained(idle: int, busy: Callable[[int], int]) -> Explanation:
    """A loop whose host is late by `idle` us in each step."""
    lengths = [busy(n) + idle for n in range(COUNT)]
    starts = [0, *accumulate(lengths)]
    runs = [Run(starts[n], busy(n)) for n in range(COUNT)]
    calls = [Event("PjitFunction(step)", starts[n + 1] - 10, 10) for n in range(COUNT)]
    return explain(made(runs, calls, [(starts[n], lengths[n]) for n in range(COUNT)]))


def scattered(seed: int) -> Callable[[int], int]:
    random = Random(seed)  # noqa: S311 - no secret
    lengths = [random.randrange(900, 2500) for _ in range(COUNT)]
    return lengths.__getitem__


@pytest.mark.parametrize(
    ("idle", "busy", "is_worth"),
    [
        (200, lambda _: 1000, True),
        (25, lambda _: 1000, False),  # 2.4%
        (60, lambda _: 1000, True),  # 5.7%
        (60, scattered(3), False),  # steps from 0.9 to 2.5 ms do not show it
        (600, scattered(3), True),
    ],
)
def test_a_small_loss_is_no_answer(idle: int, busy: Callable[[int], int], is_worth: bool) -> None:
    found = explained(idle, busy)
    assert bool(found.losses) is is_worth
    assert (found.verdict is None) is is_worth
    assert found.findings
    if not is_worth:
        assert found.findings[0].code in (found.verdict or "")


def test_a_rule_that_failed_leaves_the_answer_open(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(subject: object) -> list[object]:
        return [[subject][len(str(subject))]]

    monkeypatch.setattr(RULES[0], "check", broken)
    said = explained(25, lambda _: 1000).verdict or ""
    assert "1 rule failed, so this is not the whole answer" in said
    assert "nothing worth your time" not in said
