"""Replaces execution of functions that are too large to run here by zeros that take no memory.

All zeros are views of one mapping that is never written to. The kernel allocates pages only on
writing, so a model of a terabyte takes none; JAX on CPU uses such memory without a copy.
"""

from __future__ import annotations

import math
import mmap
from collections.abc import Callable
from importlib import import_module
from typing import Any

from . import jax_internals as inside
from .function import JaxObject, LoweredFunction

_BYTES = 1 << 28
_FLOPS = 1e10
_DEVICES = 64
"""Programs for more devices share few cores; those that wait for each other don't end."""
_NO_RESERVE = 0x4000  # MAP_NORESERVE of Linux: do not reserve memory


class FakeExecutions:
    """The executables that are not run, and the zeros that they return."""

    def __init__(
        self, called: Callable[[LoweredFunction, int], None], hands_zeros: Callable[[], None]
    ) -> None:
        self._called = called
        self._hands_zeros = hands_zeros
        self._executables: dict[int, _Execution] = {}
        self._zeros = Zeros()

    def take(
        self, executable: JaxObject, function: LoweredFunction, *, always: bool = False
    ) -> bool:
        """Fake this executable if it is too large to run; return whether it is."""
        large = always or _is_large(executable, function)
        if large:
            self._executables[id(executable)] = _Execution(executable, function)
        return large

    def install(self) -> None:
        """Replace JAX's functions that execute, and that put data on devices."""
        pxla: JaxObject = import_module(inside.PXLA)
        execute = pxla.ExecuteReplicated
        make, call = execute.__init__, execute.__call__

        def __init__(self: JaxObject, *args: JaxObject, **named: JaxObject) -> None:  # noqa: N807
            make(self, *args, **named)
            if fakes.find(self.xla_executable):
                self.has_unordered_effects = True  # else JAX runs it next time without asking

        def __call__(self: JaxObject, *args: JaxObject) -> JaxObject:  # noqa: N807
            execution = fakes.find(self.xla_executable)
            return call(self, *args) if execution is None else fakes.call(execution, self)

        fakes = self
        execute.__init__, execute.__call__ = __init__, __call__
        put = pxla.batched_device_put

        def batched_device_put(
            aval: JaxObject,
            sharding: JaxObject,
            xs: JaxObject,
            devices: JaxObject,
            committed: bool = True,
            **named: JaxObject,
        ) -> JaxObject:
            if len(xs) > 1 and _is_plain(aval) and _bytes(aval) > _BYTES:
                self._hands_zeros()
                return self._zeros.sharded(put, aval, sharding)
            return put(aval, sharding, xs, devices, committed, **named)

        pxla.batched_device_put = batched_device_put
        self._zeros.put = put

    def find(self, executable: JaxObject) -> _Execution | None:
        """Return the execution that replaces it, if it is not run."""
        return self._executables.get(id(executable))

    def call(self, execution: _Execution, replicated: JaxObject) -> JaxObject:
        """Return zeros to the program instead of results."""
        execution.times += 1
        self._hands_zeros()
        self._called(execution.function, execution.times)
        if execution.results is None or any(map(_is_gone, execution.results)):
            handler = replicated.out_handler
            execution.results = [
                self._zeros.array(aval, sharding, handle)
                for aval, sharding, handle in zip(  # noqa: B905  Python 3.9 has no `strict`
                    handler.out_avals, handler.out_shardings, handler.handlers
                )
            ]
        out, changed = list(execution.results), replicated.mut
        if changed is None:
            return out
        return [array for at, array in zip(changed.out_mut, out) if at is None]  # noqa: B905


class _Execution:
    """A function that is not run, the number of its calls, and its results."""

    def __init__(self, executable: JaxObject, function: LoweredFunction) -> None:
        self.executable = executable  # keeps its id unique
        self.function = function
        self.times = 0
        self.results: list[Any] | None = None


class Zeros:
    """Arrays of zeros on one mapping."""

    def __init__(self) -> None:
        self._memory: Any = None
        self.put: JaxObject = None

    def array(self, aval: JaxObject, sharding: JaxObject, handle: JaxObject) -> JaxObject:
        """Return an array as `handle` builds it from the shards of all devices."""
        if len(sharding.device_set) > 1 and _is_plain(aval):
            return self.sharded(self.put, aval, sharding)
        core: JaxObject = import_module(inside.CORE)
        shardings: JaxObject = import_module(inside.SHARDINGS)
        shape = aval
        if not _is_plain(aval):  # random keys: an array of integers underneath
            shape = core.physical_aval(aval)
            sharding = shardings.physical_sharding(aval, sharding)
        local = self._view(sharding.shard_shape(shape.shape), shape.dtype)
        part = core.ShapedArray(local.shape, shape.dtype)
        return handle(
            [
                self.put(part, shardings.SingleDeviceSharding(device), [local], [device])
                for device in sharding._device_assignment  # noqa: SLF001
            ]
        )

    def sharded(self, put: JaxObject, aval: JaxObject, sharding: JaxObject) -> JaxObject:
        """Return an array on several devices."""
        devices = sharding._device_assignment  # noqa: SLF001
        local = self._view(sharding.shard_shape(aval.shape), aval.dtype)
        return put(aval, sharding, [local] * len(devices), devices, True)

    def _view(self, shape: tuple[int, ...], dtype: JaxObject) -> JaxObject:
        np: JaxObject = import_module("numpy")
        size = math.prod(shape) * dtype.itemsize
        if self._memory is None or len(self._memory) < size:
            flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE
            self._memory = np.frombuffer(mmap.mmap(-1, max(size, 1 << 30), flags), dtype=np.uint8)
        return self._memory[:size].view(dtype).reshape(shape)


def _is_large(executable: JaxObject, function: LoweredFunction) -> bool:
    devices = len(executable.local_devices())
    if function.flops > _FLOPS or devices > _DEVICES or function.is_for_gpu:
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


def _bytes(aval: JaxObject) -> int:
    return math.prod(aval.shape) * int(aval.dtype.itemsize)


def _is_gone(array: JaxObject) -> bool:
    deleted = getattr(array, "is_deleted", None)
    return bool(deleted()) if deleted else False
