"""Stands for an executable that a CPU can't have: too many devices, or GPU kernels.

Functions that are not run are compiled only to learn how XLA shards their results. Shardy provides
that without a compile: its propagation is a pass over the module, the same that XLA runs.
"""

from __future__ import annotations

import itertools
from importlib import import_module

from . import jax_internals as inside
from .function import JaxObject

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
        read = _Reader(symbols, devices)
        kind = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
        return (
            read.all(function, "arg_attrs", len(kind.inputs)),
            read.all(function, "res_attrs", len(kind.results)),
        )


class _Reader:
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
