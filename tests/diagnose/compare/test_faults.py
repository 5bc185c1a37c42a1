"""Runs that failed, computed NaN or ended early are said, and never pass a gate."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

import counterpoint
from counterpoint.core.basis import Unknown
from counterpoint.core.errors import InputError
from counterpoint.diagnose.compare.comparison import Comparison
from counterpoint.diagnose.compare.step_time import StepVerdict
from made_runs import CRASHED, LOST_NUMBERS, OK, made_run

NUMBERS = {"nan": LOST_NUMBERS, "error": CRASHED}
ENDED = {**OK, "detail": "ended after 20 steps, as requested"}

Make = Callable[..., list[Path]]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Make runs of a side, of which every second of the study is one of A."""

    def make(side: str, step_s: float, count: int = 3, **given: object) -> list[Path]:
        scatter = (0.0, 0.001, -0.001)
        later = 0 if side == "a" else 1
        return [
            made_run(
                tmp_path / f"{side}{number}",
                step_s * (1 + scatter[number]),
                at=2 * number + (later if number % 2 else 1 - later),
                **given,  # pyright: ignore[reportArgumentType]
            )
            for number in range(count)
        ]

    return make


def compared(a: list[Path], b: list[Path]) -> Comparison:
    return counterpoint.compare([*map(str, a)], [*map(str, b)])


@pytest.mark.parametrize("outcome", NUMBERS.values(), ids=NUMBERS)
def test_failed_runs_of_b_are_no_faster_ones_and_fail_the_gate(
    make: Make, outcome: Mapping[str, object]
) -> None:
    found = compared(make("a", 0.02), make("b", 0.01, outcome=outcome))
    assert not isinstance(found.step, Unknown)
    assert found.step.verdict is StepVerdict.OPEN
    assert isinstance(found.step.range, Unknown)
    assert len(found.failures(0.02)) == 3
    assert len(found.faults[1]) == 3
    assert "3 of 3 runs of B not counted" in repr(found)


def test_one_failed_run_of_b_fails_the_gate_and_the_others_are_compared(make: Make) -> None:
    b = make("b", 0.01, 2)
    b += [made_run(b[0].parent / "crashed", 0.005, at=9, outcome=CRASHED)]
    found = compared(make("a", 0.02), b)
    assert (found.runs, found.timed) == ((3, 3), (3, 2))
    assert not isinstance(found.step, Unknown)
    assert found.step.change == pytest.approx(-0.5, abs=0.01)
    assert found.failures(0.02) == (f"{b[-1]} does not count: {found.faults[1][0].fault}",)


def test_a_loss_that_is_not_finite_at_the_end_is_a_fault_whatever_the_exit_code(make: Make) -> None:
    losses = [2.0 - 0.01 * step for step in range(45)]
    a = make("a", 0.01, losses=losses)
    found = compared(a, make("b", 0.01, losses=[*losses[:30], float("nan")]))
    assert found.failures(0.02)
    spiked = [*losses[:30], float("inf"), *losses[31:]]  # as dynamic loss scaling prints
    found = compared(a, [made_run(a[0].parent / "spiked", 0.01, at=7, losses=spiked)])
    assert not found.faults[1]


@pytest.mark.parametrize(("steps", "fails"), [(12, True), (43, True), (44, False), (45, False)])
def test_a_run_of_fewer_steps_is_none_of_the_same_program(
    make: Make, steps: int, fails: bool
) -> None:
    found = compared(make("a", 0.01), make("b", 0.005, steps=steps))
    assert bool(found.failures(0.02)) is fails


def test_without_any_step_b_is_not_the_program_either(make: Make) -> None:
    found = compared(make("a", 0.01), make("b", 0.01, steps=0))
    assert "no step of it was seen" in found.failures(0.02)[0]


def test_runs_that_were_to_end_after_the_same_steps_are_equally_long(make: Make) -> None:
    a = make("a", 0.01, steps=24, outcome=ENDED)
    assert compared(a, make("b", 0.01, steps=21, outcome=ENDED)).failures(0.02) == ()


def test_a_failed_run_of_a_is_excluded(make: Make) -> None:
    a = make("a", 0.02, 2)
    a += [made_run(a[0].parent / "short", 0.001, at=9, steps=12)]
    found = compared(a, make("b", 0.02))
    assert not isinstance(found.step, Unknown)
    assert found.step.change == pytest.approx(0, abs=0.01)
    assert [side.name for side in found.faults[0]] == [str(a[-1])]
    assert found.failures(0.02) == ()


def test_where_no_run_of_a_counts_nothing_is_decided(make: Make) -> None:
    found = compared(make("a", 0.01, outcome=LOST_NUMBERS), make("b", 0.02))
    with pytest.raises(InputError, match="no run of A counts"):
        found.failures(0.02)


def test_one_run_each_nineteen_times_as_long_is_decided_on_a_shared_host(make: Make) -> None:
    found = compared(make("a", 0.01, 1, platform="cpu"), make("b", 0.19, 1, platform="cpu"))
    assert not isinstance(found.step, Unknown)
    assert (found.step.verdict, found.step.assumed) == (StepVerdict.SLOWER, True)
    assert found.failures(0.02)


def test_one_run_each_nine_times_as_long_is_not(make: Make) -> None:
    found = compared(make("a", 0.01, 1, platform="cpu"), make("b", 0.09, 1, platform="cpu"))
    assert not isinstance(found.step, Unknown)
    assert found.step.verdict is StepVerdict.OPEN


EQUAL = [2.0 - 0.01 * step for step in range(45)]


def test_losses_that_differ_where_those_of_a_do_not_are_said(make: Make) -> None:
    found = compared(
        make("a", 0.01, losses=EQUAL), make("b", 0.01, losses=[1.009 * it for it in EQUAL])
    )
    assert not isinstance(found.losses, Unknown)
    assert found.losses.differ
    assert found.losses.share == pytest.approx(0.009)
    assert found.losses.own == 0


def test_losses_that_differ_no_more_than_those_of_a_are_alike(tmp_path: Path) -> None:
    a, b = (
        [
            made_run(
                tmp_path / f"{side}{number}", 0.01, at=number, losses=[by * it for it in EQUAL]
            )
            for number, by in scales
        ]
        for side, scales in (("a", ((0, 1.0), (3, 1.01))), ("b", ((1, 1.012), (2, 0.99))))
    )
    found = compared(a, b)
    assert not isinstance(found.losses, Unknown)
    assert not found.losses.differ
    assert found.losses.share == pytest.approx(0.01)


def test_without_losses_nothing_is_said_of_them(make: Make) -> None:
    assert isinstance(compared(make("a", 0.01), make("b", 0.01)).losses, Unknown)


def test_a_run_whose_lines_came_together_says_so_and_is_not_counted_as_timed(make: Make) -> None:
    a = make("a", 0.01)
    log = a[0] / "rank0" / "agent" / "steps-log.jsonl"
    lines = [f'{{"source": "log", "start_s": {step // 9}.0, "step": {step}}}' for step in range(45)]
    log.write_text("\n".join(lines))
    found = compared(a, make("b", 0.01))
    assert (found.runs, found.timed) == ((3, 3), (2, 3))
    assert f"{a[0]}: no step time: many lines came together" in " ".join(found.notes)
