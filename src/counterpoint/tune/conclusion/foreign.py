"""Foreign: runs on other devices than the study's target, which say nothing of its prediction."""

from __future__ import annotations

from typing import Final

from counterpoint.core.errors import CounterpointError
from counterpoint.hardware import find_chip, parse_target
from counterpoint.tune.study.study import Study

_CPU: Final = "cpu"  # as JAX calls it


def foreign_devices(study: Study) -> str | None:
    """What the runs were made on, where that is not the target's chip; None where it may be."""
    if study.began.target is None:
        return None
    seen = {it for trial in study.trials if trial.report for it in trial.report.devices}
    if not seen:
        return None
    try:
        wanted = parse_target(study.began.target).chip.name
    except CounterpointError:  # a file of the user's that is gone
        return None
    return min((it for it in seen if _is_another(it, wanted)), default=None)


def _is_another(device: str, wanted: str) -> bool:
    """Of a GPU that we don't know nothing is said."""
    if device.lower() == _CPU:
        return True
    chip = find_chip(device)
    return chip is not None and chip.name != wanted
