"""Which parts of a Python program exclude each other: functions, and arms of a choice.

A library of recipes sets the same flag in function after function, or for chip after chip. Which
of them runs is not known, but no program runs all: a flag in two of them is not given twice.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from counterpoint.flags.written import Branch

_LEAVES: Final = (ast.Return, ast.Raise)


@dataclass(frozen=True, slots=True)
class _Part:
    """Some statements, and the choice that leads to them."""

    choice: Branch
    body: Sequence[ast.stmt]


def branch_at(body: Sequence[ast.stmt], line: int | None, *, library: bool = False) -> Branch:
    """The choices on the way to a line of a module; of a `library`, constants are such, too."""
    if line is None:
        return ()
    found: list[tuple[str, str]] = []
    part: _Part | None = _Part((), body)
    while part is not None:
        found += part.choice
        part = _next(part.body, line, any(choice == "function" for choice, _ in found), found)
    if library and not found:
        constant = next((it.lineno for it in body if _spans([it], line)), line)
        found.append(("constant", str(constant)))
    return tuple(found)


def _next(
    body: Sequence[ast.stmt], line: int, inside: bool, found: list[tuple[str, str]]
) -> _Part | None:
    for statement in body:
        if not _spans([statement], line):
            if _left(statement) and statement.lineno < line:
                found.append((f"if {statement.lineno}", "else"))
            continue
        return next((it for it in _parts(statement, inside) if _spans(it.body, line)), None)
    return None


def _parts(statement: ast.stmt, inside: bool) -> Iterator[_Part]:
    """What a statement holds of statements."""
    match statement:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            own = () if inside else (("function", f"{statement.name}:{statement.lineno}"),)
            yield _Part(own, statement.body)
        case ast.If():
            name = f"if {statement.lineno}"
            yield _Part(((name, "then"), *_compared(statement.test)), statement.body)
            yield _Part(((name, "else"),), statement.orelse)
        case ast.Match():
            for number, arm in enumerate(statement.cases):
                yield _Part(((f"match {statement.lineno}", str(number)),), arm.body)
        case ast.Try():
            parts = [statement.body, statement.orelse, statement.finalbody]
            parts += [handler.body for handler in statement.handlers]
            yield from (_Part((), body) for body in parts)
        case ast.ClassDef() | ast.With() | ast.AsyncWith():
            yield _Part((), statement.body)
        case ast.For() | ast.AsyncFor() | ast.While():
            yield from (_Part((), body) for body in (statement.body, statement.orelse))
        case _:
            return


def _compared(test: ast.expr) -> Branch:
    """`if chip == "v4"`, `if chip == "v5"`: one choice, though written as two."""
    match test:
        case ast.Compare(left=left, ops=[ast.Eq()], comparators=[ast.Constant(value=value)]):
            return ((ast.unparse(left), repr(value)),)
        case _:
            return ()


def _left(statement: ast.stmt) -> bool:
    """An `if` that ends its block: what stands behind it is its other arm."""
    return (
        isinstance(statement, ast.If)
        and not statement.orelse
        and isinstance(statement.body[-1], _LEAVES)
    )


def _spans(body: Sequence[ast.stmt], line: int) -> bool:
    return bool(body) and body[0].lineno <= line <= (body[-1].end_lineno or body[-1].lineno)
