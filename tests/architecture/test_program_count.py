"""The counts that keep the suite fast can fail."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from program_count import LIMITS, ProgramCount


def finished(*properties: tuple[str, object]) -> pytest.TestReport:
    place = ("test_a.py", 1, "test_a")
    return pytest.TestReport(
        "test_a.py::test_a", place, {}, "passed", None, "teardown", user_properties=[*properties]
    )


@pytest.mark.parametrize("name", LIMITS)
def test_one_more_than_may_be_is_an_error(name: str) -> None:
    count = ProgramCount()
    most, instead = LIMITS[name]
    count.pytest_runtest_logreport(finished((name, most)))
    count.pytest_runtest_logreport(finished())
    assert count.excess == []
    count.pytest_runtest_logreport(finished((name, 1)))
    assert count.excess == [f"{most + 1} {name}, {most} at most are to: {instead}"]


def test_what_a_test_starts_and_explains_is_told_with_its_end(
    request: pytest.FixtureRequest,
) -> None:
    count = ProgramCount()
    for command in ([sys.executable, "-S", "-c", "pass"], [sys.executable, "-V"], ["true"]):
        subprocess.run(command, check=True)
    assert count.explaining(len)("step") == 4
    item = request.node
    before = [*item.user_properties]
    count.pytest_runtest_teardown(item)
    added, item.user_properties[:] = dict(item.user_properties[len(before) :]), before
    assert added == {
        "tests started programs": 1,
        "Pythons were started": 2,
        "steps were explained": 1,
    }


def test_compiles_are_those_that_the_cache_keeps(tmp_path: Path) -> None:
    count = ProgramCount()
    count.compiling(tmp_path)
    (tmp_path / "ab").mkdir()
    (tmp_path / "ab" / "abcd.zip").touch()
    (tmp_path / "ab" / "abcd.part").touch()
    assert count.kept == 1
