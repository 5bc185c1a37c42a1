"""A variable's value is not one that its reader takes, or means something else to it.

## What it does

Holds values of environment variables to what JAX, XLA's client, its log and NCCL take.

## Why it costs time

Each reader fails in its own way. JAX ends at `import jax`, or when it first looks for devices. NCCL
ends when the first communicator is made, at an algorithm or protocol that it does not know, and
takes its default in silence at a number that is none. XLA's log leaves out what it can't read. And
`XLA_PYTHON_CLIENT_PREALLOCATE=no` means yes: JAX takes only `false`, `False` and `0` for no.

## How it is detected

By the types and values in the catalogue, and by the readers' own rules: how JAX reads a bool, how
NCCL reads its lists, and that names in `TF_CPP_VMODULE` are those of files without their ending. A
share of memory above 1 needs `TF_FORCE_UNIFIED_MEMORY`. A value that only a shell or a template
knows, or that stands for another one in a text (`.XX`, `<share>`), is not judged.

## Example

```sh jaxlib=0.10.2
export XLA_PYTHON_CLIENT_PREALLOCATE=no
export NCCL_PROTO=LL128,Simpel
```

## Fix

Write a value that is taken.

## Fix safety

Only what is surely meant is written: `false` for `no`. The rest is said.

## References

- https://github.com/jax-ml/jax/blob/main/jax/_src/config.py (bool_env)
- https://github.com/openxla/xla/blob/main/xla/python/xla_client.py
- https://github.com/NVIDIA/nccl/blob/master/src/graph/tuning.cc (parseList)
- https://github.com/openxla/xla/blob/main/xla/tsl/platform/default/logging.cc
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from counterpoint.flags.catalogue.about import Reader
from counterpoint.flags.catalogue.variable import Variable, variables
from counterpoint.flags.channel import Channel
from counterpoint.flags.lint.case import Case
from counterpoint.flags.lint.placeholder import stands_for_another
from counterpoint.flags.lint.remark import Mend, Remark, Severity, remark
from counterpoint.flags.lint.variable_values import NO, YES
from counterpoint.flags.written import Given

CODE: Final = "FLAG503"
NAME: Final = "bad-variable-value"
SINCE: Final = "0.1"

_Found = tuple[Severity, str, str, Mend | None]
_NO_SHARE: Final = "JAX raises a ValueError: it is not a number"
_UNIFIED: Final = "TF_FORCE_UNIFIED_MEMORY"
_LEVEL: Final = re.compile(r"[\w.*?/-]+=\d+")
_WORDS: Final = {"int": "a whole number", "float": "a number", "bool": "true or false"}
_FUNCTIONS: Final = ("broadcast", "reduce", "allgather", "reducescatter", "allreduce")
_ALGORITHMS: Final = (
    "tree",
    "ring",
    "collnetdirect",
    "collnetchain",
    "nvls",
    "nvlstree",
    "pat",
)


def check(case: Case) -> Iterator[Remark]:
    """At most one for each variable."""
    for one in case.written.given:
        if one.channel not in (Channel.ENVIRONMENT, Channel.JAX_CONFIG):
            continue
        if not one.known or one.value is None or stands_for_another(one.value):
            continue
        name = one.name.upper() if one.channel is Channel.JAX_CONFIG else one.name
        own = _OWN.get(name)
        found = own(case, one) if own else _catalogued(case, one, name)
        if found:
            severity, message, advice, mend = found
            yield remark(CODE, severity, one, message, advice, mend)


def _fraction(case: Case, one: Given) -> _Found | None:
    try:
        value = float(one.meant)
    except ValueError:
        if not one.meant:
            return None
        return Severity.ERROR, _NO_SHARE, "write a share of memory: 0.75", None
    if value <= 0:
        return (
            Severity.ERROR,
            "it leaves no memory for the program",
            "write a share such as 0.75",
            None,
        )
    if value > 1 and not case.variables.get(_UNIFIED):
        text = f"more than all memory of the device, which needs {_UNIFIED}=1"
        return Severity.WARNING, text, f"write a share from 0 to 1, or add {_UNIFIED}=1", None
    return None


def _preallocate(_: Case, one: Given) -> _Found | None:
    if one.meant.lower() in NO and one.meant not in ("false", "False", "0"):
        mend = Mend(((one.name, "false"),), safe=False)
        return Severity.ERROR, f"JAX takes `{one.meant}` for true", "write false", mend
    return None


def _protocols(_: Case, one: Given) -> _Found | None:
    return _list(one, ("ll", "ll128", "simple"))


def _algorithms(_: Case, one: Given) -> _Found | None:
    return _list(one, _ALGORITHMS)


def _list(one: Given, known: tuple[str, ...]) -> _Found | None:
    """`[function:][^]name,name;...`, in any case; NCCL ends at another name."""
    for part in one.meant.split(";"):
        function, colon, names = part.rpartition(":")
        if colon and function.lower() not in _FUNCTIONS:
            return _no_such(function, _FUNCTIONS)
        for name in names.removeprefix("^").split(","):
            if name and name.lower() not in known:
                return _no_such(name, known)
    return None


def _subsystems(_: Case, one: Given) -> _Found | None:
    known = {name.lower() for name in variables()["NCCL_DEBUG_SUBSYS"].values}
    given = one.meant.removeprefix("^").split(",")
    skipped = [name for name in given if name and name.lower() not in known]
    if not skipped:
        return None
    return Severity.NOTE, f"NCCL passes over {', '.join(skipped)}", "drop that part", None


def _no_such(name: str, known: tuple[str, ...]) -> _Found:
    text = f"NCCL ends at {name}, which it does not know"
    return Severity.ERROR, text, f"write one of {', '.join(known)}", None


def _vmodule(_: Case, one: Given) -> _Found | None:
    for part in one.meant.split(","):
        if not _LEVEL.fullmatch(part):
            text = f"`{part}` is not a file's name, `=` and a level"
            return Severity.WARNING, text, "write name=level,name=level without spaces", None
        name = part.partition("=")[0]
        if name.endswith((".cc", ".h", ".cpp")) or "/" in name:
            text = f"{name} is never met: a file goes by its name without directory and ending"
            stem = name.rpartition("/")[2].rpartition(".")[0] or name.rpartition("/")[2]
            return Severity.WARNING, text, f"write {stem}", None
    return None


_OWN: Final[Mapping[str, Callable[[Case, Given], _Found | None]]] = MappingProxyType(
    {
        "XLA_CLIENT_MEM_FRACTION": _fraction,
        "XLA_PYTHON_CLIENT_MEM_FRACTION": _fraction,
        "XLA_PYTHON_CLIENT_PREALLOCATE": _preallocate,
        "NCCL_PROTO": _protocols,
        "NCCL_ALGO": _algorithms,
        "NCCL_DEBUG_SUBSYS": _subsystems,
        "TF_CPP_VMODULE": _vmodule,
    }
)


def _catalogued(case: Case, one: Given, name: str) -> _Found | None:
    known = variables().get(name)
    if known is None or known.reader is Reader.JAX:
        return _jax(case, one, name)
    if not one.meant or known.type == "none" or known.takes(one.meant):
        return None
    if known.reader is Reader.CLIENT:
        text = f"JAX ends at it: {_wanted(known)}"
        return Severity.ERROR, text, f"write {_wanted(known)}", None
    what = "NCCL takes its default instead" if known.reader is Reader.NCCL else "it is not taken"
    return Severity.WARNING, what, f"write {_wanted(known)}", None


def _jax(case: Case, one: Given, name: str) -> _Found | None:
    """Booleans are told by their default; other types by the catalogue."""
    known = variables().get(name)
    is_bool = (known and known.type == "bool") or case.release.jax.get(name) in ("true", "false")
    if is_bool:
        if one.meant.lower() in YES | NO:
            return None
        text = f"JAX raises a ValueError: `{one.meant}` is neither true nor false to it"
        return Severity.ERROR, text, "write true or false", None
    if known is None or not one.meant or known.takes(one.meant):
        return None
    text = "JAX raises a ValueError: it is none of its values"
    return Severity.ERROR, text, f"write {_wanted(known)}", None


def _wanted(known: Variable) -> str:
    """The values a variable takes, in words."""
    span = known.values[0] if known.values and ".." in known.values[0] else ""
    if known.values and not span:
        return " or ".join(known.values)
    word = _WORDS.get(known.type, known.type)
    low, _, high = span.partition("..")
    if not span:
        return word
    return f"{word} from {low} to {high}" if high else f"{word} from {low} on"
