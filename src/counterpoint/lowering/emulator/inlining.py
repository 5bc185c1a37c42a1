"""Inlines all calls of a module's functions, as XLA does before it propagates shardings.

Shardy alone propagates little through calls, and MLIR's own pass inlines none of these.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from . import jax_internals as inside
from .function import JaxObject


def inline_calls(module: JaxObject) -> None:
    """Inline every call in its main function; the others remain, uncalled."""
    functions = {
        str(op.attributes["sym_name"].value): op.operation
        for op in module.body.operations
        if op.operation.name == "func.func"
    }
    done: set[str] = set()

    def settle(name: str) -> None:
        if name in done:
            return
        done.add(name)
        for call in _calls(functions[name]):
            callee = str(call.attributes["callee"].value)
            settle(callee)
            _inline(call, functions[callee].regions[0].blocks[0])

    settle("main")
    for name in done - {"main"}:
        functions[name].erase()


def _calls(op: JaxObject) -> list[JaxObject]:
    calls: list[JaxObject] = []
    for region in op.regions:
        for block in region.blocks:
            for each in block.operations:
                if each.operation.name == "func.call":
                    calls.append(each.operation)
                else:
                    calls += _calls(each.operation)
    return calls


def _inline(call: JaxObject, body: JaxObject) -> None:
    ir: JaxObject = import_module(inside.IR)
    values = dict(zip(body.arguments, call.operands))  # noqa: B905
    for old, new in zip(call.results, copy_operations(body, values, ir.InsertionPoint(call))):  # noqa: B905
        old.replace_all_uses_with(new)
    call.erase()


def copy_operations(body: JaxObject, values: dict[JaxObject, JaxObject], to: JaxObject) -> Any:  # noqa: ANN401
    """Copy a block's operations but its return, for these arguments; return what it returns."""
    values = dict(values)
    *operations, last = body.operations
    for op in operations:
        copy = op.operation.clone(ip=to)
        _rewire(copy, values)
        values.update(zip(op.operation.results, copy.results))  # noqa: B905
    return [values[returned] for returned in last.operation.operands]


def _rewire(op: JaxObject, values: dict[JaxObject, JaxObject]) -> None:
    """Let an operation and those within it use the values of the caller."""
    for at, operand in enumerate(op.operands):
        if operand in values:
            op.operands[at] = values[operand]
    for region in op.regions:
        for block in region.blocks:
            for each in block.operations:
                _rewire(each.operation, values)
