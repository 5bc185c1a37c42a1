"""Comparison of two runs, profiles or predictions, and of what made one slower than the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterpoint.core import lazy

if TYPE_CHECKING:
    from counterpoint.diagnose.compare.comparison import Change as Change
    from counterpoint.diagnose.compare.comparison import Comparison as Comparison
    from counterpoint.diagnose.compare.comparison import Network as Network
    from counterpoint.diagnose.compare.comparison import Regrouped as Regrouped
    from counterpoint.diagnose.compare.comparison import Schedule as Schedule
    from counterpoint.diagnose.compare.comparison import Work as Work
    from counterpoint.diagnose.compare.comparison import compare as compare
    from counterpoint.diagnose.compare.experiment import About as About
    from counterpoint.diagnose.compare.experiment import Differs as Differs
    from counterpoint.diagnose.compare.matching import How as How
    from counterpoint.diagnose.compare.row import Row as Row
    from counterpoint.diagnose.compare.side import Side as Side
    from counterpoint.diagnose.compare.step_time import StepChange as StepChange
    from counterpoint.diagnose.compare.step_time import Verdict as Verdict

__getattr__ = lazy(
    __name__,
    {
        "About": "counterpoint.diagnose.compare.experiment",
        "Change": "counterpoint.diagnose.compare.comparison",
        "Comparison": "counterpoint.diagnose.compare.comparison",
        "Differs": "counterpoint.diagnose.compare.experiment",
        "How": "counterpoint.diagnose.compare.matching",
        "Network": "counterpoint.diagnose.compare.comparison",
        "Regrouped": "counterpoint.diagnose.compare.comparison",
        "Row": "counterpoint.diagnose.compare.row",
        "Schedule": "counterpoint.diagnose.compare.comparison",
        "Side": "counterpoint.diagnose.compare.side",
        "StepChange": "counterpoint.diagnose.compare.step_time",
        "Verdict": "counterpoint.diagnose.compare.step_time",
        "Work": "counterpoint.diagnose.compare.comparison",
        "compare": "counterpoint.diagnose.compare.comparison",
    },
)
