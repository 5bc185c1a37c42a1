"""Makes Workloads: of files that JAX or XLA wrote, of functions, and of finished runs.

Read workload.py first: it chooses the step among the candidates (candidates.py) in a run's files
(artifacts.py, bytecode.py). scheduled.py reads what the run's own compiler scheduled. function.py
lowers a function in this process, function_process.py one of a file in a child process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterpoint.core import lazy

if TYPE_CHECKING:
    from counterpoint.compile.inputs.function import program as program
    from counterpoint.compile.inputs.function_process import lower_function as lower_function
    from counterpoint.compile.inputs.function_process import names_function as names_function
    from counterpoint.compile.inputs.function_process import split_function as split_function
    from counterpoint.compile.inputs.scheduled import load_scheduled as load_scheduled
    from counterpoint.compile.inputs.scheduled import own_programs as own_programs
    from counterpoint.compile.inputs.workload import Workload as Workload
    from counterpoint.compile.inputs.workload import load_workload as load_workload
    from counterpoint.compile.inputs.workload import own_target as own_target

__getattr__ = lazy(__name__)
