"""Watches what JAX compiles, for a step that is about to run."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from importlib import import_module

from . import jax_internals as inside
from .function import LARGE_FLOPS, JaxObject, describe_function


@contextmanager
def training_watch(found: Callable[[str], None]) -> Generator[None, None, None]:
    """Call `found` with the name of each function that is heavy, or trains, before it is compiled.

    JAX compiles here what it is going to run here.
    """
    compiler: JaxObject = import_module(inside.COMPILER)
    own = compiler.compile_or_get_cached

    def compile_or_get_cached(*args: JaxObject, **named: JaxObject) -> JaxObject:
        module = args[1] if len(args) > 1 else named["computation"]
        function = describe_function(module, None, None)
        if function.is_training or function.flops > LARGE_FLOPS:
            found(function.name)
        return own(*args, **named)

    compiler.compile_or_get_cached = compile_or_get_cached
    try:
        yield
    finally:
        compiler.compile_or_get_cached = own
