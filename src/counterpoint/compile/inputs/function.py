"""`program`: makes a Workload of a function and its arguments' shapes, lowered in this process.

    params = jax.eval_shape(init, key)      # or jax.ShapeDtypeStruct, with shardings
    workload = counterpoint.program(train_step, params, batch)

Nothing is computed, and no GPU is needed: the function is lowered for CUDA on the devices or
abstract mesh that its shardings name. Their number is part of the program.
"""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from typing import Any, Final, TypeAlias

from counterpoint.compile.inputs.candidates import counts
from counterpoint.compile.inputs.workload import Workload
from counterpoint.compile.job import ProgramForm
from counterpoint.core import InputError, UsageError
from counterpoint.lowering import absent_gpu, replace_custom_partitioning

# JAX is imported when `program` is called, and may not be installed.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingTypeStubs=false


Argument: TypeAlias = Any  # a tree of jax.ShapeDtypeStruct, of arrays, or of Python numbers
Traced: TypeAlias = Any
Lowered: TypeAlias = Any

PLATFORM_VARIABLE: Final = "COUNTERPOINT_LOWERS_FOR"
"""Names the platform that functions are lowered for, in the child that calls them."""
CAPABILITY_VARIABLE: Final = "COUNTERPOINT_COMPUTE_CAPABILITY"
"""The compute capability of the GPU, in that child."""
_HOPPER: Final = "9.0"
_NO_ARRAY: Final = "as an abstract array"
_CUSTOM: Final = "CustomSPMDPartitioning"
_ABSTRACT: Final = "AbstractDevice"
"""Part of JAX's error for a Pallas kernel without a GPU, from 0.12 on."""


def program(fn: Callable[..., object], *args: Argument, **kwargs: Argument) -> Workload:
    """Return the function as a Workload, lowered for CUDA with these arguments.

    A function that is not jitted yet is jitted first. Arguments are trees of `jax.ShapeDtypeStruct`
    or of arrays: only their shapes, types and shardings count.
    """
    if not callable(fn):
        raise UsageError(
            f"counterpoint.program takes a function, not {type(fn).__name__}",
            next="counterpoint.program(train_step, state, batch)",
        )
    jax = _jax()
    jitted: Any = fn if hasattr(fn, "trace") and hasattr(fn, "lower") else jax.jit(fn)
    _check_arguments(fn, args, kwargs)
    with absent_device():
        try:
            lowered = _lowered(_traced(jitted, args, kwargs))
        except RuntimeError as error:
            if _ABSTRACT not in str(error):
                raise
            with _abstract_gpu(jax):
                lowered = _lowered(_traced(jitted, args, kwargs))
        module = lowered.compiler_ir("stablehlo")
        name = str(module.operation.attributes["sym_name"]).strip('"')
        _without_custom_partitioning(module, name)
    text: str = module.operation.get_asm(enable_debug_info=True)
    data = (text + _order_line(lowered)).encode()
    return Workload(
        name=name,
        form=ProgramForm.MLIR,
        program=data,
        origin=f"{name}, lowered for {math.prod(counts(data))} devices",
    )


def absent_device() -> AbstractContextManager[None]:
    """Return a context in which JAX traces and lowers for the target, which is not here."""
    if target_platform() == "tpu":
        return absent_gpu(None)
    capability = os.environ.get(CAPABILITY_VARIABLE, _HOPPER)
    return absent_gpu(tuple(int(part) for part in capability.split(".")))


def _without_custom_partitioning(module: Any, name: str) -> None:  # noqa: ANN401  of MLIR
    """Replace each custom_partitioning, which is Python code, by its computation for a device."""
    if _CUSTOM not in str(module):
        return
    try:
        replace_custom_partitioning(module)
    except Exception as error:  # whatever the program's own code may raise
        why = str(error).strip().partition("\n")[0] or type(error).__name__
        raise _custom(name, why) from error


def _abstract_gpu(jax: Any) -> AbstractContextManager[object]:  # noqa: ANN401  the module
    """Return a context in which Pallas kernels are lowered for a GPU that is not there.

    XLA compiles them for the target; JAX only asks for the generation.
    """
    sharding = jax.sharding
    gpu = sharding.AbstractDevice(device_kind="NVIDIA H100", num_cores=None, platform="gpu")
    return sharding.use_abstract_mesh(sharding.AbstractMesh((), (), abstract_device=gpu))


def _order_line(lowered: Any) -> str:  # noqa: ANN401  of jax.stages
    """Return a comment with the devices in the order of the mesh; StableHLO does not hold it."""
    devices = getattr(getattr(lowered, "_lowering", None), "_device_list", None) or ()
    order = [int(device.id) for device in devices]
    if order == list(range(len(order))):
        return ""
    return f"// counterpoint.device_order = {','.join(map(str, order))}\n"


def _traced(
    jitted: Any,  # noqa: ANN401  of jax.jit
    args: tuple[Argument, ...],
    kwargs: Mapping[str, Argument],
) -> Traced:
    """Trace the function; its own errors keep their type and traceback."""
    try:
        return jitted.trace(*args, **kwargs)
    except TypeError as error:
        if _NO_ARRAY not in str(error):
            raise
        raise UsageError(
            "an argument of counterpoint.program is neither an array nor a shape",
            why=str(error).partition("\n")[0],
            next="jax.ShapeDtypeStruct((8, 8), jnp.float32) is a shape; or list it in the"
            " static_argnums of the function's jax.jit",
        ) from None


def _check_arguments(
    fn: Callable[..., object], args: tuple[Argument, ...], kwargs: Mapping[str, Argument]
) -> None:
    """Refuse arguments that do not fit the function's signature; JAX checks the rest."""
    name: str = getattr(fn, "__name__", type(fn).__name__)
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError):  # a class in C
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
    """Lower for CUDA (or TPUs), or for the local platform if a lowering rule needs its device.

    JAX raises NotImplementedError for a primitive without a rule for that platform. A program that
    calls LAPACK here can't run on the target.
    """
    try:
        return traced.lower(lowering_platforms=(os.environ.get(PLATFORM_VARIABLE, "cuda"),))
    except (RuntimeError, NotImplementedError, KeyError) as first:
        with suppress(Exception):  # whatever: the first says more
            lowered = traced.lower()
            if "@lapack_" not in lowered.as_text():
                return lowered
        raise first from None


def target_platform() -> str:
    """Return what `jax.default_backend()` is on the target that functions are lowered for."""
    return "tpu" if os.environ.get(PLATFORM_VARIABLE) == "tpu" else "gpu"


def _custom(name: str, why: str) -> InputError:
    return InputError(
        f"{name} contains a custom_partitioning, which is Python code and can't leave this process",
        why=why,
        next="call that function within jax.shard_map, or predict from the run's XLA dump",
    )
