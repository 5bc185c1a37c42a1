"""Runs a workload under Settings, and keeps all its output.

launch.py covers the run from start to end: request.py checks it, environment.py prepares it,
supervisor.py watches it. The agent in `capture.agent` is loaded by the program's own Python.
ranks.py finds the ranks that a surrounding launcher expects.
"""

from counterpoint.capture.gpu_presence import may_have_gpu as may_have_gpu
from counterpoint.capture.interpreter import JaxInterpreter as JaxInterpreter
from counterpoint.capture.interpreter import find_interpreter as find_interpreter
from counterpoint.capture.interpreter import is_python as is_python
from counterpoint.capture.interpreter import named_interpreter as named_interpreter
from counterpoint.capture.launch import launch as launch
from counterpoint.capture.launch import refuse_unstartable as refuse_unstartable
from counterpoint.capture.launch import without_errors as without_errors
from counterpoint.capture.output import is_full as is_full
from counterpoint.capture.request import SHORTEST_S as SHORTEST_S
from counterpoint.capture.request import ProfileSchedule as ProfileSchedule
from counterpoint.capture.request import RunOptions as RunOptions
from counterpoint.capture.request import RunRequest as RunRequest
from counterpoint.capture.request import refuse_missing as refuse_missing
from counterpoint.capture.step_profiler import StepProfiler as StepProfiler
from counterpoint.capture.steps import step_of as step_of
