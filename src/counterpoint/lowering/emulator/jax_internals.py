"""All that the emulator touches of JAX's insides: one list, for every release that is supported.

`REPLACED` are functions that the emulator puts its own in the place of, `USED` are functions that
it calls and attributes that it reads. No other file of this package names a module of JAX that is
not public. A test resolves the whole list in each release it runs with. In a program, `missing` is
called before anything is hooked: a release that has moved one of them ends the program with a clear
error instead of letting it train.
"""

from __future__ import annotations

from importlib import import_module
from inspect import Parameter, signature
from typing import Any, NamedTuple

PXLA = "jax._src.interpreters.pxla"
COMPILER = "jax._src.compiler"
BRIDGE = "jax._src.xla_bridge"
CORE = "jax._src.core"
SHARDINGS = "jax._src.sharding_impls"
SHARDING = "jax._src.sharding"
TRACEBACKS = "jax._src.traceback_util"
CUDNN = "jax._src.cudnn.fused_attention_stablehlo"
PMAP = "jax._src.pmap"
IR = "jaxlib.mlir.ir"
PASSES = "jaxlib.mlir.passmanager"
SHARDY = "jaxlib.mlir.dialects.sdy"

SUPPORTED = ((0, 8), (0, 12))
"""The first and the last release that the list was held against."""


class Touched(NamedTuple):
    """One function, class or attribute of JAX that the emulator depends on."""

    home: str
    name: str  # dotted where it is of a class
    takes: tuple[str, ...] = ()  # parameters that it is called with, or that are read of a call
    has: tuple[str, ...] = ()  # attributes of its instances
    first: tuple[int, int] = SUPPORTED[0]
    last: tuple[int, int] = (99, 0)  # until a release is known that has it no more

    @property
    def path(self) -> str:
        """The dotted path, for words."""
        return f"{self.home}.{self.name}"


REPLACED = (
    # What is lowered, and how to lower it again for CUDA.
    Touched(PXLA, "lower_sharding_computation", takes=("closed_jaxpr", "lowering_platforms")),
    # What is compiled; devices stand third.
    Touched(COMPILER, "compile_or_get_cached", takes=("backend", "computation", "devices")),
    # What is executed: `fake_execution` hands zeros back in its place.
    Touched(
        PXLA,
        "ExecuteReplicated",
        has=(
            "__init__",
            "__call__",
            "xla_executable",
            "out_handler",
            "mut",
            "has_unordered_effects",
        ),
    ),
    # What is put on devices.
    Touched(
        PXLA,
        "batched_device_put",
        takes=("aval", "sharding", "xs", "devices", "committed"),
    ),
    # Which devices there are.
    Touched(BRIDGE, "backends"),
    Touched(BRIDGE, "_get_backend_uncached", takes=("platform",)),
    # Attention of cuDNN on a machine without.
    Touched(CUDNN, "check_cudnn_version"),
    Touched(CUDNN, "check_compute_capability", takes=("capability",)),
    Touched(CUDNN, "is_cuda_compute_capability_equal", takes=("capability",)),
)

USED = (
    Touched(PXLA, "ResultsHandler", has=("handlers", "out_shardings", "out_avals")),
    Touched(PXLA, "MutationData", has=("out_mut",)),
    Touched(PXLA, "MeshComputation", has=("stablehlo",)),
    Touched(CORE, "ShapedArray", takes=("shape", "dtype")),
    Touched(CORE, "physical_aval", takes=("aval",)),
    Touched(CORE, "DebugInfo", has=("func_src_info",)),
    Touched(SHARDINGS, "SingleDeviceSharding"),
    Touched(SHARDINGS, "physical_sharding", takes=("aval", "sharding")),
    Touched(
        SHARDING,
        "Sharding",
        has=("_device_assignment", "_to_xla_hlo_sharding", "shard_shape", "device_set"),
    ),
    Touched(TRACEBACKS, "register_exclusion", takes=("path",)),
    Touched(PMAP, "pmap", first=(0, 10)),  # the closure of its `infer_params` has what it wraps
    Touched(IR, "Module", has=("parse", "operation", "context")),
    Touched(IR, "SymbolTable"),
    Touched(IR, "FunctionType", has=("inputs", "results")),
    Touched(IR, "TypeAttr", has=("value",)),
    Touched(PASSES, "PassManager", has=("parse", "run")),
    Touched(SHARDY, "TensorShardingAttr", has=("dimension_shardings", "mesh_or_ref")),
    Touched(SHARDY, "DimensionShardingAttr", has=("axes",)),
    Touched(SHARDY, "AxisRefAttr", has=("name", "sub_axis_info")),
    Touched(SHARDY, "MeshAttr", has=("axes", "device_ids")),
    Touched(SHARDY, "MeshAxisAttr", has=("name", "size")),
)

OPTIONS = (
    ("jax_platforms", "cpu"),
    ("jax_platform_name", ""),
    ("jax_num_cpu_devices", None),  # as many as the target has
    ("jax_enable_compilation_cache", False),
    ("jax_enable_pgle", False),
    ("jax_cpu_enable_async_dispatch", False),
)
"""Options of `jax.config` that are set whatever the program says."""

PUBLIC = ("default_backend", "distributed.initialize", "distributed.is_initialized")
"""Public functions of `jax` that are replaced, beside `distributed.shutdown`."""


def missing(version: str) -> list[str]:
    """What this release of JAX does not have as it is expected."""
    release = _release(version)
    return [
        problem
        for one in (*REPLACED, *USED)
        if one.first <= release <= one.last
        for problem in _problems(one)
    ]


def _release(version: str) -> tuple[int, int]:
    major, minor = [*version.split("."), "0"][:2]
    return int(major), int(minor)


def _problems(one: Touched) -> list[str]:
    try:
        found: Any = import_module(one.home)
        for part in one.name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError):
        return [one.path]
    lost = [f"{one.path}({name})" for name in one.takes if not _takes(found, name)]
    return lost + [f"{one.path}.{name}" for name in one.has if not _has(found, name)]


def _takes(function: Any, name: str) -> bool:  # noqa: ANN401
    try:
        parameters = signature(function).parameters
    except (TypeError, ValueError):  # of C++
        return True
    kinds = {one.kind for one in parameters.values()}
    return name in parameters or Parameter.VAR_KEYWORD in kinds


def _has(kind: Any, name: str) -> bool:  # noqa: ANN401
    return hasattr(kind, name) or name in getattr(kind, "__annotations__", {})
