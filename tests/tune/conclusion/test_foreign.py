"""Runs on other devices than the target's are not held against its prediction."""

from __future__ import annotations

from dataclasses import replace

import pytest

from counterpoint.tune.arm import BASE
from counterpoint.tune.conclusion.caveats import foreign_devices
from counterpoint.tune.trial.report import Purpose
from tune_studies import Made, report


@pytest.mark.parametrize(
    ("target", "devices", "told"),
    [
        ("8xH100", ("cpu",), "cpu"),
        ("8xH100", ("NVIDIA H100 80GB HBM3",), None),
        ("8xH100", ("NVIDIA A100-SXM4-80GB",), "NVIDIA A100-SXM4-80GB"),
        ("8xH100", ("NVIDIA of next year",), None),
        ("8xH100", (), None),
        (None, ("cpu",), None),
    ],
)
def test_another_device_is_one_that_is_known_to_be(
    target: str | None, devices: tuple[str, ...], told: str | None
) -> None:
    made = Made().entered().opened()
    made.ran(BASE, replace(report(1.0), devices=devices), Purpose.NOISE, 0)
    study = replace(made.study, began=replace(made.study.began, target=target))
    assert foreign_devices(study) == told
