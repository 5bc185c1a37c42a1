"""Runs: the record that one execution of a workload leaves, written and read. No processes."""

from counterpoint.runs.compiler_lines import CompilerLine as CompilerLine
from counterpoint.runs.compiler_reports import effective_flags as effective_flags
from counterpoint.runs.compiler_reports import flags_by_module as flags_by_module
from counterpoint.runs.compiler_reports import read_debug_options as read_debug_options
from counterpoint.runs.outcome import Outcome as Outcome
from counterpoint.runs.outcome import OutcomeKind as OutcomeKind
from counterpoint.runs.reader import find_runs as find_runs
from counterpoint.runs.reader import is_run as is_run
from counterpoint.runs.reader import list_runs as list_runs
from counterpoint.runs.reader import profiles_of as profiles_of
from counterpoint.runs.reader import read_run as read_run
from counterpoint.runs.run import Compile as Compile
from counterpoint.runs.run import Given as Given
from counterpoint.runs.run import Process as Process
from counterpoint.runs.run import ProfileWindow as ProfileWindow
from counterpoint.runs.run import Rank as Rank
from counterpoint.runs.run import Run as Run
from counterpoint.runs.run import StepStart as StepStart
