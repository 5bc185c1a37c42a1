"""Makes Workloads of dumps, functions, and the program of a finished run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterpoint.core import lazy

if TYPE_CHECKING:
    from counterpoint.compile.inputs.function import lower_function as lower_function
    from counterpoint.compile.inputs.function import names_function as names_function
    from counterpoint.compile.inputs.function import program as program
    from counterpoint.compile.inputs.function import split_function as split_function
    from counterpoint.compile.inputs.workload import Workload as Workload
    from counterpoint.compile.inputs.workload import load_scheduled as load_scheduled
    from counterpoint.compile.inputs.workload import load_workload as load_workload
    from counterpoint.compile.inputs.workload import own_programs as own_programs
    from counterpoint.compile.inputs.workload import own_target as own_target

__getattr__ = lazy(__name__)
