"""STEP309: steps that take much longer than the others, and steps that grow."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import accumulate
from random import Random

import pytest
from host_side import PS, Event, Run, case, made, most
from megascale_fixture import Scene
from slices import case_of

from counterpoint.core import Unknown
from counterpoint.diagnose.explanation import explain
from counterpoint.diagnose.finding import Finding
from counterpoint.diagnose.rules import host_bound, uneven_steps
from counterpoint.timeline.model import Device, Timeline
from golden_sections import Said

BUSY, SHORT, CALL = 900, 100, 10
"""Microseconds of a step in which the device works and is idle; the last of these are the call."""

COUNT = 14

Slow = Mapping[int, tuple[str, int]]
"""What the host does in a step, and how long."""


def loop(
    slow: Slow,
    *,
    busy: Callable[[int], int] = lambda _: BUSY,
    idle: Callable[[int], int] = lambda _: SHORT,
    count: int = COUNT,
    kind: str = "gpu",
    python: bool = True,
) -> Timeline:
    """A loop that logs in each step, and does something more in some."""
    lengths = [busy(n) + idle(n) + slow.get(n, ("", 0))[1] for n in range(count)]
    starts = [0, *accumulate(lengths)]
    events: list[Event] = []
    for n in range(count):
        name, length = slow.get(n, ("", 0))
        ends, following = starts[n] + busy(n), starts[n + 1]
        events += [Event("PjitFunction(step)", following - CALL, CALL)]
        if python:
            events += [
                Event("$train.py:5 main_loop_body", starts[n], lengths[n] - 1),
                Event("$train.py:9 log", ends + 5, 20),
                *([Event(name, ends + 30, length)] if length else []),
            ]
    runs = [Run(starts[n], busy(n)) for n in range(count)]
    timeline = made(runs, events, [(starts[n], lengths[n]) for n in range(count)])
    return replace(timeline, devices=(Device(ordinal=0, kind=kind),))


def found(timeline: Timeline) -> list[Finding]:
    return list(uneven_steps.check(case(timeline)))


SAVE, REFRESH = "$train.py:88 save_checkpoint", "$auth.py:12 refresh_token"


def test_a_hook_of_every_fourth_step_is_named_with_its_period(said: Said) -> None:
    (finding,) = found(loop(dict.fromkeys((3, 7, 11), (SAVE, 800)), kind="cpu"))
    assert most(finding) == pytest.approx(0.8 / 4, rel=0.05)
    assert "every fourth step (3, 7 and 11)" in finding.title
    assert SAVE in finding.detail
    said(finding)


def test_the_first_of_a_profiles_steps_may_be_one_of_them() -> None:
    (finding,) = found(loop(dict.fromkeys((0, 4, 8, 12), (SAVE, 800))))
    assert "every fourth step (4, 8 and 12)" in finding.title


def test_one_outlier_counts_with_its_share_of_all_steps(said: Said) -> None:
    (finding,) = found(loop({6: (REFRESH, 5000)}, kind="cpu"))
    assert most(finding) == pytest.approx(5.0 / (COUNT - 2), rel=0.05)
    assert finding.title.startswith("step 6 takes")
    assert REFRESH in finding.detail
    said(finding)


def test_slow_steps_of_two_kinds_are_two_findings() -> None:
    slow: Slow = dict.fromkeys((3, 7, 11), (SAVE, 800)) | {6: (REFRESH, 5000)}
    one, two = sorted(found(loop(slow)), key=lambda it: it.detail)
    assert REFRESH in one.detail
    assert "every fourth" in two.title
    assert SAVE in two.detail


def test_what_slow_steps_do_is_in_no_other_finding() -> None:
    """Half as many steps are slow: those in the middle by length would be among them."""
    timeline = loop(dict.fromkeys(range(1, COUNT, 3), (SAVE, 800)))
    explained = explain(timeline)
    assert explained.findings[0].code == uneven_steps.CODE
    idle = next((it for it in explained.findings if it.code == host_bound.CODE), None)
    assert idle is None or most(idle) < 0.15


def test_a_hook_is_seen_through_the_noise_of_the_devices() -> None:
    random = Random(7)  # noqa: S311 - no secret
    busy = [BUSY + random.randrange(1500) for _ in range(COUNT)]
    (finding,) = found(loop(dict.fromkeys((3, 7, 11), (SAVE, 800)), busy=busy.__getitem__))
    assert most(finding) == pytest.approx(0.8 / 4, rel=0.05)


@pytest.mark.parametrize("seed", range(8))
def test_noise_is_no_finding(seed: int) -> None:
    """Other programs take the cores: some steps take three times as long, with nothing in them."""
    random = Random(seed)  # noqa: S311 - no secret
    busy = [BUSY + random.choice((0, 50, 100, 100, 2000)) for _ in range(COUNT)]
    idle = [SHORT + random.choice((0, 10, 20, 20, 900)) for _ in range(COUNT)]
    noisy = loop({}, busy=busy.__getitem__, idle=idle.__getitem__, kind="cpu")
    assert not [it for it in found(noisy) if "every" not in it.title]


def test_without_python_a_period_or_a_wide_gap_tells(said: Said) -> None:
    (finding,) = found(loop(dict.fromkeys((3, 7, 11), (SAVE, 800)), python=False, kind="cpu"))
    assert most(finding) == pytest.approx(0.8 / 4, rel=0.05)
    said(finding)
    assert not found(loop({6: (SAVE, 300)}, python=False, kind="cpu"))
    (finding,) = found(loop({6: (SAVE, 5000)}, python=False, kind="cpu"))
    assert finding.title.startswith("step 6")


def test_a_few_short_steps_that_noise_makes_are_not_those_that_all_others_exceed() -> None:
    """Steps 0, 4, 8 and 12 are a little shorter, as the machine happens to be; three are slow."""
    busy = {0: 840, 4: 842, 8: 841, 12: 843, 2: 2900, 7: 2905, 10: 2898}
    timeline = loop({}, busy=lambda n: busy.get(n, BUSY + 20 + n))
    (finding,) = found(timeline)
    assert "3 of 12 steps (2, 7 and 10)" in finding.title


def test_two_slow_steps_of_a_machine_that_others_use_have_no_period() -> None:
    noisy = loop({}, idle=lambda n: 800 if n in (4, 9) else SHORT, kind="cpu", python=False)
    assert not found(noisy)
    often = loop(
        {}, idle=lambda n: 800 if n % 5 == 4 else SHORT, kind="cpu", python=False, count=24
    )
    (finding,) = found(often)
    assert "every fifth step" in finding.title


def test_devices_that_wait_for_the_network_in_two_steps(said: Said) -> None:
    """As a network that is slow for a moment: nothing of the host, on devices of their own."""
    scene = Scene(steps=14, extra_network_ms=lambda n: 60 if n in (5, 9) else 0)
    (finding,) = uneven_steps.check(case_of(scene))
    assert "5 and 9" in finding.title
    assert "devices wait 54.96 ms longer for communication" in finding.detail
    said(finding)


def test_steps_alike_are_no_finding() -> None:
    assert not found(loop({}))
    assert not found(loop({3: (SAVE, 30), 7: (SAVE, 30)}))  # below a twentieth of a step
    assert not found(loop({3: (SAVE, 800)}, count=5))  # three steady ones tell nothing


def test_what_each_step_does_is_not_the_cause_of_some() -> None:
    timeline = loop(dict.fromkeys((3, 7, 11), ("$train.py:9 log", 800)))
    (finding,) = found(timeline)
    assert "every fourth" in finding.title


def test_steps_that_grow_are_told_and_counted_once(said: Said) -> None:
    """What the host takes is counted by the findings on that: this one has no saving."""
    (finding,) = found(loop({n: ("$data.py:7 load_batch", 110 * n + 1) for n in range(COUNT)}))
    assert "grow by 0.11 ms each" in finding.title
    assert isinstance(finding.saves_ms, Unknown)
    said(finding)
    (devices,) = found(loop({}, busy=lambda n: BUSY + 100 * n))
    assert most(devices) > 0.4


def test_an_evaluation_within_steps_is_named_in_the_remedy() -> None:
    runs: list[Run] = []
    markers: list[tuple[int, int]] = []
    now = 0
    for step in range(COUNT):
        evaluates = step % 3 == 2
        runs.append(Run(now, BUSY))
        if evaluates:
            runs.append(Run(now + BUSY, BUSY, program="jit_evaluate"))
        markers.append((now, BUSY * (1 + evaluates) + SHORT))
        now += markers[-1][1]
    (finding,) = found(made(runs, steps=markers))
    assert "jit_evaluate" in finding.detail
    assert finding.remedy.text.startswith("if jit_evaluate is an evaluation, evaluate less often")


EVALUATE = "$train.py:40 evaluate"


def evaluating(hook: int) -> Timeline:
    """Every third step evaluates, and then calls a hook that takes so long."""
    runs: list[Run] = []
    events: list[Event] = []
    markers: list[tuple[int, int]] = []
    now = 0
    for step in range(COUNT):
        begin = now
        runs.append(Run(now, BUSY))
        events.append(Event("PjitFunction(step)", now - CALL, CALL))
        now += BUSY
        if step % 3 == 2:
            for _ in range(4):
                events.append(Event("PjitFunction(evaluate)", now + 190, CALL))
                runs.append(Run(now + 200, 400, program="jit_evaluate"))
                now += 600
            events.append(Event(EVALUATE, begin + BUSY + 5, now - begin - BUSY))
            events += [Event(SAVE, now + 10, hook)] if hook else []
            now += hook + 20
        now += SHORT
        events.append(Event("$train.py:5 main_loop_body", begin, now - begin - CALL - 1))
        markers.append((begin, now - begin))
    timeline = made(runs, events, markers)
    return replace(timeline, devices=(Device(ordinal=0, kind="gpu"),))


def test_an_evaluation_and_what_the_host_does_around_it_are_one_finding(said: Said) -> None:
    """Devices compute longer, and are idle between the calls: both end with the evaluation."""
    (finding,) = found(evaluating(hook=0))
    assert "every third step" in finding.title
    assert "jit_evaluate" in finding.detail
    assert most(finding) == pytest.approx((4 * 600 + 20) / 3 / 1e3, rel=0.05)
    said(finding)


def test_idle_time_of_the_same_steps_in_no_function_is_part_of_what_is_known_of_them() -> None:
    timeline = loop(
        dict.fromkeys((3, 7, 11), (SAVE, 800)), idle=lambda n: 400 if n in (3, 7, 11) else SHORT
    )
    (finding,) = found(timeline)
    assert SAVE in finding.detail
    assert most(finding) == pytest.approx(1.1 / 4, rel=0.05)


def test_a_checkpoint_in_the_steps_of_an_evaluation_is_another_finding() -> None:
    evaluated, saved = found(evaluating(hook=300))
    assert "jit_evaluate" in evaluated.detail
    assert SAVE in saved.detail
    assert most(saved) == pytest.approx(0.3 / 3, rel=0.1)
    assert most(evaluated) == pytest.approx((4 * 600) / 3 / 1e3, rel=0.05)


def test_devices_that_work_longer_while_a_checkpoint_is_saved_are_part_of_it(said: Said) -> None:
    """Nothing but the checkpoint tells these steps from the others."""
    slow: Slow = dict.fromkeys((3, 7, 11), (SAVE, 800))
    (finding,) = found(loop(slow, busy=lambda n: BUSY + (300 if n in slow else 0)))
    assert SAVE in finding.detail
    assert most(finding) == pytest.approx(1.1 / 4, rel=0.05)
    said(finding)


def test_what_the_host_does_one_after_the_other_in_the_same_steps_is_one_finding(
    said: Said,
) -> None:
    """A branch of the loop saves, and then writes a log."""
    timeline = loop(dict.fromkeys((3, 7, 11), (SAVE, 800)), python=False)
    starts = timeline.steps["start_ps"].to_list()
    events = [
        Event(name, starts[step] // PS + BUSY + at, length)
        for step in (3, 7, 11)
        for name, at, length in ((SAVE, 30, 500), (REFRESH, 540, 290))
    ]
    calls = [Event("PjitFunction(step)", start // PS - CALL, CALL) for start in starts[1:]]
    runs = [Run(start // PS, BUSY) for start in starts]
    lengths = (timeline.steps["end_ps"] - timeline.steps["start_ps"]).to_list()
    steps = [(start // PS, length // PS) for start, length in zip(starts, lengths, strict=True)]
    (finding,) = found(made(runs, [*calls, *events], steps))
    assert f"{SAVE} (0.50 ms) and {REFRESH} (0.29 ms)" in finding.detail
    assert most(finding) == pytest.approx(0.8 / 4, rel=0.05)
    said(finding)


def test_what_every_second_step_does_is_counted_once(said: Said) -> None:
    """The typical steps are among the slow ones, and STEP301 counts what the host does in them."""
    timeline = loop(dict.fromkeys(range(1, COUNT, 2), (SAVE, 800)))
    explained = explain(timeline)
    assert explained.subject == "a mean step"
    assert explained.steps.window_ms == pytest.approx(explained.steps.mean_ms)
    idle = next(it for it in explained.findings if it.code == host_bound.CODE)
    assert most(idle) == pytest.approx(0.4 + SHORT / 1000, rel=0.1)
    slow = next(it for it in explained.findings if it.code == uneven_steps.CODE)
    assert isinstance(slow.saves_ms, Unknown)
    said(slow)
