"""Pages look as they did when somebody last looked at them (tests/golden_pages.py)."""

from __future__ import annotations

from pathlib import Path

import pytest

from chromium import Windows
from golden_pages import GOLDEN, PICTURES, TOLERANCE, Picture, difference, taken

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("golden")


@pytest.mark.parametrize("picture", PICTURES, ids=lambda it: it.path.stem)
def test_a_page_looks_as_before(
    windows: Windows, files: Path, tmp_path: Path, picture: Picture
) -> None:
    now = taken(windows, picture, files)
    share = difference(windows, picture.path.read_bytes(), now)
    (tmp_path / picture.path.name).write_bytes(now)
    assert share <= TOLERANCE, f"look at {tmp_path / picture.path.name}, then `make golden`"


def test_what_looks_different_differs(windows: Windows) -> None:
    light, dark, timeline, _, report, *_ = (picture.path.read_bytes() for picture in PICTURES)
    assert difference(windows, light, light) == 0
    assert difference(windows, light, dark) > 10 * TOLERANCE
    assert difference(windows, light, report) > 2 * TOLERANCE
    assert difference(windows, timeline, report) > 2 * TOLERANCE


def test_the_pictures_are_small_and_none_is_left_over() -> None:
    files = sorted(GOLDEN.glob("*.png"))
    assert files == sorted(picture.path for picture in PICTURES)
    assert sum(file.stat().st_size for file in files) < 2_000_000
