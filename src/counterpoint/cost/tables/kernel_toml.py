"""Custom calls with known cost: a TOML file of patterns with a time or with the work.

    [[kernel]]
    match = "my_flash_fwd"                                  # in the target, name or op_name
    flops = "2 * arg0[0] * arg0[1] * arg0[2]**2 * arg0[3]"  # or a number
    dtype = "bf16"
    efficiency = 0.6                                        # of the chip's rate; default 0.5

    [[kernel]]
    match = "my_gather"
    us = 120                                                # or bytes = ..., also with flops

`arg0[2]` is a dimension of the first operand, `out[1]` of the result (`out1[1]` of the second).
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from counterpoint.core import InputError, parse_toml
from counterpoint.core.opening import read_input

_EXAMPLE: Final = '[[kernel]] with match = "my_kernel" and us = 120, or flops = ..., bytes = ...'
_FIELDS: Final = frozenset({"match", "us", "flops", "bytes", "dtype", "efficiency"})
_NAME: Final = re.compile(r"(arg|out)(\d*)")
_OPERATORS: Final = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Pow)

Dims = Sequence[tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Kernel:
    """The user's description of the kernels that a pattern matches."""

    match: re.Pattern[str]
    us: float | str | None
    flops: float | str | None
    bytes: float | str | None
    dtype: str
    efficiency: float


@dataclass(frozen=True, slots=True)
class KernelTable:
    """The kernels of one file."""

    kernels: tuple[Kernel, ...]
    origin: str

    def find(self, description: str) -> Kernel | None:
        """Return the first kernel whose pattern is found in a call's description."""
        return next((kernel for kernel in self.kernels if kernel.match.search(description)), None)


def read_kernel_toml(path: Path) -> KernelTable:
    """Read the kernels of a file; raise InputError if there are none, or an entry is invalid."""
    try:
        entries: Any = parse_toml(read_input(path).decode()).get("kernel")
    except (OSError, ValueError) as error:
        raise InputError(
            f"{path}: can't be read as a table of kernels", why=str(error), next=_EXAMPLE
        ) from error
    if not isinstance(entries, list) or not entries:
        raise InputError(f"{path}: lists no kernel", why="it has no [[kernel]]", next=_EXAMPLE)
    listed = cast(list[Any], entries)
    kernels = tuple(_kernel(path, place, entry) for place, entry in enumerate(listed, 1))
    return KernelTable(kernels, path.name)


def _kernel(path: Path, place: int, entry: object) -> Kernel:
    where = f"{path}: kernel {place}"
    if not isinstance(entry, dict):
        raise InputError(f"{where}: not a table", next=_EXAMPLE)
    fields = cast(dict[str, Any], entry)
    unknown = sorted(set(fields) - _FIELDS)
    if unknown or not isinstance(fields.get("match"), str) or not fields["match"]:
        why = f"{', '.join(unknown)}: unknown key" if unknown else "match is missing"
        raise InputError(where, why=why, next=_EXAMPLE)
    if not {"us", "flops", "bytes"} & set(fields):
        raise InputError(
            f"{where}: {fields['match']}", why="neither us, flops nor bytes", next=_EXAMPLE
        )
    efficiency: Any = fields.get("efficiency", 0.5)
    if not isinstance(efficiency, int | float) or not 0 < efficiency <= 1:
        raise InputError(
            f"{where}: efficiency = {efficiency}",
            why="a share above 0 and at most 1 is needed",
            next=_EXAMPLE,
        )
    work = {name: _work(where, name, fields.get(name)) for name in ("us", "flops", "bytes")}
    try:
        pattern = re.compile(fields["match"])
    except (re.error, RecursionError, OverflowError) as error:
        raise InputError(
            f"{where}: {fields['match'][:_LONGEST]}", why=str(error), next=_EXAMPLE
        ) from error
    dtype = str(fields.get("dtype", "bf16"))
    return Kernel(pattern, dtype=dtype, efficiency=float(efficiency), **work)


_LONGEST: Final = 400
"""Characters of a formula: Python's parser can take only so many levels."""


def _work(where: str, name: str, value: object) -> float | str | None:
    if value is None:
        return None
    if isinstance(value, str):
        if len(value) > _LONGEST:
            raise InputError(f"{where}: {name} has more than {_LONGEST} characters", next=_EXAMPLE)
        try:
            _checked(ast.parse(value, mode="eval").body)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise InputError(f"{where}: {name} = {value}", why=str(error), next=_EXAMPLE) from error
        return value
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf:
        return float(value)
    raise InputError(f"{where}: {name} = {value}", why="a number or a formula", next=_EXAMPLE)


def _checked(node: ast.expr) -> None:
    """Raise ValueError for anything but arithmetic on dimensions."""
    match node:
        case ast.BinOp(left, op, right) if isinstance(op, _OPERATORS):
            _checked(left)
            _checked(right)
        case ast.Constant(int() | float()):
            pass
        case ast.Subscript(ast.Name(name), ast.Constant(int())) if _NAME.fullmatch(name):
            pass
        case _:
            raise ValueError(f"{ast.unparse(node)} is not arithmetic on arg0[1] and out[1]")


def amount(work: float | str, args: Dims, outs: Dims) -> float | None:
    """Return a number, or a formula's value; None if the call has no such dimension."""
    if not isinstance(work, str):
        return work
    try:
        value = float(_evaluated(ast.parse(work, mode="eval").body, args, outs))
    except (IndexError, ArithmeticError, TypeError, ValueError):
        return None
    return value if 0 <= value < math.inf else None


def _evaluated(node: ast.expr, args: Dims, outs: Dims) -> float:
    match node:
        case ast.BinOp(left, op, right):
            return _applied(op, _evaluated(left, args, outs), _evaluated(right, args, outs))
        case ast.Subscript(ast.Name(name), ast.Constant(int() as dim)):
            place = int(name[3:] or 0)
            return float((args if name.startswith("arg") else outs)[place][dim])
        case ast.Constant(int() | float() as value):
            return float(value)
        case _:
            raise TypeError(ast.unparse(node))


def _applied(op: ast.operator, left: float, right: float) -> float:
    match op:
        case ast.Add():
            return left + right
        case ast.Sub():
            return left - right
        case ast.Mult():
            return left * right
        case ast.FloorDiv():
            return left // right
        case ast.Pow():
            return math.pow(left, right)
        case _:
            return left / right
