"""What a user named: the readable part of an op_name.

JAX writes the path of named scopes with its own machinery between them:

    jit(step)/transpose(jvp(Model))/while/body/closed_call/checkpoint/layer/mlp/dot_general
    -> scope Model/layer/mlp, primitive dot_general

XLA merges names when it merges instructions, as `a;b` or `common/(x:y)`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_PARAMETERS = re.compile(r"\[[^\[\]]*\]")
_CALL = re.compile(r"(\w+)\((.*)\)")
_DROPPED_CALLS = ("jit", "pjit", "pmap", "xmap", "xla_call")
_KEPT_CALLS = ("jvp", "transpose", "vmap", "remat", "checkpoint", "shard_map", "custom_jvp",
               "custom_vjp", "batch", "linearize")  # fmt: skip
_MACHINERY_WORDS = (
    "while body cond scan closed_call checkpoint remat remat2 rematted_computation shard_map pjit "
    "core_call core_closed_call custom_jvp_call custom_vjp_call custom_vjp_call_jaxpr custom_lin "
    "xla_call main pmap smap manual_computation custom_partitioning"
)
_MACHINERY = frozenset(_MACHINERY_WORDS.split())
_BRANCH = re.compile(r"branch_\d+_fun|cond/branch_\d+")


@dataclass(frozen=True, slots=True)
class Scope:
    """The user's path, and the primitive at its end."""

    path: str
    primitive: str


def scope(op_name: str) -> Scope:
    """The readable part of an op_name; of merged names the first."""
    name = names(op_name)[0]
    if "/" not in name and not _CALL.fullmatch(name):
        # The name of an argument, which is all that a parameter has.
        return Scope("", name)
    *above, last = _without_parameters(name).split("/")
    path = [word for part in above if (word := _cleaned(part))]
    if last in _MACHINERY or _CALL.fullmatch(last):
        word = _cleaned(last)
        return Scope("/".join([*path, word] if word else path), "" if word else last)
    return Scope("/".join(path), last)


def names(op_name: str) -> list[str]:
    """The names which XLA merged into one; at least one."""
    merged = [part for name in op_name.split(";") for part in _alternatives(name)]
    return merged or [""]


def _alternatives(name: str) -> list[str]:
    """`a/(b:c)/d` as a/b/d and a/c/d."""
    start = name.find("/(")
    if start < 0:
        return [name] if name else []
    depth, begin, pieces = 0, start + 2, list[str]()
    for at in range(start + 1, len(name)):
        symbol = name[at]
        depth += (symbol == "(") - (symbol == ")")
        if (symbol == ":" and depth == 1) or depth == 0:
            pieces.append(name[begin:at])
            begin = at + 1
        if depth == 0:
            break
    return [f"{name[: start + 1]}{piece}{name[begin:]}" for piece in pieces] or [name]


def _without_parameters(name: str) -> str:
    """The name without `[axes=(0,)]` and the like, which may hold slashes."""
    while "[" in name:
        shorter = _PARAMETERS.sub("", name)
        if shorter == name:
            return name.partition("[")[0]
        name = shorter
    return name


def _cleaned(part: str) -> str:
    """One step of the path without JAX's wrapping; empty when there was nothing else."""
    while call := _CALL.fullmatch(part):
        if call[1] in _DROPPED_CALLS:
            return ""
        if call[1] not in _KEPT_CALLS:
            break
        part = call[2]
    return "" if part in _MACHINERY or _BRANCH.fullmatch(part) else part
