"""Functions of kernels: the part of a compiled kernel's name that says what it computes.

A profiler writes a C++ kernel as it was declared: result, namespaces, template arguments,
arguments. Types among the arguments say nothing of the work: a kernel that takes a
`cutlass::bfloat16_t` is no matrix product. CUTLASS has a few kernels that only call the functor
given as a template argument; there that argument is the function.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Final

_WRAPPED: Final = re.compile(r"\bcutlass\w*::(?:device_kernel|Kernel\d?)<(.+)>", re.DOTALL)
"""A kernel that runs the one given as its first template argument."""

_ROUND: Final = re.compile(r"\([^()]*\)")
_ANGLE: Final = re.compile(r"<[^<>]*>")

_COPY: Final = re.compile(r"(?i)mem(?:cpy|set)")
"""Begins the name of a driver's copy: `Memcpy HtoD (Pageable -> Device)`."""

_MANGLED: Final = re.compile(r"_ZN?K?(?=\d)")
_NAMESPACE: Final = "(anonymous namespace)"
_PLAIN: Final = "{anonymous}"
_HIDDEN: Final = "_GLOBAL__N_1"
_SHORT: Final = 60
"""Names up to this length are shown whole."""

_MOST: Final = 16
"""Parts of a mangled name that are read, which are more than any has."""


@cache
def function_of(kernel: str) -> str:
    """Return the function's own name, with its namespaces; other names are returned as they are."""
    if kernel.startswith("_Z"):
        return _demangled(kernel)
    if _COPY.match(kernel) or not {*"(<"} & {*kernel}:
        return kernel
    plain = _without(_ROUND, kernel.replace(_NAMESPACE, _PLAIN))
    wrapped = _WRAPPED.search(plain)
    if wrapped is not None:
        plain = _without(_ANGLE, wrapped[1]).partition(",")[0]
    # The result, which may be a template, ends at the last space outside of brackets.
    name = _without(_ANGLE, plain).partition("<")[0].partition("(")[0].strip().rpartition(" ")[2]
    return name.replace(_PLAIN, _NAMESPACE) or kernel


@cache
def kernel_label(name: str) -> str:
    """Return a name for people: of a long one the function, with the start of what specializes it.

    A cut in the middle would leave the namespace and the types of the arguments.
    """
    function = _bare(function_of(name))
    if len(name) <= _SHORT or function == name:
        return name
    rest = name.partition(function)[2]
    template = rest[: _closing(rest)] if rest.startswith("<") else ""
    return function + (template if len(function + template) <= _SHORT else "<...>")


def kernel_labels(names: Sequence[str]) -> list[str]:
    """Return a label for each name, with all that follows the function where two would be equal."""
    owners: dict[str, set[str]] = {}
    for name in names:
        owners.setdefault(kernel_label(name), set()).add(name)
    labels = ((name, kernel_label(name)) for name in names)
    return [label if len(owners[label]) == 1 else _from_function(name) for name, label in labels]


def _from_function(name: str) -> str:
    """Return a kernel's name without its result and namespaces."""
    return "".join(name.partition(_bare(function_of(name)))[1:]) or name


def _bare(function: str) -> str:
    return function.replace(_NAMESPACE, _PLAIN).rpartition("::")[2]


def _closing(text: str) -> int:
    """Return the position behind the bracket that closes the first one."""
    depth = 0
    for at, char in enumerate(text):
        depth += (char == "<") - (char == ">" and text[at - 1] != "-")
        if not depth:
            return at + 1
    return len(text)


def _without(brackets: re.Pattern[str], text: str) -> str:
    """Remove what is in brackets, the innermost first."""
    while (shorter := brackets.sub("", text)) != text:
        text = shorter
    return text


def _demangled(kernel: str) -> str:
    """Return the names in a symbol of the Itanium ABI: `_ZN5aiter11add_rmsnormIfEEvPf`."""
    start = _MANGLED.match(kernel)
    if start is None:
        return kernel
    at, parts = start.end(), list[str]()
    while len(parts) < _MOST and (digits := re.compile(r"\d{1,4}").match(kernel, at)):
        end = digits.end() + int(digits[0])
        parts.append(kernel[digits.end() : end])
        at = end
        if not kernel.startswith("_ZN"):
            break
    named = [part for part in parts if part != _HIDDEN]
    return "::".join(named) or kernel
