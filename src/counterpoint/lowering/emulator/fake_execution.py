"""Replaces execution of functions that are too large to run here by zeros that take no memory.

All zeros are views of one mapping that is never written to. The kernel allocates pages only on
writing, so a model of a terabyte takes none; JAX on CPU uses such memory without a copy.

A result that is a single real number, as a loss, is not zero: a program may compare it, and end
when the loss is small enough or no longer falls. It is 1 + 1/n in the n-th call of its function,
and so falls, stays finite, and has a logarithm and a reciprocal. Integers are zero, since they
count and index, and so are booleans, and all that has more elements.

Smaller functions run, for programs read what they return. Those that create arrays of some size run
only while the process is small: a model whose parameters are created one by one would fill the
memory.

Functions that are not run are compiled only to learn how XLA shards their results. If the CPU
compiler can't compile one (too many devices, or GPU kernels), `UncompiledExecutable` provides the
shardings: Shardy's propagation is a pass over the module, the same that XLA runs.
"""

from __future__ import annotations

import itertools
import math
import mmap
from collections.abc import Callable
from importlib import import_module
from typing import Any

from . import jax_internals as inside
from .executions import Run, intercept_executions
from .function import LARGE_FLOPS, JaxObject, LoweredFunction

_BYTES = 1 << 28
_NOTABLE = 1 << 20
"""Bytes of results, from which on a function is not run by a process of many bytes."""
_FILLED = 2 << 30
"""Those many bytes, besides what it held when it imported JAX."""
_FALLING = 16
"""Calls of a function whose single numbers fall; later ones return the last again."""
_DEVICES = 64
"""Programs for more devices share few cores; those that wait for each other don't end."""
_NO_RESERVE = 0x4000  # MAP_NORESERVE of Linux: do not reserve memory


class FakeExecutions:
    """The executables that are not run, and the zeros that they return."""

    def __init__(
        self,
        called: Callable[[LoweredFunction, int], None],
        hands_zeros: Callable[[], None],
        before: Callable[[LoweredFunction, Any], None],
        heard: Callable[[LoweredFunction, Any, Any], None],
    ) -> None:
        self._called = called
        self._before = before
        self._heard = heard
        self._watched: dict[int, tuple[JaxObject, LoweredFunction]] = {}
        self._hands_zeros = hands_zeros
        self._executables: dict[int, _Execution] = {}
        self._zeros = Zeros()
        self._held_at_first = _held()

    @property
    def is_filled(self) -> bool:
        """True if this process holds so much memory that further arrays take none."""
        return _held() - self._held_at_first > _FILLED

    def take(
        self, executable: JaxObject, function: LoweredFunction, *, always: bool = False
    ) -> bool:
        """Fake this executable if it is too large to run; return whether it is."""
        large = always or _is_large(executable, function)
        if large or _memory(executable) > _NOTABLE:
            self._executables[id(executable)] = _Execution(executable, function, runs=not large)
        else:
            self._watched[id(executable)] = (executable, function)  # keeps its id unique
            if not function.is_own:  # of which there are many
                function.module = None
        return large

    def install(self) -> None:
        """Replace JAX's functions that execute, and that put data on devices."""
        intercept_executions(self._is_meant, self._execute)
        pxla: JaxObject = import_module(inside.PXLA)
        put = pxla.batched_device_put

        def batched_device_put(
            aval: JaxObject,
            sharding: JaxObject,
            xs: JaxObject,
            devices: JaxObject,
            committed: bool = True,
            **named: JaxObject,
        ) -> JaxObject:
            size = _bytes(aval) if _is_plain(aval) else 0
            if (len(xs) > 1 and size > _BYTES) or (size > _NOTABLE and self.is_filled):
                self._hands_zeros()
                return self._zeros.sharded(put, aval, sharding, committed)
            return put(aval, sharding, xs, devices, committed, **named)

        pxla.batched_device_put = batched_device_put
        self._zeros.put = put

    def _is_meant(self, executable: JaxObject) -> bool:
        return id(executable) in self._executables or id(executable) in self._watched

    def _execute(
        self, replicated: JaxObject, arguments: tuple[JaxObject, ...], run: Run
    ) -> JaxObject:
        """Run an executable, or return zeros, and let those who listen know."""
        execution = self.find(replicated.xla_executable)
        if execution is None:
            _, function = self._watched[id(replicated.xla_executable)]
        else:
            function = execution.function
        self._before(function, arguments)
        if execution is None or (execution.runs and not self.is_filled):
            results = run()
        else:
            results = self.call(execution, replicated)
        self._heard(function, arguments, results)
        return results

    @property
    def references(self) -> dict[int, int]:
        """How often each array is referred to here, to be handed out again."""
        counts: dict[int, int] = {}
        for execution in self._executables.values():
            for array in execution.results or ():
                counts[id(array)] = counts.get(id(array), 0) + 1
        return counts

    def find(self, executable: JaxObject) -> _Execution | None:
        """Return the execution that replaces it, if it is not run."""
        return self._executables.get(id(executable))

    def call(self, execution: _Execution, replicated: JaxObject) -> JaxObject:
        """Return zeros to the program instead of results."""
        execution.times += 1
        self._hands_zeros()
        self._called(execution.function, execution.times)
        handler = replicated.out_handler
        kept = execution.results
        if kept is None or any(map(_is_gone, kept)):
            kept = [None] * len(handler.handlers)
        execution.results = [
            self._zeros.array(aval, sharding, handle, execution.times)
            if array is None or (execution.times <= _FALLING and _is_number(aval, sharding))
            else array
            for array, aval, sharding, handle in zip(  # noqa: B905  Python 3.9 has no `strict`
                kept, handler.out_avals, handler.out_shardings, handler.handlers
            )
        ]
        out, changed = list(execution.results), replicated.mut
        if changed is None:
            return out
        return [array for at, array in zip(changed.out_mut, out) if at is None]  # noqa: B905


