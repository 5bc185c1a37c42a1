"""What every page carries stays small."""

from __future__ import annotations

import re

import pytest

from counterpoint.tune.trial.report import TrialFailure
from counterpoint.view.page import ASSETS, asset

LARGEST = 300_000


@pytest.mark.parametrize("name", ASSETS)
def test_a_file_of_the_page_names_nothing_to_load(name: str) -> None:
    text = asset(name).decode()
    assert "@import" not in text
    assert "url(http" not in text
    assert "sourceMappingURL" not in text


def test_the_program_of_a_page_is_small() -> None:
    assert sum(len(asset(name)) for name in ASSETS) < LARGEST


def test_each_failure_of_an_arm_has_the_color_of_failures() -> None:
    (bad,) = re.findall(r'\["slower","failed",[^]]*\]', asset("app.js").decode())
    blamed = {f'"{failure}"' for failure in TrialFailure if failure.blames_the_arm}
    assert {name for name in blamed if name not in bad} == set()
