"""A browser for the tests of pages, and pages to open in it."""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path

import pytest
from compare_pairs import program, sine, timeline

import timelines
from chromium import Visit, Windows, chromium, why_no_browser
from counterpoint.timeline.storage.parquet import write_parquet

Visitor = Callable[..., Visit]


@pytest.fixture(scope="session")
def windows() -> Generator[Windows]:
    if reason := why_no_browser():
        pytest.skip(reason)
    with chromium() as browser:
        yield Windows(browser)


@pytest.fixture
def visit(windows: Windows) -> Generator[Visitor]:
    """Open an address or a file in a window of its own; at the end, nothing may have gone wrong."""
    visits: list[Visit] = []

    def open_(address: str | Path, **options: object) -> Visit:
        visited = Visit(windows, **options)  # type: ignore[arg-type]
        visits.append(visited)
        return visited.open(address.as_uri() if isinstance(address, Path) else address)

    yield open_
    for visited in visits:
        visited.close()
    assert [error for visited in visits for error in visited.errors] == []


@pytest.fixture(scope="session")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_parquet(timelines.two_devices(), tmp_path_factory.mktemp("stored") / "kept")


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    hlo = program(sine("first", "mlp/sin"), sine("second", "head/sin"))
    spans = [("first", 0, 4, 0), ("second", 6, 2, 0)]
    directory = tmp_path_factory.mktemp("pair")
    made = [timeline(hlo, spans, step_ms=[10.0 * by] * 7) for by in (1.0, 1.1)]
    a, b = (write_parquet(it, directory / name) for it, name in zip(made, "ab", strict=True))
    return a, b