class _Execution:
    """A function that is not run, the number of its calls, and its results."""

    def __init__(
        self, executable: JaxObject, function: LoweredFunction, *, runs: bool = False
    ) -> None:
        self.runs = runs  # as long as there is memory
        self.executable = executable  # keeps its id unique
        self.function = function
        self.times = 0
        self.results: list[Any] | None = None


class Zeros:
    """Arrays of zeros on one mapping."""

    def __init__(self) -> None:
        self._memory: Any = None
        self.put: JaxObject = None

    def array(
        self, aval: JaxObject, sharding: JaxObject, handle: JaxObject, times: int
    ) -> JaxObject:
        """Return an array as `handle` builds it from the shards of all devices."""
        number = 1 + 1 / times if _is_number(aval, sharding) else None
        if len(sharding.device_set) > 1 and _is_plain(aval):
            return self.sharded(self.put, aval, sharding, number=number)
        core: JaxObject = import_module(inside.CORE)
        shardings: JaxObject = import_module(inside.SHARDINGS)
        shape = aval
        if not _is_plain(aval):  # random keys: an array of integers underneath
            shape = core.physical_aval(aval)
            sharding = shardings.physical_sharding(aval, sharding)
        local = self._shard(sharding.shard_shape(shape.shape), shape.dtype, number)
        part = core.ShapedArray(local.shape, shape.dtype)
        return handle(
            [
                self.put(part, shardings.SingleDeviceSharding(device), [local], [device])
                for device in sharding._device_assignment  # noqa: SLF001
            ]
        )

    def sharded(
        self,
        put: JaxObject,
        aval: JaxObject,
        sharding: JaxObject,
        committed: bool = True,
        number: float | None = None,
    ) -> JaxObject:
        """Return an array on several devices."""
        devices = sharding._device_assignment  # noqa: SLF001
        local = self._shard(sharding.shard_shape(aval.shape), aval.dtype, number)
        return put(aval, sharding, [local] * len(devices), devices, committed)

    def _shard(self, shape: tuple[int, ...], dtype: JaxObject, number: float | None) -> JaxObject:
        np: JaxObject = import_module("numpy")
        if number is not None:
            return np.full(shape, number, dtype)
        size = math.prod(shape) * dtype.itemsize
        if self._memory is None or len(self._memory) < size:
            flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE
            self._memory = np.frombuffer(mmap.mmap(-1, max(size, 1 << 30), flags), dtype=np.uint8)
        return self._memory[:size].view(dtype).reshape(shape)


