"""Work on threads: in order, on more than one core only, and with its errors."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest

from counterpoint.core import threads
from counterpoint.core.threads import MANY_ROWS, beside, cores, on_threads


@pytest.fixture(params=[1, 2])
def available(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Every test runs as on one core and as on two."""
    monkeypatch.setattr(threads, "cores", lambda: request.param)
    return request.param


def where(_: object = None) -> bool:
    return threading.current_thread() is threading.main_thread()


@pytest.mark.usefixtures("available")
def test_results_come_in_the_order_of_the_items() -> None:
    assert on_threads(lambda number: number * number, range(100)) == [n * n for n in range(100)]
    assert on_threads(str, []) == []


def test_threads_work_where_there_are_cores_for_them(available: int) -> None:
    assert set(on_threads(where, range(4))) == {available == 1}
    assert on_threads(where, [1]) == [True], "one item"
    assert set(on_threads(where, range(4), rows=MANY_ROWS - 1)) == {True}, "few rows"
    assert beside(where)() is (available == 1)


def test_work_beside_begins_at_once() -> None:
    begun = threading.Event()
    if cores() > 1:
        wait = beside(begun.set)
        assert begun.wait(10)
        wait()


@pytest.mark.usefixtures("available")
def test_an_error_reaches_who_waits() -> None:
    with pytest.raises(ZeroDivisionError):
        on_threads(lambda number: 1 // number, [1, 0, 2])
    with pytest.raises(ZeroDivisionError):
        beside(lambda: 1 // 0)()


@pytest.mark.skipif(sys.platform != "linux", reason="affinity is known on Linux")
def test_cores_are_those_that_the_process_may_use() -> None:
    one = min(os.sched_getaffinity(0))
    code = (
        f"import os; os.sched_setaffinity(0, [{one}]);"
        " from counterpoint.core.threads import cores; print(cores())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "1\n"
