"""Comparison of two runs, profiles or predictions, and of what made one slower than the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterpoint.core import lazy

if TYPE_CHECKING:
    from counterpoint.diagnose.compare.collective_changes import (
        CollectiveChange as CollectiveChange,
    )
    from counterpoint.diagnose.compare.compared_op import STEP as STEP
    from counterpoint.diagnose.compare.compared_op import ComparedOp as ComparedOp
    from counterpoint.diagnose.compare.comparison import Comparison as Comparison
    from counterpoint.diagnose.compare.comparison import PartChange as PartChange
    from counterpoint.diagnose.compare.comparison import StepDifference as StepDifference
    from counterpoint.diagnose.compare.comparison import compare as compare
    from counterpoint.diagnose.compare.experiment import DifferenceKind as DifferenceKind
    from counterpoint.diagnose.compare.experiment import SideDifference as SideDifference
    from counterpoint.diagnose.compare.losses import LossDifference as LossDifference
    from counterpoint.diagnose.compare.matching import MatchStage as MatchStage
    from counterpoint.diagnose.compare.op_changes import OpChange as OpChange
    from counterpoint.diagnose.compare.schedule_changes import (
        RegroupedCollectives as RegroupedCollectives,
    )
    from counterpoint.diagnose.compare.schedule_changes import ScheduleChanges as ScheduleChanges
    from counterpoint.diagnose.compare.side import Side as Side
    from counterpoint.diagnose.compare.step_time import StepChange as StepChange
    from counterpoint.diagnose.compare.step_time import StepVerdict as StepVerdict
    from counterpoint.diagnose.compare.step_time import change_of_runs as change_of_runs

__getattr__ = lazy(__name__)
