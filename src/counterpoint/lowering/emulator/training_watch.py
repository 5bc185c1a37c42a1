"""Watches what JAX compiles and calls, for a step that runs where it should only be made."""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib import import_module

from . import jax_internals as inside
from .executions import Run, intercept_executions
from .function import LARGE_FLOPS, JaxObject, LoweredFunction, describe_function

_AGAIN = 32
"""Calls of a function without a backward pass, after which it is a step."""
_QUIET_S = 5.0
"""Seconds without a new function, before which it may be one that creates weights."""


class _Watched:
    """A function that was compiled, and its calls."""

    def __init__(self, executable: JaxObject, function: LoweredFunction) -> None:
        self.executable = executable  # keeps its id unique
        self.function = function
        self.times = 0


def watch_training(report: Callable[[str], None]) -> None:
    """Call `report` with the name of each function that is heavy, or trains, before it is compiled.

    So it is called for a function of the program's own that is called again and again. JAX has been
    imported. It compiles here what it is going to run here.
    """
    pxla: JaxObject = import_module(inside.PXLA)
    compiler: JaxObject = import_module(inside.COMPILER)
    lower, compile_one = pxla.lower_sharding_computation, compiler.compile_or_get_cached
    modules: dict[int, LoweredFunction] = {}
    watched: dict[int, _Watched] = {}
    new_s = [time.monotonic()]

    def lower_sharding_computation(*args: JaxObject, **named: JaxObject) -> JaxObject:
        lowered = lower(*args, **named)
        module = lowered.stablehlo()
        function = modules[id(module)] = describe_function(module, args[0], None)
        function.module = module  # keeps its id unique
        return lowered

    def compile_or_get_cached(*args: JaxObject, **named: JaxObject) -> JaxObject:
        module = args[1] if len(args) > 1 else named["computation"]
        function = modules.pop(id(module), None) or describe_function(module, None, None)
        if function.is_training or function.flops > LARGE_FLOPS:
            report(function.name)
        executable = compile_one(*args, **named)
        if function.is_own:
            new_s[:] = [time.monotonic()]
            watched[id(executable)] = _Watched(executable, function)
        return executable

    def called(replicated: JaxObject, arguments: tuple[JaxObject, ...], run: Run) -> JaxObject:
        del arguments
        its = watched[id(replicated.xla_executable)]
        its.times += 1
        if its.times >= _AGAIN and time.monotonic() - new_s[0] > _QUIET_S:
            report(its.function.name)
        return run()

    pxla.lower_sharding_computation = lower_sharding_computation
    compiler.compile_or_get_cached = compile_or_get_cached
    intercept_executions(lambda executable: id(executable) in watched, called)
