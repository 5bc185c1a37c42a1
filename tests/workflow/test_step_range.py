"""The range of a predicted step holds as many published steps as it says."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from statistics import median

import pytest

import timelines
from counterpoint.core.basis import Range
from counterpoint.cost.build import build_model
from counterpoint.cost.model import PriceSource
from counterpoint.hardware.targets import parse_target
from counterpoint.hlo.reader import read_program
from counterpoint.simulate.simulation import Simulation, simulate
from counterpoint.workflow.forecast.ranking import difference
from counterpoint.workflow.forecast.step_range import (
    COVERAGE,
    FASTER,
    PublishedStep,
    covered,
    model_error,
    published_steps,
    step_range,
    term_for,
    widened,
)

ROOT = Path(__file__).parents[2]
STEPS = published_steps()
ROWS = [it for it in STEPS if it.id.isdecimal()]
GROUPS = {
    "decided nothing": [it for it in ROWS if not it.decided],
    "not fitted to": [it for it in ROWS if not it.fitted],
    "newest, not fitted to": [it for it in ROWS if it.newest and not it.fitted],
    "all": ROWS,
}


def share_inside(steps: list[PublishedStep]) -> float:
    return sum(it.lies_in(model_error()) for it in steps) / len(steps)


@pytest.mark.parametrize("name", GROUPS)
def test_as_many_published_steps_lie_in_their_ranges_as_is_said(name: str) -> None:
    assert len(GROUPS[name]) >= 9
    assert share_inside(GROUPS[name]) >= COVERAGE


def test_steps_left_out_in_turn_lie_in_ranges_that_the_others_give() -> None:
    tests = GROUPS["decided nothing"]
    inside = sum(
        it.lies_in(term_for([other for other in tests if other is not it])) for it in tests
    )
    assert inside / len(tests) >= COVERAGE


def test_ranges_are_no_wider_than_is_of_use() -> None:
    """Prices alone give 1.2; twice the step either way would say nothing."""
    reaches = [
        widened(it.predicted_s, Range(it.low_s, it.high_s), slower=model_error(), faster=FASTER)
        for it in ROWS
    ]
    assert median(it.high / it.low for it in reaches) < 1.6
    assert max(it.high / it.low for it in reaches) < 1.7


def test_the_accuracy_page_shows_these_steps_and_ranges() -> None:
    page = (ROOT / "docs" / "accuracy.md").read_text("utf-8")
    shown = {line.split("|")[1].strip(): line for line in page.splitlines() if "| " in line}
    for it in STEPS:
        reach = widened(
            it.predicted_s, Range(it.low_s, it.high_s), slower=model_error(), faster=FASTER
        )
        cells = [cell.strip() for cell in shown[it.id].split("|")]
        low, high = map(float, re.findall(r"[\d.]+", cells[5])[:2])
        assert (low, high) == pytest.approx((reach.low, reach.high), rel=0.01)
        assert ("outside" in cells[5]) is not it.lies_in(model_error())


@pytest.fixture(scope="module")
def simulated() -> Simulation:
    target = parse_target("2xH100")
    return simulate(read_program(timelines.HLO.encode()), build_model(target), target=target)


def test_a_step_has_the_error_of_the_model_and_a_difference_has_not(simulated: Simulation) -> None:
    reach = step_range(simulated)
    assert reach.low < simulated.low_s < simulated.step_s < simulated.high_s < reach.high
    same = difference(simulated, simulated)
    assert (same.low, same.high) == pytest.approx((0.0, 0.0))


def test_what_is_measured_of_the_workload_itself_needs_no_term(simulated: Simulation) -> None:
    half = replace(simulated, rests_on={PriceSource.MEASURED: 1.0, PriceSource.TABLE: 1.0})
    whole = replace(simulated, rests_on={PriceSource.MEASURED: 1.0})
    assert step_range(half).high < step_range(simulated).high
    assert step_range(whole) == Range(simulated.low_s, simulated.high_s)
    assert covered(simulated) is not None
    assert covered(whole) is None


SVD = """\
HloModule jit_svd, is_scheduled=true

ENTRY %main (p: f32[1024,1024]) -> f32[1024] {
  %p = f32[1024,1024]{1,0} parameter(0)
  %call = (f32[1024,1024]{0,1}, f32[1024]{0}, s32[]) custom-call(%p), custom_call_target="NAME"
  ROOT %values = f32[1024]{0} get-tuple-element(%call), index=1
}
"""
ONLY_SUMS = """\
HloModule jit_sums, is_scheduled=true

ENTRY %main (p: f32[8192,8192]) -> f32[8192,8192] {
  %p = f32[8192,8192]{1,0} parameter(0)
  ROOT %it = f32[8192,8192]{1,0} add(%p, %p)
}
"""


def simulation_of(hlo: str) -> Simulation:
    target = parse_target("1xH100")
    return simulate(read_program(hlo.encode()), build_model(target), target=target)


@pytest.mark.parametrize("target", ["cusolver_gesvd_ffi", "cusolver_syevd_ffi", "unknown"])
def test_a_step_is_never_shorter_than_its_kernels_own_bound(target: str) -> None:
    bounded = simulation_of(SVD.replace("NAME", target))
    (kernel,) = bounded.unpriced
    assert kernel.low_s <= step_range(bounded).low <= bounded.step_s


def test_published_steps_say_nothing_of_a_step_without_products(simulated: Simulation) -> None:
    assert covered(simulation_of(ONLY_SUMS)) is None
    assert simulation_of(ONLY_SUMS).as_published == 0.0
    assert simulated.as_published > 0.5
    assert covered(simulated) is not None


def test_a_step_on_tpus_may_be_longer_without_estimates_of_cycles(simulated: Simulation) -> None:
    on_tpus = replace(simulated, step_s=38.44, low_s=36.0, high_s=40.0, on_tpus=True)
    whole = step_range(replace(on_tpus, rests_on={PriceSource.COMPILER: 1.0}))
    early = step_range(replace(on_tpus, rests_on={PriceSource.ANALYTIC: 1.0}))
    assert whole.high < 45.11 < early.high  # predicted so after a whole compile
    assert whole.low == early.low


def test_a_step_of_no_time_has_a_range_of_none(simulated: Simulation) -> None:
    nothing = replace(simulated, step_s=0.0, low_s=0.0, high_s=0.0, rests_on={})
    assert step_range(nothing) == Range(0.0, 0.0)


@pytest.mark.system
def test_the_kept_predictions_are_those_of_the_model(shared: Path, tmp_path: Path) -> None:
    """A model that changed has to be held against the published steps again."""
    name = "llama2_70b_64"  # of the three that were published the quickest to compile
    for ending in (".meta.json", ".mlir.gz"):
        source = shared / "data" / "programs" / f"{name}{ending}"
        (tmp_path / source.name).symlink_to(source)
    head = (shared / "data" / "published" / "calibration.csv").read_text().splitlines()[0]
    (tmp_path / "rows.csv").write_text(f"{head}\n")
    script = ROOT / "benchmarks" / "published.py"
    done = subprocess.run(
        [sys.executable, script, tmp_path / "rows.csv", "--programs", tmp_path, "--json"],
        capture_output=True,
        text=True,
        check=False,
        env=dict(os.environ),
    )
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)["rows"]
    (kept,) = [it for it in STEPS if it.id == name]
    assert row["shipped_s"] == pytest.approx(kept.predicted_s, rel=0.02)
    assert row["range_of_prices_s"] == pytest.approx([kept.low_s, kept.high_s], rel=0.02)
