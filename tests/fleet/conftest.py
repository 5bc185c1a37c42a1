"""Where the tests of fleets do their tasks, and how reports of fleets read."""

from __future__ import annotations

import re

import pytest

from counterpoint.fleet.local import LocalExecutor
from golden_files import Golden
from golden_sections import Said
from made_fleet import TasksHere


@pytest.fixture(autouse=True)
def tasks_here(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Do tasks in this process, since most tests ask what a fleet says, not who computes it.

    A process per task imports polars, which takes longer than the task. Tests marked `smoke` or
    `system` start the processes.
    """
    if not any(mark.name in ("smoke", "system") for mark in request.node.iter_markers()):
        monkeypatch.setattr(LocalExecutor, "run", TasksHere.run)


@pytest.fixture
def said(request: pytest.FixtureRequest, golden: Golden) -> Said:
    """Compare texts with this module's golden file."""
    return Said(request, golden, _without_sizes)


def _without_sizes(text: object) -> str:
    """Replace the sizes of files, which contain the paths of their directories."""
    return re.sub(r"\b[\d.]+ KiB", "SIZE", str(text))
