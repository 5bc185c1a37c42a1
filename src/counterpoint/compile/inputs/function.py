"""`program`: makes a Workload of a function and its arguments' shapes, lowered in this process.

    params = jax.eval_shape(init, key)      # or jax.ShapeDtypeStruct, with shardings
    workload = counterpoint.program(train_step, params, batch)

Nothing is computed, and no GPU is needed: the function is lowered for CUDA on the devices or
abstract mesh that its shardings name. Their number is part of the program.
"""

from __future__ import annotations

import inspect
import json
import math
import os
import re
import subprocess
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any, Final, TypeAlias

from counterpoint.compile.inputs.artifacts import counts
from counterpoint.compile.inputs.workload import Workload, load_workload
from counterpoint.compile.interpreter import (
    Interpreter,
    environment_of,
    python_of,
    require_compiler,
)
from counterpoint.compile.worker_process import ProgramForm
from counterpoint.core import CounterpointError, InputError, UsageError
from counterpoint.core.arguments import Retry

# JAX is imported when it is called, and may not be installed.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingTypeStubs=false


Argument: TypeAlias = Any  # a tree of jax.ShapeDtypeStruct, of arrays, or of Python numbers
Traced: TypeAlias = Any
Lowered: TypeAlias = Any

_PLATFORM: Final = "COUNTERPOINT_LOWERS_FOR"
"""The platform that functions are lowered for, in the child that calls them."""
_NO_ARRAY: Final = "as an abstract array"
_CUSTOM: Final = "CustomSPMDPartitioning"
_ABSTRACT: Final = "AbstractDevice"
"""In JAX's error for a kernel of Pallas without a GPU, from 0.12 on."""


def program(fn: Callable[..., object], *args: Argument, **kwargs: Argument) -> Workload:
    """Return the function as a Workload, lowered for CUDA with these arguments.

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
    try:
        lowered = _lowered(_traced(jitted, args, kwargs))
    except RuntimeError as error:
        if _ABSTRACT not in str(error):
            raise
        with _abstract_gpu(jax):
            lowered = _lowered(_traced(jitted, args, kwargs))
    module = lowered.compiler_ir("stablehlo")
    text: str = module.operation.get_asm(enable_debug_info=True)
    name = str(module.operation.attributes["sym_name"]).strip('"')
    if _CUSTOM in text:
        raise _custom(name)
    data = (text + _order_line(lowered)).encode()
    return Workload(
        name=name,
        form=ProgramForm.MLIR,
        program=data,
        origin=f"{name}, lowered for {math.prod(counts(data))} devices",
    )


def _abstract_gpu(jax: Any) -> AbstractContextManager[object]:  # noqa: ANN401  the module
    """Return a context in which kernels of Pallas are lowered for a GPU that is not there.

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
    """Lower for CUDA (or TPUs), or for the local platform if a rule needs its device.

    JAX raises NotImplementedError for a primitive without a rule for that platform. What calls
    LAPACK here can't run on the target.
    """
    try:
        return traced.lower(lowering_platforms=(os.environ.get(_PLATFORM, "cuda"),))
    except (RuntimeError, NotImplementedError, KeyError) as first:
        with suppress(Exception):  # whatever: the first says more
            lowered = traced.lower()
            if "@lapack_" not in lowered.as_text():
                return lowered
        raise first from None


def target_platform() -> str:
    """Return what `jax.default_backend()` is on the target that functions are lowered for."""
    return "tpu" if os.environ.get(_PLATFORM) == "tpu" else "gpu"


def _custom(name: str) -> InputError:
    return InputError(
        f"{name} contains a custom_partitioning, which is Python code and can't leave this process",
        why="cuDNN attention under plain jit is one, and so are some library kernels",
        next="call that function within jax.shard_map, or predict from the run's XLA dump",
    )


OUTCOME: Final = "function.json"
_PLACE: Final = re.compile(r"(?P<home>[^:]+\.py|[A-Za-z_][\w.]*):(?P<name>[A-Za-z_]\w*)")
_LINES: Final = 16
_UNEVEN: Final = re.compile(
    r"array axis (?P<axis>\d+) is partitioned (?P<parts>\d+) times, but the dimension size is"
    r" (?P<size>\d+) \(full shape: (?P<shape>\([\d, ]+\))"
)

_WITHOUT_RULE: Final = re.compile(r"primitive '(\w+)' not found for platform (\w+)")


def names_function(text: str) -> bool:
    """Return whether this is `file.py:function` or `package.module:function`."""
    return _PLACE.fullmatch(text) is not None and not Path(text).exists()


