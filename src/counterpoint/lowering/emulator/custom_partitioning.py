"""Replaces each `custom_partitioning` of a module by what its Python code makes of it.

JAX lowers one to a custom call that holds a pointer: XLA's partitioner calls Python to learn what a
device computes. A file cannot hold that, so the partitioner's question is asked here: Shardy
propagates the shardings, as it does in the compiler; JAX's own callback turns the shardings of the
operands into a computation for one device; and the call becomes a manual computation with it, as
`shard_map` would have made. Kernels of cuDNN and of Transformer Engine are such calls.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from typing import Any

from . import jax_internals as inside
from .function import JaxObject
from .inlining import copy_operations, inline_calls

_PIPELINE = "builtin.module(sdy-propagation-pipeline)"
_MANUAL = "sdy.manual_computation"
_CUSTOM = "stablehlo.custom_call"
_OF_ALL = ("sdy.sharding", "out_shardings")
_OF_ONE = ("sharding", "out_sharding")
"""Attributes with the shardings of an operation's results: of StableHLO and of Shardy."""


class CannotReplace(Exception):
    """The reason why a custom_partitioning has to stay."""


def replace_custom_partitioning(module: JaxObject) -> None:
    """Replace all of them in a module, which is changed."""
    with module.context:
        calls = _calls(module)
        if not calls:
            return
        shardings = _propagated_shardings(module)
        for call in calls:
            key = _key(call)
            if key not in shardings:
                raise CannotReplace("a custom_partitioning is not reached by Shardy's propagation")
            _replace(module, call, shardings[key])
        module.operation.verify()


def _calls(module: JaxObject) -> list[JaxObject]:
    home: JaxObject = import_module(inside.CUSTOM)
    name: str = home._CUSTOM_PARTITIONING_CALL_NAME  # noqa: SLF001
    return [op for op in _within(module.operation) if _target(op) == name]


def _within(op: JaxObject) -> Iterator[JaxObject]:
    """Yield all operations of its regions, at any depth."""
    for region in op.regions:
        for block in region.blocks:
            for each in list(block.operations):
                yield each.operation
                yield from _within(each.operation)


def _target(op: JaxObject) -> str:
    if op.name != _CUSTOM:
        return ""
    return str(op.attributes["call_target_name"].value)


def _key(call: JaxObject) -> str:
    return str(call.attributes["backend_config"].value)


class _Shardings:
    """The shardings of the operands and results of a call: text of Shardy's attributes."""

    def __init__(self, operands: list[str | None], results: list[str | None]) -> None:
        self.operands = operands
        self.results = results

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Shardings) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]


def _propagated_shardings(module: JaxObject) -> dict[str, _Shardings]:
    """Return the shardings of each call after propagation, by its key."""
    ir: JaxObject = import_module(inside.IR)
    passes: JaxObject = import_module(inside.PASSES)
    copy = ir.Module.parse(module.operation.get_asm(enable_debug_info=False))
    inline_calls(copy)
    for call in _calls(copy):
        if any(parent.name == _MANUAL for parent in _parents(call)):
            raise CannotReplace("a custom_partitioning is within a shard_map of other axes")
        for at, operand in enumerate(list(call.operands)):
            if isinstance(operand.owner, ir.Block):
                call.operands[at] = _passed_on(call, operand)
    passes.PassManager.parse(_PIPELINE).run(copy.operation)
    shardings: dict[str, _Shardings] = {}
    for call in _calls(copy):
        operands = [
            _of_result(operand.owner, ir.OpResult(operand).result_number)
            for operand in call.operands
        ]
        own = _Shardings(operands, [_of_result(call, at) for at in range(len(call.results))])
        if shardings.setdefault(_key(call), own) != own:
            raise CannotReplace("a custom_partitioning is used with different shardings")
    return shardings


def _passed_on(call: JaxObject, argument: JaxObject) -> JaxObject:
    """Return the same value as the result of an operation, which can hold its sharding."""
    ir: JaxObject = import_module(inside.IR)
    bits = ir.IntegerType.get_signless(1)
    is_bool = ir.RankedTensorType(argument.type).element_type == bits
    passed = ir.Operation.create(
        "stablehlo.not" if is_bool else "stablehlo.negate",
        results=[argument.type],
        operands=[argument],
        loc=call.location,
        ip=ir.InsertionPoint(call),
    )
    return passed.results[0]


