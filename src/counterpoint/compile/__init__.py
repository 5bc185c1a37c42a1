"""The real XLA:GPU compiler without a GPU, in worker processes: Workload x options x Target.

`inputs` makes Workloads. compiler.py compiles one task in a worker (worker_slot.py), pool.py many
at once; cache.py stores results, failures.py words errors. worker.py runs in the worker process,
which XLA may crash: of this Python, or of an Interpreter that has another JAX.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterpoint.core import lazy

if TYPE_CHECKING:
    from counterpoint.compile.compiler import CompiledProgram as CompiledProgram
    from counterpoint.compile.compiler import PlannedMemory as PlannedMemory
    from counterpoint.compile.compiler import compile_workload as compile_workload
    from counterpoint.compile.failures import CompileFailed as CompileFailed
    from counterpoint.compile.interpreter import Interpreter as Interpreter
    from counterpoint.compile.interpreter import require_compiler as require_compiler
    from counterpoint.compile.pool import CompileResult as CompileResult
    from counterpoint.compile.pool import Pool as Pool
    from counterpoint.compile.pool import compile_all as compile_all
    from counterpoint.compile.task import TIMEOUT_S as TIMEOUT_S
    from counterpoint.compile.task import VARIABLES as VARIABLES
    from counterpoint.compile.task import AssumedOptions as AssumedOptions
    from counterpoint.compile.task import CompileTask as CompileTask
    from counterpoint.compile.task import assumed_options as assumed_options
    from counterpoint.compile.task import memory_fraction as memory_fraction

__getattr__ = lazy(__name__)