def split_function(text: str, cwd: Path | None = None) -> tuple[str, str]:
    """Return the file or module of a function, and its name; raise if there is no such file."""
    found = _PLACE.fullmatch(text)
    if found is None:
        raise UsageError(f"{text}: not of the form file.py:function", next="file.py:make_step")
    home, name = found["home"], found["name"]
    if home.endswith(".py") and not (cwd or Path()).joinpath(home).is_file():
        raise InputError(
            f"{home}: no such file",
            why=f"it was looked for in {cwd or Path.cwd()}, for its function {name}",
            next="counterpoint predict path/to/file.py:make_step --target 8xH100",
        )
    return home, name


def lower_function(
    text: str,
    *,
    devices: int,
    directory: Path,
    timeout_s: float = 900.0,
    tpus: bool = False,
    interpreter: Interpreter | None = None,
    cwd: Path | None = None,
) -> Workload:
    """Call `file.py:function` with a number of devices, and lower what it returns.

    The function returns a function and its abstract arguments, or a Workload:

        def make_step(devices):              # in file.py; any name
            mesh = jax.make_mesh((devices,), ("data",))
            return step, (state, batch)

    `counterpoint predict file.py:make_step --target 64x8xH100` calls it with 512, in a child
    process that sees that many CPU devices, so a mesh of `jax.devices()` has the right size.
    A parameter named `platform` is given "gpu" or "tpu", for kernels that only one of them has.
    `interpreter` and `cwd` are of that child: by default this process's own.
    """
    home, name = split_function(text, cwd)
    if devices < 1:
        raise UsageError(f"`devices=` takes a number of at least 1, not {devices}")
    if interpreter is None:
        require_compiler(tpus=tpus)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / OUTCOME).unlink(missing_ok=True)
    worker = "counterpoint.compile.inputs.function_worker"
    command = [python_of(interpreter), "-P", "-m", worker, str(directory)]
    try:
        done = subprocess.run(  # noqa: S603  our own module in our own interpreter
            [*command, home, name, str(devices)],
            env={**_environment(devices, interpreter), _PLATFORM: "tpu" if tpus else "cuda"},
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise InputError(
            f"{text}({devices}) was not lowered within {timeout_s:g} s and was stopped",
            why="it should make shapes (jax.eval_shape, jax.ShapeDtypeStruct), not arrays",
            next=Retry({"timeout": f"{10 * timeout_s:g}"}),
        ) from None
    if done.returncode != 0:
        raise _failure(text, devices, directory, done.stderr.decode(errors="replace"))
    return load_workload(directory / _outcome(directory)["module"])


def _environment(devices: int, interpreter: Interpreter | None) -> dict[str, str]:
    """Return an environment with this many CPU devices, whatever the caller has set."""
    inherited = {
        name: value
        for name, value in environment_of(interpreter, os.environ).items()
        if not name.startswith(("JAX_", "XLA_"))
    }
    return {
        **inherited,
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}",
        "JAX_ENABLE_COMPILATION_CACHE": "false",
        "JAX_TRACEBACK_FILTERING": "quiet_remove_frames",
    }


def _outcome(directory: Path) -> dict[str, str]:
    try:
        outcome: dict[str, str] = json.loads((directory / OUTCOME).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    return outcome


def _failure(text: str, devices: int, directory: Path, errors: str) -> CounterpointError:
    outcome = _outcome(directory)
    if "what" in outcome:
        kind = UsageError if outcome["kind"] == "usage" else InputError
        return kind(
            f"{text}: {outcome['what']}",
            why=outcome.get("why") or None,
            next=outcome.get("next") or None,
        )
    uneven = _UNEVEN.search(errors)
    if uneven is not None:
        return InputError(
            f"{text}({devices}): {uneven['size']} does not divide by {uneven['parts']}",
            why=f"axis {uneven['axis']} of an array {uneven['shape']} is split over"
            f" {uneven['parts']} devices, and JAX requires even shards",
            next="use a number of devices that divides it (`target=`, `devices=`), or another mesh",
        )
    without_rule = _WITHOUT_RULE.search(errors)
    if without_rule is not None:
        return InputError(
            f"{text}({devices}): JAX has no {without_rule[1]} for {without_rule[2]}",
            why="its program would end with the same error on the target",
            next="leave it out of the step, or use operations that JAX has for that platform",
        )
    lines = [line for line in errors.splitlines() if line.strip()][-_LINES:]
    return InputError(
        f"{text}({devices}) failed",
        why="\n       ".join(lines) or "it printed nothing",
        next="call it in your own Python, with JAX_PLATFORMS=cpu",
    )