def _parents(op: JaxObject) -> list[JaxObject]:
    parents: list[JaxObject] = []
    while op.parent is not None:
        op = op.parent.operation
        parents.append(op)
    return parents


def _of_result(op: JaxObject, at: int) -> str | None:
    """Return the sharding of one result, as text: `<@mesh, [{"x"}, {}]>`."""
    op = op.operation
    sdy: JaxObject = import_module(inside.SHARDY)
    for name in _OF_ALL:
        if name in op.attributes:
            return str(sdy.TensorShardingPerValueAttr(op.attributes[name]).shardings[at])
    for name in _OF_ONE:
        if name in op.attributes:
            return str(op.attributes[name])
    if op.name.startswith("sdy.") and op.name != "sdy.constant":
        raise CannotReplace(f"a custom_partitioning takes the result of {op.name}")
    return None


def _replace(module: JaxObject, call: JaxObject, shardings: _Shardings) -> None:
    home: JaxObject = import_module(inside.CUSTOM)
    info = home._sharding_callbacks[_key(call).encode()]  # noqa: SLF001
    if info.mesh.empty:
        raise CannotReplace("a custom_partitioning knows no mesh")
    types = [[value.type for value in values] for values in (call.operands, call.results)]
    given = [
        [_hlo_sharding(info.mesh, each, len(kind.shape)) for each, kind in zip(of, kinds)]  # noqa: B905
        for of, kinds in zip((shardings.operands, shardings.results), map(_shaped, types))  # noqa: B905
    ]
    shapes = [[_xla_shape(kind) for kind in _shaped(kinds)] for kinds in types]
    client: JaxObject = import_module(inside.CLIENT)
    as_one, result = shapes[1][0], given[1][0]
    if len(shapes[1]) > 1:
        as_one = client.Shape.tuple_shape(shapes[1])
        result = client.HloSharding.tuple_sharding(as_one, given[1])
    text, wanted, made = home._custom_partitioning_partition(  # noqa: SLF001
        shapes[0], given[0], as_one, result, _key(call).encode()
    )
    results = made.tuple_elements() if len(shapes[1]) > 1 else [made]
    mesh = _mesh_name(module, info.mesh)
    local, body = _computation(text)
    own = [_texts(mesh, info, wanted, types[0]), _texts(mesh, info, results, types[1])]
    _insert(call, body, own, info.mesh.axis_names)
    del local  # it owns the body


def _shaped(types: list[JaxObject]) -> list[JaxObject]:
    ir: JaxObject = import_module(inside.IR)
    return [ir.RankedTensorType(kind) for kind in types]


def _xla_shape(kind: JaxObject) -> JaxObject:
    np: JaxObject = import_module("numpy")
    ir: JaxObject = import_module(inside.IR)
    mlir: JaxObject = import_module(inside.MLIR)
    client: JaxObject = import_module(inside.CLIENT)
    for dtype, make in mlir._dtype_to_ir_type.items():  # noqa: SLF001
        if ir.Type.parse(str(kind.element_type)) == make():
            return client.Shape.array_shape(np.dtype(dtype), tuple(kind.shape))
    raise CannotReplace(f"a custom_partitioning takes or returns {kind.element_type}")


def _hlo_sharding(mesh: JaxObject, text: str | None, rank: int) -> JaxObject:
    place: JaxObject = import_module("jax.sharding")
    axes: list[tuple[str, ...]] = [()] * rank
    if text is not None:
        ir: JaxObject = import_module(inside.IR)
        sdy: JaxObject = import_module(inside.SHARDY)
        sharding = sdy.TensorShardingAttr(ir.Attribute.parse(text))
        axes = [_axes(sdy, dimension) for dimension in sharding.dimension_shardings]
    named = place.NamedSharding(mesh, place.PartitionSpec(*axes))
    return named._to_xla_hlo_sharding(rank)  # noqa: SLF001


