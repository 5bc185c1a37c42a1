"""`program`: a function and the shapes of its arguments as a Workload, lowered in this process.

    params = jax.eval_shape(init, key)      # or jax.ShapeDtypeStruct, with shardings
    workload = counterpoint.program(train_step, params, batch)

Nothing is computed, and no GPU is needed: the function is lowered for CUDA on whatever devices or
abstract mesh its shardings name. How many devices that are is part of the program.
"""

# JAX is imported when it is called, and is not there for everybody.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingTypeStubs=false

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from counterpoint.compile.inputs.candidates import counts
from counterpoint.compile.inputs.workload import Workload
from counterpoint.compile.workers.job import Form
from counterpoint.core.errors import InputError, UsageError

Argument: TypeAlias = Any  # a tree of jax.ShapeDtypeStruct, of arrays, or of Python numbers
Traced: TypeAlias = Any
Lowered: TypeAlias = Any

_CUDA: Final = ("cuda",)
_CUSTOM: Final = "CustomSPMDPartitioning"


def program(fn: Callable[..., object], *args: Argument, **kwargs: Argument) -> Workload:
    """The function as a Workload, lowered for CUDA with these arguments.

    `fn` is jitted, or will be. Of arguments only shapes, types and shardings count: they are trees
    of `jax.ShapeDtypeStruct` or of arrays.
    """
    if not callable(fn):
        raise UsageError(
            f"counterpoint.program takes a function, not {type(fn).__name__}",
            next="counterpoint.program(train_step, state, batch)",
        )
    jax = _jax()
    jitted: Any = fn if hasattr(fn, "trace") and hasattr(fn, "lower") else jax.jit(fn)
    lowered = _lowered(jitted.trace(*args, **kwargs))
    module = lowered.compiler_ir("stablehlo")
    text: str = module.operation.get_asm(enable_debug_info=True)
    name = str(module.operation.attributes["sym_name"]).strip('"')
    if _CUSTOM in text:
        raise _custom(name)
    data = text.encode()
    return Workload(
        name=name,
        form=Form.MLIR,
        program=data,
        origin=f"{name}, lowered for {math.prod(counts(data))} devices",
    )


def _jax() -> Any:  # noqa: ANN401  the module
    try:
        import jax
    except ModuleNotFoundError as missing:
        raise UsageError(
            "counterpoint.program needs JAX, and it is not installed",
            why=str(missing),
            next="pip install 'counterpoint[compiler]'",
        ) from None
    return jax


def _lowered(traced: Traced) -> Lowered:
    """For CUDA; for the platform that is there where a rule can't without its device."""
    try:
        return traced.lower(lowering_platforms=_CUDA)
    except (RuntimeError, NotImplementedError, KeyError) as first:
        try:
            return traced.lower()
        except Exception:  # noqa: BLE001  whatever: the first says more
            raise first from None


def _custom(name: str) -> InputError:
    return InputError(
        f"{name} holds a custom_partitioning, which is Python code and can't leave this process",
        why="attention of cuDNN under plain jit is one, and so are some kernels of libraries",
        next="call that function within jax.shard_map, or predict from the run's XLA dump",
    )
