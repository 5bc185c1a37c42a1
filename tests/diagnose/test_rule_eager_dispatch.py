"""STEP310: many little programs, launched one by one."""

from __future__ import annotations

from dataclasses import replace

import pytest
from host_side import Event, Run, case, made, most

from counterpoint.diagnose.finding import Finding
from counterpoint.diagnose.rules import eager_dispatch, host_bound, kernel_gaps
from counterpoint.timeline.model import Timeline

LITTLE = 20
EACH = 40
TEN_OPS = tuple((at, 10) for at in range(0, 100, 10))


def found(timeline: Timeline) -> list[Finding]:
    return list(eager_dispatch.check(case(timeline)))


def eager(each: int = EACH, runs: int = LITTLE, busy: int = 5, ahead: int = 0) -> Timeline:
    """Steps of a program of 100 us and then little ones, each called when the last one has ended.

    `ahead`: how much earlier all calls are.
    """
    step = 100 + runs * each
    of_runs: list[Run] = []
    calls: list[Event] = []
    for number in range(5):
        at = number * step
        of_runs.append(Run(at, 100, program="jit_grad", busy=TEN_OPS))
        calls.append(Event("PjitFunction(grad)", at - 10 - ahead, 10))
        for k in range(runs):
            start = at + 100 + (k + 1) * each - busy
            of_runs.append(Run(start, busy, program="jit_multiply"))
            calls.append(Event("PjitFunction(multiply)", start - 20 - ahead, 20))
    return made(of_runs, calls, [(number * step, step) for number in range(5)])


def test_little_programs_are_counted_and_their_launches_are_the_loss() -> None:
    looked = eager()
    (finding,) = found(looked)
    assert "20 little programs" in finding.title
    assert "20 x jit_multiply" in finding.detail
    assert most(finding) == pytest.approx(LITTLE * (EACH - 5) / 1e3, rel=0.02)
    assert "jax.lax.scan" in finding.remedy.text  # one program, again and again
    assert not list(host_bound.check(case(looked)))


def test_gaps_as_short_as_a_launch_are_the_hosts_if_it_launches_little_programs() -> None:
    """20 us from one to the next: other programs would be as far apart if launched in time."""
    (finding,) = found(eager(each=25, busy=5))
    assert most(finding) == pytest.approx(LITTLE * 20 / 1e3, rel=0.02)
    assert not list(kernel_gaps.check(case(eager(each=25, busy=5))))


def test_little_programs_that_the_host_launched_ahead_cost_nothing() -> None:
    assert not found(eager(ahead=2_000))


def test_a_few_little_programs_beside_a_step_are_left_to_other_rules() -> None:
    assert not found(eager(runs=5))


def test_many_programs_that_compute_long_are_not_little() -> None:
    assert not found(eager(each=2_000, busy=1_500))


def test_a_jitted_step_as_short_as_its_launch_is_told_to_do_more_per_call() -> None:
    runs = [Run(number * 50, 5) for number in range(30)]
    calls = [Event("PjitFunction(step)", number * 50 - 40, 38) for number in range(30)]
    (finding,) = found(made(runs, calls, [(number * 50, 50) for number in range(30)]))
    assert "jax.lax.scan" in finding.remedy.text
    assert most(finding) == pytest.approx(0.045)


def test_where_no_host_is_seen_it_is_not_known_to_be_late() -> None:
    timeline = eager()
    assert not found(replace(timeline, host_events=timeline.host_events.clear()))