def _axes(sdy: JaxObject, dimension: JaxObject) -> tuple[str, ...]:
    axes = [sdy.AxisRefAttr(axis) for axis in sdy.DimensionShardingAttr(dimension).axes]
    if any(axis.sub_axis_info is not None for axis in axes):
        raise CannotReplace("a custom_partitioning is sharded over part of an axis")
    return tuple(axis.name for axis in axes)


def _mesh_name(module: JaxObject, mesh: JaxObject) -> str:
    """Return the symbol of a mesh with these axes."""
    sdy: JaxObject = import_module(inside.SHARDY)
    wanted = list(mesh.shape.items())
    for op in module.body.operations:
        if op.operation.name == "sdy.mesh":
            axes = map(sdy.MeshAxisAttr, sdy.MeshAttr(op.attributes["mesh"]).axes)
            if [(axis.name, axis.size) for axis in axes] == wanted:
                return str(op.attributes["sym_name"].value)
    raise CannotReplace("a custom_partitioning has a mesh that the module lacks")


def _texts(mesh: str, info: JaxObject, hlo: list[JaxObject], types: list[JaxObject]) -> list[str]:
    shardings: list[str] = []
    for each, kind in zip(hlo, _shaped(types)):  # noqa: B905
        spec = info.to_mesh_pspec_sharding(each, len(kind.shape)).spec
        dimensions = [_braces(entry) for entry in spec]
        shardings.append(f"<@{mesh}, [{', '.join(dimensions)}]>")
    return shardings


def _per_value(shardings: list[str]) -> Any:  # noqa: ANN401
    ir: JaxObject = import_module(inside.IR)
    return ir.Attribute.parse(f"#sdy.sharding_per_value<[{', '.join(shardings)}]>")


def _braces(entry: JaxObject) -> str:
    names = () if entry is None else (entry,) if isinstance(entry, str) else entry
    return "{" + ", ".join(f'"{name}"' for name in names) + "}"


def _computation(text: JaxObject) -> JaxObject:
    """Return the body of a device's computation: its main function's, with all calls inlined."""
    ir: JaxObject = import_module(inside.IR)
    local = ir.Module.parse(text)
    inline_calls(local)
    for op in local.body.operations:
        if op.operation.name == "func.func" and op.attributes["sym_name"].value == "main":
            return local, op.operation.regions[0].blocks[0]
    raise CannotReplace("a custom_partitioning has no computation for a device")


def _insert(
    call: JaxObject,
    body: JaxObject,
    shardings: list[list[str]],
    axes: tuple[str, ...],
) -> None:
    """Put a manual computation with that body in the place of the call.

    It takes only what the body uses: Shardy of JAX 0.11 crashes while it removes the others.
    """
    ir: JaxObject = import_module(inside.IR)
    used = [at for at, argument in enumerate(body.arguments) if any(True for _ in argument.uses)]
    names = ", ".join(f'"{axis}"' for axis in axes)
    made = ir.Operation.create(
        _MANUAL,
        results=[result.type for result in call.results],
        operands=[call.operands[at] for at in used],
        attributes={
            "in_shardings": _per_value([shardings[0][at] for at in used]),
            "out_shardings": _per_value(shardings[1]),
            "manual_axes": ir.Attribute.parse(f"#sdy<manual_axes{{{names}}}>"),
        },
        regions=1,
        loc=call.location,
        ip=ir.InsertionPoint(call),
    )
    types = [body.arguments[at].type for at in used]
    block = made.regions[0].blocks.append(*types, arg_locs=[call.location] * len(types))
    given = dict(zip((body.arguments[at] for at in used), block.arguments))  # noqa: B905
    returned = copy_operations(body, given, ir.InsertionPoint(block))
    for each in _within(made):
        with suppress(AttributeError):  # an old binding: then it keeps the scope of its own
            each.location = call.location
    ir.Operation.create(
        "sdy.return", operands=returned, loc=call.location, ip=ir.InsertionPoint(block)
    )
    for old, new in zip(call.results, made.results):  # noqa: B905
        old.replace_all_uses_with(new)
    call.erase()
