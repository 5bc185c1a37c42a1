"""STEP509: arguments that are copied because they are not donated."""

from __future__ import annotations

import pytest
from compute_step import made, priced, where

from counterpoint.diagnose.rules.exposed_copy import check as exposed
from counterpoint.diagnose.rules.missing_donation import check

HEADER = ", input_output_alias={ {}: (0, {}, may-alias) }"


def updated(result: str = "f32[67108864]{0}", metadata: str = 'op_name="state"') -> str:
    """A program that copies its argument, and changes the copy."""
    return f"""
ENTRY main {{
  x = f32[67108864]{{0}} parameter(0), metadata={{{metadata}}}
  saved = f32[67108864]{{0}} copy(x), {where("update", 3)}
  ROOT gone = {result} custom-call(saved), custom_call_target="step"
}}
"""


TIMES = {"saved": 4_500, "gone": 500}


def test_the_copy_of_an_argument_is_named_and_counted_once() -> None:
    case = made(updated(), TIMES)
    (finding,) = check(case)
    assert finding.code == "STEP509"
    assert "the argument state of jit_train_step" in finding.detail
    assert "268 MB" in finding.detail
    assert "donate_argnums" in str(finding.remedy)
    assert priced(finding).high == pytest.approx(4.5, rel=0.1)
    assert not list(exposed(case))


def test_a_donated_argument_is_copied_for_another_reason() -> None:
    case = made(updated(), TIMES, header=HEADER)
    assert not list(check(case))
    assert list(exposed(case))


def test_an_argument_whose_type_no_result_has_could_not_be_donated() -> None:
    case = made(updated("f32[2]{0}"), TIMES)
    assert not list(check(case))
    assert list(exposed(case))


def test_one_result_takes_the_buffer_of_one_argument_only() -> None:
    hlo = f"""
ENTRY main {{
  x = f32[67108864]{{0}} parameter(0)
  y = f32[67108864]{{0}} parameter(1)
  saved = f32[67108864]{{0}} copy(y), {where("update", 3)}
  ROOT gone = f32[67108864]{{0}} custom-call(x, saved), custom_call_target="step"
}}
"""
    assert not list(check(made(hlo, TIMES, header=HEADER)))
    (finding,) = check(made(hlo, TIMES))
    assert "the argument number 1" in finding.detail


def test_an_argument_that_is_read_again_has_to_be_copied() -> None:
    again = updated().replace("custom-call(saved)", "custom-call(saved, x)")
    case = made(again, TIMES)
    assert not list(check(case))
    assert list(exposed(case))


def test_freeing_the_old_memory_counts_on_a_cpu_as_far_as_it_idles() -> None:
    """A state of 200 MB on a CPU: 170 ms were copied, 30 ms freed, and donation gained 200 ms."""
    times = {"saved": 170_000, "gone": 20}
    (finding,) = check(made(updated(), times, step=200_000, kind="cpu", chip=None))
    assert priced(finding).low == pytest.approx(0.9 * 170, rel=0.01)
    assert priced(finding).high == pytest.approx(200, rel=0.01)
    assert finding.takes_ms == pytest.approx(priced(finding).high)
    assert "free the old memory" in finding.detail
    (idle,) = check(made(updated(), times, step=900_000, kind="cpu", chip=None))
    assert priced(idle).high == pytest.approx(170 * 4 / 3, rel=0.01)
    (gpu,) = check(made(updated(), times, step=200_000))
    assert priced(gpu).high == pytest.approx(170)
    assert "free" not in gpu.detail


def test_a_copy_beside_other_work_may_gain_little() -> None:
    lines = [("saved", 0, 4_500, 0), ("gone", 1_000, 4_000, 1)]
    (finding,) = check(made(updated(), lines))
    assert priced(finding).low == pytest.approx(0.9 * 1.0)
    assert priced(finding).high == pytest.approx(4.5)
    assert finding.basis == "measured"
