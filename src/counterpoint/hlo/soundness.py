"""Refuse modules that contradict themselves, so that nothing behind a reader need fear them.

After this check operands stand before their users in the same computation, every name leads
somewhere, and no computation calls itself: every walk over a Program ends.
"""

from __future__ import annotations

from dataclasses import replace

from counterpoint.core.errors import InputError
from counterpoint.hlo.instruction import Computation
from counterpoint.hlo.program import Program

# Real modules stay below twenty; the walks over a Program recurse once per level.
_DEEPEST_CALLS = 100


def sound(program: Program) -> Program:
    """The same Program, if it makes sense, with its computations before those that call them."""
    if program.entry not in program.computations:
        raise _damaged(program, f"its entry computation {program.entry!r} is missing")
    for computation in program.computations.values():
        _check_order(program, computation)
    order = _order_of_calls(program)
    return replace(program, computations={name: program.computations[name] for name in order})


def _check_order(program: Program, computation: Computation) -> None:
    seen: set[str] = set()
    for instruction in computation.instructions:
        if not seen.issuperset(instruction.operands):
            missing = next(name for name in instruction.operands if name not in seen)
            raise _damaged(
                program, f"{instruction.name} reads {missing}, which does not come before it"
            )
        seen.add(instruction.name)
    if computation.root not in seen:
        raise _damaged(program, f"computation {computation.name} has no root")


def _order_of_calls(program: Program) -> dict[str, None]:
    """Walk the calls depth first; meeting a computation inside itself is a cycle."""
    calls = {
        name: [callee for it in reversed(computation.instructions) for callee in it.calls]
        for name, computation in program.computations.items()
    }
    done: dict[str, None] = {}
    for start in (program.entry, *sorted(calls)):
        path: dict[str, list[str]] = {}
        name: str | None = start
        while name is not None:
            if name not in path and name not in done:
                path[name] = list(calls[name])
            name = _step(program, path, done)
    return done


def _step(program: Program, path: dict[str, list[str]], done: dict[str, None]) -> str | None:
    """The next computation to enter, after leaving those that are finished."""
    while path:
        name, left = next(reversed(path.items()))
        if not left:
            done[name] = None
            del path[name]
            continue
        callee = left.pop()
        if callee in path:
            raise _damaged(program, f"computation {callee} calls itself")
        if callee not in program.computations:
            raise _damaged(program, f"computation {callee} is called and missing")
        if len(path) > _DEEPEST_CALLS:
            raise _damaged(program, f"its computations call each other {len(path)} deep")
        if callee not in done:
            return callee
    return None


def _damaged(program: Program, why: str) -> InputError:
    return InputError(
        f"HLO module {program.name!r} is damaged", why=why, next="take the dump or profile again"
    )
