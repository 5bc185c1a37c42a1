"""Diagnosis of a recorded or predicted step: time breakdown, findings and remedies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterpoint.core import lazy

if TYPE_CHECKING:
    from counterpoint.diagnose.case import Case as Case
    from counterpoint.diagnose.case import context_of as context_of
    from counterpoint.diagnose.explanation import WORTH_A_WORD as WORTH_A_WORD
    from counterpoint.diagnose.explanation import Explanation as Explanation
    from counterpoint.diagnose.explanation import explain as explain
    from counterpoint.diagnose.finding import Finding as Finding
    from counterpoint.diagnose.finding import Remedy as Remedy
    from counterpoint.diagnose.selection import Window as Window
    from counterpoint.diagnose.selection import select as select
    from counterpoint.diagnose.step import Breakdown as Breakdown
    from counterpoint.diagnose.step import Phases as Phases

__getattr__ = lazy(
    __name__,
    {
        "Breakdown": "counterpoint.diagnose.step",
        "Case": "counterpoint.diagnose.case",
        "Explanation": "counterpoint.diagnose.explanation",
        "Finding": "counterpoint.diagnose.finding",
        "Phases": "counterpoint.diagnose.step",
        "Remedy": "counterpoint.diagnose.finding",
        "WORTH_A_WORD": "counterpoint.diagnose.explanation",
        "Window": "counterpoint.diagnose.selection",
        "context_of": "counterpoint.diagnose.case",
        "explain": "counterpoint.diagnose.explanation",
        "select": "counterpoint.diagnose.selection",
    },
)
