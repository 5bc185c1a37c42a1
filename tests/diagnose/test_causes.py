"""Programs whose trouble is known: its cause is the first finding, whichever way it is profiled.

All of benchmarks/causes is run by `python benchmarks/causes`, which prints the score
(docs/accuracy-causes.md). The system tier runs those whose loss is far above what a busy machine
adds; profiles that are drawn instead of recorded are the same everywhere.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from cases import CASES, Case
from score import Verdict, judge

pytest.importorskip("jax")

ALWAYS = {
    ("inputs.sleeping_loader", "plain"),
    ("inputs.sleeping_loader", "run"),
    ("inputs.slow_loader_thread", "markers"),
    ("host.item_then_python", "markers"),
    ("host.garbage_collection", "markers"),
    ("host.checkpoint_every_fourth", "plain"),
    ("transfers.big_device_put", "markers"),
    ("compiles.another_shape", "nopython"),
    ("compiles.static_learning_rate", "run-plain"),
    ("devices.slow_device", "markers"),
    ("devices.devices_in_turn", "markers"),
    ("eager.eager_update", "nopython"),
    ("callbacks.pure_callback", "markers"),
    ("ops.gather", "markers"),
    ("ops.no_donation", "markers"),
    ("made.clean", "gpu"),
    ("made.late_device", "gpu"),
    ("made.slow_scatter", "tpu"),
}


def drawn() -> list[object]:
    return [
        pytest.param(case, way, id=f"{case.program}-{way}")
        for case in CASES
        if case.program.startswith("made.")
        for way in case.ways
    ]


def marked(case: Case, way: str) -> object:
    tier = pytest.mark.system if (case.program, way) in ALWAYS else pytest.mark.deep
    return pytest.param(case, way, id=f"{case.program}-{way}", marks=tier)


@pytest.mark.parametrize(("case", "way"), drawn())
def test_the_cause_of_a_drawn_profile_is_right(case: Case, way: str, tmp_path: Path) -> None:
    row = judge(case, way, tmp_path)
    assert row.verdict is Verdict.RIGHT, row.text()
    assert row.is_timed
    assert row.sized is not False


@pytest.mark.parametrize(
    ("case", "way"),
    [
        marked(case, way)
        for case in CASES
        if case.expects and not case.program.startswith("made.")
        for way in case.ways
    ],
)
def test_the_trouble_is_named_first(case: Case, way: str, tmp_path: Path) -> None:
    row = judge(case, way, tmp_path)
    assert row.verdict in (Verdict.RIGHT, Verdict.PARTLY), row.text()
    assert row.said.split(" ")[0] in case.expects, row.text()


def test_each_program_has_a_case() -> None:
    programs = Path(__file__).parents[2] / "benchmarks" / "causes" / "programs"
    there = {
        f"{path.stem}.{line.removeprefix('def ').partition('(')[0]}"
        for path in programs.glob("*.py")
        for line in path.read_text().splitlines()
        if re.match(r"def [a-z]", line) and "recorder: Recorder" in line
    }
    assert there
    assert {case.program for case in CASES} == there
    assert {(case.program, way) for case in CASES for way in case.ways} >= ALWAYS
