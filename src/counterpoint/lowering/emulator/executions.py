"""Hooks into JAX's calls of what it has compiled."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from . import jax_internals as inside
from .function import JaxObject

Run = Callable[[], JaxObject]


def intercept_executions(
    is_meant: Callable[[JaxObject], bool],
    handle: Callable[[JaxObject, tuple[JaxObject, ...], Run], JaxObject],
) -> None:
    """Let `handle` return the results of executables that are meant; its last argument runs one.

    Its first argument is JAX's object around the executable.
    """
    pxla: JaxObject = import_module(inside.PXLA)
    execute = pxla.ExecuteReplicated
    make, call = execute.__init__, execute.__call__

    def __init__(self: JaxObject, *args: JaxObject, **named: JaxObject) -> None:  # noqa: N807
        make(self, *args, **named)
        if is_meant(self.xla_executable):
            self.has_unordered_effects = True  # else JAX runs it next time without asking

    def __call__(self: JaxObject, *args: JaxObject) -> JaxObject:  # noqa: N807
        def run() -> JaxObject:
            self.has_unordered_effects = False  # as it is, for the time of the call
            try:
                return call(self, *args)
            finally:
                self.has_unordered_effects = True

        return handle(self, args, run) if is_meant(self.xla_executable) else call(self, *args)

    execute.__init__, execute.__call__ = __init__, __call__
