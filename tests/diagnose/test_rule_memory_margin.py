"""STEP403: how near to the limit of memory, and how much of it is never used."""

from __future__ import annotations

from pathlib import Path

import pytest
from compute_step import H100, made
from runs_with_memory import run_with

from counterpoint.core.basis import Unknown
from counterpoint.diagnose.rules.memory_margin import check
from counterpoint.diagnose.step_data import StepData
from counterpoint.runs.run import Run
from golden_sections import Said


def step(run: Run | None, chip: str | None = H100) -> StepData:
    return made(None, {"loop_fusion": 1_000}, run=run, chip=chip)


def test_nearly_full(tmp_path: Path, said: Said) -> None:
    (finding,) = check(step(run_with(tmp_path, peak=58.8, limit=59.3)))
    assert finding.code == "STEP403"
    assert "58.8 GiB of 59.3 GiB" in finding.detail
    assert isinstance(finding.saves_ms, Unknown)
    assert ("XLA_PYTHON_CLIENT_MEM_FRACTION", "0.92") in finding.remedy.environment
    assert "99%" in finding.title
    said(finding)


def test_nearly_full_of_all_the_chip_has(tmp_path: Path) -> None:
    (finding,) = check(step(run_with(tmp_path, peak=74.0, limit=75.0)))
    assert not finding.remedy.environment


def test_the_share_tells_the_limit_where_the_allocator_did_not(tmp_path: Path) -> None:
    # An H100's 79.1 GiB by 0.75 are 59.3.
    (finding,) = check(step(run_with(tmp_path, peak=59.0, share="0.75")))
    assert "of 59.3 GiB" in finding.detail


def test_much_left(tmp_path: Path, said: Said) -> None:
    (finding,) = check(step(run_with(tmp_path, peak=20.0, limit=59.3)))
    assert "a larger batch" in str(finding.remedy)
    assert "75%" in finding.title
    said(finding)


@pytest.mark.parametrize("peak", [41.0, 50.0, 56.0])
def test_a_usual_margin_is_fine(tmp_path: Path, peak: float) -> None:
    assert not list(check(step(run_with(tmp_path, peak=peak, limit=59.3))))


def test_a_peak_alone_says_nothing_of_a_limit(tmp_path: Path) -> None:
    """It may be 75% of the device or 95%: what the Run inherited is not kept."""
    assert not list(check(step(run_with(tmp_path, peak=58.8))))


def test_silent_without_a_run_or_a_peak(tmp_path: Path) -> None:
    assert not list(check(step(None)))
    assert not list(check(step(run_with(tmp_path, limit=59.3))))
    assert not list(check(step(run_with(tmp_path, peak=20.0), chip=None)))


def test_a_share_that_is_none_is_no_limit(tmp_path: Path) -> None:
    assert not list(check(step(run_with(tmp_path, peak=58.8, share="most"))))
