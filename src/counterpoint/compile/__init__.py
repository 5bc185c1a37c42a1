"""Real compilers without their devices, XLA:GPU and libtpu, in worker processes that may crash.

`inputs` makes Workloads. Read compiler.py first: it compiles one task (task.py) in a worker
(worker_slot.py, worker_process.py); pool.py compiles many at once, as many as capacity.py allows.
channels.py passes options, allocator.py and assumptions.py match a run, workarounds.py retries,
cache.py stores results, notes.py and failures.py tell what happened. worker.py and xla_session.py
run in the worker, a process of this Python or of an Interpreter that has another JAX; job.py is
what both sides share.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterpoint.core import lazy

if TYPE_CHECKING:
    from counterpoint.compile.allocator import MEMORY_VARIABLES as MEMORY_VARIABLES
    from counterpoint.compile.allocator import memory_fraction as memory_fraction
    from counterpoint.compile.assumptions import AssumedOptions as AssumedOptions
    from counterpoint.compile.assumptions import assumed_options as assumed_options
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
    from counterpoint.compile.task import CompileTask as CompileTask

__getattr__ = lazy(__name__)
