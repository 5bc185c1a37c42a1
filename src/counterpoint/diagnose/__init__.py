"""Diagnosis of a recorded or predicted step: time breakdown, findings and remedies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterpoint.core import lazy

if TYPE_CHECKING:
    from counterpoint.diagnose.attribution import PHASES as PHASES
    from counterpoint.diagnose.between_steps import BETWEEN as BETWEEN
    from counterpoint.diagnose.explanation import VIRTUAL_DEVICES as VIRTUAL_DEVICES
    from counterpoint.diagnose.explanation import Explanation as Explanation
    from counterpoint.diagnose.explanation import ProgramUse as ProgramUse
    from counterpoint.diagnose.explanation import explain as explain
    from counterpoint.diagnose.finding import WORTH_SHARE as WORTH_SHARE
    from counterpoint.diagnose.finding import Finding as Finding
    from counterpoint.diagnose.finding import Remedy as Remedy
    from counterpoint.diagnose.grouping import GROUPINGS as GROUPINGS
    from counterpoint.diagnose.grouping import Grouping as Grouping
    from counterpoint.diagnose.ops import Utilization as Utilization
    from counterpoint.diagnose.selection import WindowKind as WindowKind
    from counterpoint.diagnose.selection import select as select
    from counterpoint.diagnose.step import Breakdown as Breakdown
    from counterpoint.diagnose.step import Phases as Phases
    from counterpoint.diagnose.step import StepTimes as StepTimes
    from counterpoint.diagnose.step_data import StepData as StepData
    from counterpoint.diagnose.step_data import context_of as context_of
    from counterpoint.diagnose.step_programs import main_programs as main_programs
    from counterpoint.diagnose.step_programs import programs_in_step as programs_in_step

__getattr__ = lazy(__name__)
