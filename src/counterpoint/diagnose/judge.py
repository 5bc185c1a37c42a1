"""Judge: asks every rule, and ranks what they found by what a step can gain."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from counterpoint.core.basis import Range
from counterpoint.diagnose.case import Case
from counterpoint.diagnose.finding import Finding
from counterpoint.diagnose.rules import RULES

WORTH_A_WORD: Final = 0.01
"""Losses below this share of the step are left out."""


def judge(case: Case) -> tuple[Finding, ...]:
    """The dearest first; then what says nothing of time, in order of codes."""
    doubt = _doubt(case)
    found = [_doubted(finding, doubt) for rule in RULES for finding in rule.check(case)]
    priced = [finding for finding in found if _most(finding) > WORTH_A_WORD * case.step_ms]
    unpriced = [finding for finding in found if not isinstance(finding.saves_ms, Range)]
    return (*sorted(priced, key=_rank), *unpriced)


def _doubt(case: Case) -> str | None:
    """What speaks against whatever is found."""
    timeline = case.timeline
    if {device.kind for device in timeline.devices} == {"cpu"}:
        return "virtual CPU devices share the machine's cores: an accelerator's times are others"
    if timeline.step_program is None and timeline.steps["step"].n_unique() == 1:
        return "no step was told apart: it may have been once in all of the profile"
    return None


def _doubted(finding: Finding, doubt: str | None) -> Finding:
    if doubt is None:
        return finding
    both = doubt if finding.doubt is None else f"{finding.doubt}; {doubt}"
    return replace(finding, doubt=both)


def _most(finding: Finding) -> float:
    return finding.saves_ms.high if isinstance(finding.saves_ms, Range) else 0.0


def _rank(finding: Finding) -> tuple[float, str]:
    """By the middle of what it saves: an upper bound alone is no reason to come first."""
    saves = finding.saves_ms
    middle = (saves.low + saves.high) / 2 if isinstance(saves, Range) else 0.0
    return (-middle, finding.code)
