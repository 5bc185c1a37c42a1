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

import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from counterpoint.compile.inputs.candidates import counts
from counterpoint.compile.inputs.workload import Workload
from counterpoint.compile.workers.job import Form
from counterpoint.core.errors import InputError, UsageError

Argument: TypeAlias = Any  # a tree of jax.ShapeDtypeStruct, of arrays, or of Python numbers
Traced: TypeAlias = Any
Lowered: TypeAlias = Any

_CUDA: Final = ("cuda",)
_NO_ARRAY: Final = "as an abstract array"
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
    _check_arguments(fn, args, kwargs)
    lowered = _lowered(_traced(jitted, args, kwargs))
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


def _traced(
    jitted: Any,  # noqa: ANN401  of jax.jit
    args: tuple[Argument, ...],
    kwargs: Mapping[str, Argument],
) -> Traced:
    """What the function itself raises stays its own error, with its traceback."""
    try:
        return jitted.trace(*args, **kwargs)
    except TypeError as error:
        if _NO_ARRAY not in str(error):
            raise
        raise UsageError(
            "counterpoint.program was given an argument that is no array and no shape",
            why=str(error).partition("\n")[0],
            next="jax.ShapeDtypeStruct((8, 8), jnp.float32) is a shape; or name it in the"
            " static_argnums of the function's jax.jit",
        ) from None


def _check_arguments(
    fn: Callable[..., object], args: tuple[Argument, ...], kwargs: Mapping[str, Argument]
) -> None:
    """What does not fit the function's own signature; the rest is between it and JAX."""
    name: str = getattr(fn, "__name__", type(fn).__name__)
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError):  # of a class in C
        return
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        raise UsageError(
            f"counterpoint.program({name}, ...): {error}",
            why=f"it is lowered for the shapes of its arguments: {name}{signature}",
            next=f"counterpoint.program({name}, {', '.join(signature.parameters)}), each a tree of"
            " jax.ShapeDtypeStruct or of arrays",
        ) from None


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
