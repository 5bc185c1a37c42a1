"""Foreign: runs on other devices than the study's target, which say nothing of its prediction."""

from __future__ import annotations

from counterpoint.core.errors import CounterpointError
from counterpoint.hardware import find_chip, parse_target
from counterpoint.tune.study.study import Study


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
    chips = {it: find_chip(it) for it in seen}
    others = (it for it, chip in chips.items() if chip is None or chip.name != wanted)
    return min(others, default=None)
