"""Pages look as they did when somebody last looked at them (tests/golden_pages.py)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from golden_pages import GOLDEN, PICTURES, TOLERANCE, Picture, difference, taken

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("golden")


@pytest.mark.parametrize("picture", PICTURES, ids=lambda it: it.path.stem)
def test_a_page_looks_as_before(
    browser: Browser, files: Path, tmp_path: Path, picture: Picture
) -> None:
    now = taken(browser, picture, files)
    share = difference(browser, picture.path.read_bytes(), now)
    (tmp_path / picture.path.name).write_bytes(now)
    assert share <= TOLERANCE, f"look at {tmp_path / picture.path.name}, then `make golden`"


def test_what_looks_different_differs(browser: Browser) -> None:
    light, dark, timeline, _, report, *_ = (picture.path.read_bytes() for picture in PICTURES)
    assert difference(browser, light, light) == 0
    assert difference(browser, light, dark) > 10 * TOLERANCE
    assert difference(browser, light, report) > 2 * TOLERANCE
    assert difference(browser, timeline, report) > 2 * TOLERANCE


def test_the_pictures_are_small_and_none_is_left_over() -> None:
    files = sorted(GOLDEN.iterdir())
    assert files == sorted(picture.path for picture in PICTURES)
    assert sum(file.stat().st_size for file in files) < 2_000_000
