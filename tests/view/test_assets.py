"""What every page carries stays small."""

from __future__ import annotations

import pytest

from counterpoint.view.page import ASSETS, asset

LARGEST = 250_000


@pytest.mark.parametrize("name", ASSETS)
def test_a_file_of_the_page_names_nothing_to_load(name: str) -> None:
    text = asset(name).decode()
    assert "@import" not in text
    assert "url(http" not in text
    assert "sourceMappingURL" not in text


def test_the_program_of_a_page_is_small() -> None:
    assert sum(len(asset(name)) for name in ASSETS) < LARGEST
