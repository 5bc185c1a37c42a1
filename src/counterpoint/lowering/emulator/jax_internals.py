"""The list of JAX internals that the emulator uses, for every supported release.

`REPLACED` are functions that the emulator replaces, `USED` are functions that it calls and
attributes that it reads. No other file of this package names a private module of JAX. A test
resolves the whole list in each release it runs with. In a program, `missing_internals` is called
before anything is hooked: a release that has moved one of them ends the program with a clear error
instead of letting it train.
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
CUSTOM = "jax._src.custom_partitioning"
CLIENT = "jaxlib.xla_client"
MLIR = "jax._src.interpreters.mlir"
MESHES = "jax._src.mesh_utils"
JAXLIB = "jaxlib._jax"
IR = "jaxlib.mlir.ir"
PASSES = "jaxlib.mlir.passmanager"
SHARDY = "jaxlib.mlir.dialects.sdy"

FOR_GPUS = (MESHES, "jax._src.pallas.", "jax._src.cudnn.")
"""Modules of JAX that choose for GPUs by what a device says of itself."""

SUPPORTED = ((0, 8), (0, 12))
"""The first and the last release that the list was tested with."""


class JaxInternal(NamedTuple):
    """One function, class or attribute of JAX that the emulator depends on."""

    home: str
    name: str  # dotted for a member of a class
    takes: tuple[str, ...] = ()  # parameters that are passed to it, or read from a call
    has: tuple[str, ...] = ()  # attributes of its instances
    first: tuple[int, int] = SUPPORTED[0]
    last: tuple[int, int] = (99, 0)  # until a release without it is known

    @property
    def path(self) -> str:
        """The dotted path, for messages."""
        return f"{self.home}.{self.name}"


REPLACED = (
    # Lowering, and lowering again for CUDA.
    JaxInternal(PXLA, "lower_sharding_computation", takes=("closed_jaxpr", "lowering_platforms")),
    # Compiling; devices are the third argument.
    JaxInternal(COMPILER, "compile_or_get_cached", takes=("backend", "computation", "devices")),
    # Execution: `fake_execution` returns zeros instead.
    JaxInternal(
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
    # Putting data on devices.
    JaxInternal(
        PXLA,
        "batched_device_put",
        takes=("aval", "sharding", "xs", "devices", "committed"),
    ),
    # The available devices.
    JaxInternal(BRIDGE, "backends"),
    JaxInternal(BRIDGE, "get_backend"),
    JaxInternal(BRIDGE, "_get_backend_uncached", takes=("platform",)),
    # What devices and their client say of themselves; attributes are properties.
    JaxInternal(JAXLIB, "Device", has=("platform", "device_kind", "process_index", "memory_stats")),
    JaxInternal(JAXLIB, "Client", has=("platform", "platform_version")),
    # cuDNN attention on a machine without cuDNN.
    JaxInternal(CUDNN, "check_cudnn_version"),
    JaxInternal(CUDNN, "check_compute_capability", takes=("capability",)),
    JaxInternal(CUDNN, "is_cuda_compute_capability_equal", takes=("capability",)),
    # Calls into Python, and costs of Pallas kernels.
    JaxInternal(MLIR, "ModuleContext", has=("get_backend", "backend")),
    JaxInternal(MLIR, "lower_per_platform"),
)

USED = (
    JaxInternal(PXLA, "ResultsHandler", has=("handlers", "out_shardings", "out_avals")),
    JaxInternal(PXLA, "MutationData", has=("out_mut",)),
    JaxInternal(PXLA, "MeshComputation", has=("stablehlo",)),
    JaxInternal(CORE, "ShapedArray", takes=("shape", "dtype")),
    JaxInternal(CORE, "physical_aval", takes=("aval",)),
    JaxInternal(CORE, "DebugInfo", has=("func_src_info",)),
    JaxInternal(SHARDINGS, "SingleDeviceSharding"),
    JaxInternal(SHARDINGS, "physical_sharding", takes=("aval", "sharding")),
    JaxInternal(
        SHARDING,
        "Sharding",
        has=("_device_assignment", "_to_xla_hlo_sharding", "shard_shape", "device_set"),
    ),
    JaxInternal(TRACEBACKS, "register_exclusion", takes=("path",)),
    JaxInternal(PMAP, "pmap", first=(0, 10)),  # the closure of `infer_params` has what it wraps
    # What a custom_partitioning computes on a device.
    JaxInternal(CUSTOM, "_CUSTOM_PARTITIONING_CALL_NAME"),
    JaxInternal(CUSTOM, "_sharding_callbacks"),
    JaxInternal(CUSTOM, "_custom_partitioning_partition"),
    JaxInternal(MLIR, "_dtype_to_ir_type"),
    JaxInternal(CLIENT, "HloSharding", has=("tuple_sharding", "tuple_elements")),
    JaxInternal(CLIENT, "Shape", has=("array_shape", "tuple_shape")),
    JaxInternal(IR, "Module", has=("parse", "operation", "context")),
    JaxInternal(IR, "SymbolTable"),
    JaxInternal(IR, "Attribute", has=("parse",)),
    JaxInternal(IR, "DictAttr", has=("get",)),
    JaxInternal(IR, "IntegerAttr", has=("get",)),
    JaxInternal(IR, "Block"),
    JaxInternal(IR, "FlatSymbolRefAttr", has=("get",)),
    JaxInternal(IR, "InsertionPoint"),
    JaxInternal(IR, "IntegerType", has=("get_signless",)),
    JaxInternal(IR, "OpResult", has=("result_number",)),
    JaxInternal(IR, "Operation", has=("create", "clone", "erase")),
    JaxInternal(IR, "RankedTensorType", has=("shape", "element_type")),
    JaxInternal(IR, "StringAttr", has=("get",)),
    JaxInternal(IR, "Type", has=("parse",)),
    JaxInternal(IR, "FunctionType", has=("inputs", "results")),
    JaxInternal(IR, "TypeAttr", has=("value",)),
    JaxInternal(PASSES, "PassManager", has=("parse", "run")),
    JaxInternal(SHARDY, "TensorShardingAttr", has=("dimension_shardings", "mesh_or_ref")),
    JaxInternal(SHARDY, "TensorShardingPerValueAttr", has=("shardings",)),
    JaxInternal(SHARDY, "DimensionShardingAttr", has=("axes",)),
    JaxInternal(SHARDY, "AxisRefAttr", has=("name", "sub_axis_info")),
    JaxInternal(SHARDY, "MeshAttr", has=("axes", "device_ids")),
    JaxInternal(SHARDY, "MeshAxisAttr", has=("name", "size")),
)

OPTIONS = (
    ("jax_platforms", "cpu"),
    ("jax_platform_name", ""),
    ("jax_num_cpu_devices", None),  # as many as the target has
    ("jax_enable_compilation_cache", False),
    ("jax_enable_pgle", False),
    ("jax_cpu_enable_async_dispatch", False),
)
"""Options of `jax.config` that are set whatever the program sets."""

PUBLIC = ("default_backend", "distributed.initialize", "distributed.is_initialized")
"""Public functions of `jax` that are replaced, besides `distributed.shutdown`."""


def missing_internals(version: str) -> list[str]:
    """Return what this release of JAX lacks or has changed."""
    release = _release(version)
    return [
        problem
        for touched in (*REPLACED, *USED)
        if touched.first <= release <= touched.last
        for problem in _problems(touched)
    ]


def _release(version: str) -> tuple[int, int]:
    major, minor = [*version.split("."), "0"][:2]
    return int(major), int(minor)


def _problems(internal: JaxInternal) -> list[str]:
    try:
        value: Any = import_module(internal.home)
        for part in internal.name.split("."):
            value = getattr(value, part)
    except (ImportError, AttributeError):
        return [internal.path]
    lost = [f"{internal.path}({name})" for name in internal.takes if not _takes(value, name)]
    return lost + [f"{internal.path}.{name}" for name in internal.has if not _has(value, name)]


def _takes(function: Any, name: str) -> bool:  # noqa: ANN401
    try:
        parameters = signature(function).parameters
    except (TypeError, ValueError):  # a C++ function
        return True
    kinds = {parameter.kind for parameter in parameters.values()}
    return name in parameters or Parameter.VAR_KEYWORD in kinds


def _has(kind: Any, name: str) -> bool:  # noqa: ANN401
    return hasattr(kind, name) or name in getattr(kind, "__annotations__", {})
