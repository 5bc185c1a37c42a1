"""The counts that keep the suite fast can fail."""

from __future__ import annotations

import subprocess
import sys

import pytest

from program_count import MOST_COMPILING_ANEW, MOST_STARTING, ProgramCount


def finished(*properties: tuple[str, object]) -> pytest.TestReport:
    place = ("test_a.py", 1, "test_a")
    return pytest.TestReport(
        "test_a.py::test_a", place, {}, "passed", None, "teardown", user_properties=[*properties]
    )


@pytest.mark.parametrize(
    ("name", "most"),
    [("programs started", MOST_STARTING), ("compiled anew", MOST_COMPILING_ANEW)],
)
def test_one_test_more_than_may_is_an_error(name: str, most: int) -> None:
    count = ProgramCount()
    for _ in range(most):
        count.pytest_runtest_logreport(finished((name, 3)))
        count.pytest_runtest_logreport(finished())
    assert count.excess == []
    count.pytest_runtest_logreport(finished((name, 1)))
    assert len(count.excess) == 1
    assert str(most + 1) in count.excess[0]


def test_a_program_that_a_test_starts_is_told_with_its_end(request: pytest.FixtureRequest) -> None:
    count = ProgramCount()
    subprocess.run([sys.executable, "-S", "-c", "pass"], check=True)
    item = request.node
    before = [*item.user_properties]
    count.pytest_runtest_teardown(item)
    added, item.user_properties[:] = item.user_properties[len(before) :], before
    assert added == [("programs started", 1)]