def _held() -> int:
    """Return the bytes of memory that this process holds."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123  in a hot path
            return int(file.read().split()[1]) * mmap.PAGESIZE
    except OSError:  # no /proc
        return 0


def _is_large(executable: JaxObject, function: LoweredFunction) -> bool:
    devices = len(executable.local_devices())
    if function.flops > LARGE_FLOPS or devices > _DEVICES or function.is_for_gpu:
        return True
    if not function.is_own and devices == 1 and function.size < 1 << 12:
        return _memory(executable) > _BYTES
    return _memory(executable) * devices > _BYTES


def _memory(executable: JaxObject) -> int:
    """Return the bytes that it takes on a device to run."""
    try:
        stats = executable.get_compiled_memory_stats()
    except (
        RuntimeError,
        NotImplementedError,
        AttributeError,
    ):  # not available
        return _BYTES + 1
    return int(stats.argument_size_in_bytes + stats.output_size_in_bytes + stats.temp_size_in_bytes)


def _is_plain(aval: JaxObject) -> bool:
    return hasattr(aval.dtype, "itemsize") and not hasattr(aval.dtype, "_rules")


def _is_number(aval: JaxObject, sharding: JaxObject) -> bool:
    """Return whether a device gets a single real number, as a loss."""
    if not _is_plain(aval) or math.prod(sharding.shard_shape(aval.shape)) != 1:
        return False
    numpy: JaxObject = import_module("jax.numpy")
    return bool(numpy.issubdtype(aval.dtype, numpy.floating))


def _bytes(aval: JaxObject) -> int:
    return math.prod(aval.shape) * int(aval.dtype.itemsize)


def _is_gone(array: JaxObject) -> bool:
    deleted = getattr(array, "is_deleted", None)
    return bool(deleted()) if deleted else False


_PIPELINE = "builtin.module(sdy-propagation-pipeline)"


class UncompiledExecutable:
    """Provides what JAX reads from an executable before it runs it. It is never run."""

    def __init__(self, module: JaxObject, devices: JaxObject) -> None:
        self._devices = list(devices.flatten())
        self._inputs, self._outputs = _propagated(module, devices.flatten())

    def local_devices(self) -> JaxObject:
        return self._devices

    def get_parameter_shardings(self) -> JaxObject:
        return self._inputs

    def get_output_shardings(self) -> JaxObject:
        return self._outputs

    def get_output_memory_kinds(self) -> JaxObject:
        raise NotImplementedError  # like a PJRT executable without this information: JAX continues

    get_parameter_layouts = get_output_layouts = get_output_memory_kinds
    get_compiled_memory_stats = get_output_memory_kinds


def _propagated(module: JaxObject, devices: JaxObject) -> tuple[list[JaxObject], list[JaxObject]]:
    """Return the shardings of the inputs and the outputs of a module."""
    ir: JaxObject = import_module(inside.IR)
    passes: JaxObject = import_module(inside.PASSES)
    with module.context:
        copy = ir.Module.parse(module.operation.get_asm(enable_debug_info=False))
        passes.PassManager.parse(_PIPELINE).run(copy.operation)
        symbols = ir.SymbolTable(copy.operation)
        function = symbols["main"]
        convert = _ShardingConverter(symbols, devices)
        kind = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
        return (
            convert.all(function, "arg_attrs", len(kind.inputs)),
            convert.all(function, "res_attrs", len(kind.results)),
        )


class _ShardingConverter:
    """Converts shardings of Shardy to those of an executable."""

    def __init__(self, symbols: JaxObject, devices: JaxObject) -> None:
        self._symbols = symbols
        self._devices = devices
        self._sdy: JaxObject = import_module(inside.SHARDY)
        self._sharding: JaxObject = import_module("jax.sharding")

    def all(self, function: JaxObject, which: str, count: int) -> list[JaxObject]:
        if which not in function.attributes:
            return [self._proto(None) for _ in range(count)]
        return [
            self._proto(about["sdy.sharding"] if "sdy.sharding" in about else None)  # noqa: SIM401
            for about in function.attributes[which]
        ]

    def _proto(self, attribute: JaxObject) -> JaxObject:
        place = self._sharding
        if attribute is None:
            mesh = place.Mesh(self._devices, ("all",))
            return _proto(place.NamedSharding(mesh, place.PartitionSpec()), 0)
        sharding = self._sdy.TensorShardingAttr(attribute)
        dimensions = [self._axes(each) for each in sharding.dimension_shardings]
        named = place.NamedSharding(self._mesh(sharding), place.PartitionSpec(*dimensions))
        return _proto(named, len(dimensions))

    def _axes(self, dimension: JaxObject) -> tuple[str, ...]:
        axes = [
            self._sdy.AxisRefAttr(axis) for axis in self._sdy.DimensionShardingAttr(dimension).axes
        ]
        whole = itertools.takewhile(lambda axis: axis.sub_axis_info is None, axes)
        return tuple(axis.name for axis in whole)  # as XLA does since 0.10

    def _mesh(self, sharding: JaxObject) -> JaxObject:
        name = str(sharding.mesh_or_ref).lstrip("@").strip('"')
        mesh = self._sdy.MeshAttr(self._symbols[name].attributes["mesh"])
        if list(mesh.device_ids):
            # JAX would number the devices in the mesh's order, and report another sharding.
            raise ValueError("devices in an order of their own")
        axes = [self._sdy.MeshAxisAttr(axis) for axis in mesh.axes]
        if not axes:
            return self._sharding.Mesh(self._devices, ("all",))
        sizes = [axis.size for axis in axes]
        return self._sharding.Mesh(self._devices.reshape(sizes), [axis.name for axis in axes])


def _proto(sharding: JaxObject, rank: int) -> JaxObject:
    return sharding._to_xla_hlo_sharding(rank).to_proto()  # noqa: SLF001
