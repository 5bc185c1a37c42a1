"""The value of a variable is rejected, or read as something else.

## What it does

Compares the values of environment variables with what JAX, XLA's client, its log and NCCL accept.

## Why it costs time

Each reader fails in its own way. JAX fails at `import jax`, or when it first looks for devices.
NCCL aborts when the first communicator is created with an unknown algorithm or protocol. It reads
numbers up to the first character that is not a digit, so that `NCCL_BUFFSIZE=8m` is 8 bytes and
`abc` is 0, and checks no range; it uses its default only if a number does not fit in 64 bits, or if
a name is not in a list. XLA's log reads numbers in the same way. And
`XLA_PYTHON_CLIENT_PREALLOCATE=no` means yes: JAX reads only `false`, `False` and `0` as no.

## How it is detected

The rule uses the types and values in the catalogue, and the readers' own rules: JAX's spellings of
a bool, NCCL's list syntax, and the names in `TF_CPP_VMODULE`, which are file names without their
extension. A memory fraction above 1 needs `TF_FORCE_UNIFIED_MEMORY`. A value that only a shell or a
template knows, or a placeholder (`.XX`, `<share>`), is not checked.

## Example

```sh jaxlib=0.10.2
export XLA_PYTHON_CLIENT_PREALLOCATE=no
export NCCL_PROTO=LL128,Simpel
```

## Fix

Write an accepted value.

## Fix safety

Only an unambiguous value is written: `false` for `no`. Everything else is reported only.

## References

- https://github.com/jax-ml/jax/blob/main/jax/_src/config.py (bool_env)
- https://github.com/openxla/xla/blob/main/xla/python/xla_client.py
- https://github.com/NVIDIA/nccl/blob/master/src/graph/tuning.cc (parseList)
- https://github.com/NVIDIA/nccl/blob/master/src/misc/param.cc (ncclLoadParam: strtoll)
- https://github.com/NVIDIA/nccl/blob/master/src/graph/paths.cc (ncclGetLevel)
- https://github.com/openxla/xla/blob/main/xla/tsl/platform/default/logging.cc
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from counterpoint.flags.catalogue.about import ReadingProgram
from counterpoint.flags.catalogue.variable import DocumentedSetting, variables
from counterpoint.flags.lint import (
    NO,
    YES,
    Fix,
    LintContext,
    Remark,
    Severity,
    quoted_for_jax,
    remark,
)
from counterpoint.flags.parsed import Occurrence
from counterpoint.flags.settings import Channel
from counterpoint.flags.values import (
    from_stream,
    is_python_float,
    is_python_int,
    stands_for_another,
    strtoll,
)

CODE: Final = "FLAG503"
NAME: Final = "bad-variable-value"
SINCE: Final = "0.1"

_Verdict = tuple[Severity, str, str, Fix | None]
_NO_SHARE: Final = "JAX raises a ValueError: it is not a number"
_PERCENT: Final = 10
"""The least share above 1 that is meant as a percentage."""
_UNIFIED: Final = "TF_FORCE_UNIFIED_MEMORY"
_PLAIN: Final = re.compile(r"[+-]?(?:0|[1-9]\d*|0[xX][\da-fA-F]+)", re.ASCII)
_DECIMAL: Final = re.compile(r"[+-]?\d+", re.ASCII)
_SECOND: Final = re.compile(r"\s([A-Z][A-Z0-9_]*)=", re.ASCII)
"""Another variable behind the value: an env file has one on each line, unlike a shell."""
_LEVEL: Final = re.compile(r"[\w.*?/-]+=\d+")
_WORDS: Final = {"int": "a whole number", "float": "a number", "bool": "true or false"}
_FUNCTIONS: Final = ("broadcast", "reduce", "allgather", "reducescatter", "allreduce")
_ALGORITHMS: Final = (
    *("tree", "ring", "collnetdirect", "collnetchain", "nvls", "nvlstree", "pat"),
)


def check(case: LintContext) -> Iterator[Remark]:
    """Yield at most one remark for each variable."""
    for setting in case.written.given:
        if setting.channel not in (Channel.ENVIRONMENT, Channel.JAX_CONFIG):
            continue
        if not setting.known or setting.value is None or stands_for_another(setting.value):
            continue
        name = setting.name.upper() if setting.channel is Channel.JAX_CONFIG else setting.name
        own = _OWN.get(name)
        verdict = own(case, setting) if own else _catalogued(case, setting, name)
        if verdict:
            severity, message, advice, fix = verdict
            yield remark(CODE, severity, setting, message, advice, fix)


def _fraction(case: LintContext, one: Occurrence) -> _Verdict | None:
    try:
        value = float(one.meant)
    except ValueError:
        if not one.meant:
            return None
        return Severity.ERROR, _NO_SHARE, "write a fraction of memory: 0.75", None
    if value <= 0:
        return (
            Severity.ERROR,
            "it leaves no memory for the program",
            "write a fraction such as 0.75",
            None,
        )
    if value > 1 and not case.variables.get(_UNIFIED):
        if _PERCENT <= value <= 100:
            text = f"a share, not a percentage: it is {value:g} times the device's memory"
            return Severity.WARNING, text, f"write {value / 100:g}", None
        text = f"more than the device's memory needs {_UNIFIED}=1"
        return Severity.WARNING, text, f"write a fraction from 0 to 1, or add {_UNIFIED}=1", None
    return None


def _preallocate(_: LintContext, one: Occurrence) -> _Verdict | None:
    if one.meant.lower() in NO and one.meant not in ("false", "False", "0"):
        fix = Fix(((one.name, "false"),), safe=False)
        return Severity.ERROR, f"JAX reads `{one.meant}` as true", "write false", fix
    return None


def _protocols(_: LintContext, one: Occurrence) -> _Verdict | None:
    return _list(one, ("ll", "ll128", "simple"))


def _algorithms(_: LintContext, one: Occurrence) -> _Verdict | None:
    return _list(one, _ALGORITHMS)


def _list(one: Occurrence, known: tuple[str, ...]) -> _Verdict | None:
    """Check `[function:][^]name,name;...`, in any case; NCCL ends at an unknown name."""
    for part in one.meant.split(";"):
        function, colon, names = part.rpartition(":")
        if colon and function.lower() not in _FUNCTIONS:
            return _no_such(function, _FUNCTIONS)
        for name in names.removeprefix("^").split(","):
            if name and name.lower() not in known:
                return _no_such(name, known)
    return None


def _subsystems(_: LintContext, one: Occurrence) -> _Verdict | None:
    known = {name.lower() for name in variables()["NCCL_DEBUG_SUBSYS"].values}
    given = one.meant.removeprefix("^").split(",")
    skipped = [name for name in given if name and name.lower() not in known]
    if not skipped:
        return None
    return Severity.NOTE, f"NCCL ignores {', '.join(skipped)}", "remove that part", None


def _no_such(name: str, known: tuple[str, ...]) -> _Verdict:
    text = f"NCCL aborts on the unknown name {name}"
    return Severity.ERROR, text, f"write one of {', '.join(known)}", None


def _vmodule(_: LintContext, one: Occurrence) -> _Verdict | None:
    for part in one.meant.split(","):
        if not _LEVEL.fullmatch(part):
            text = f"`{part}` is not FILE=LEVEL"
            return Severity.WARNING, text, "write FILE=LEVEL,FILE=LEVEL without spaces", None
        name = part.partition("=")[0]
        if name.endswith((".cc", ".h", ".cpp")) or "/" in name:
            text = f"{name} matches no file: write its name without directory and extension"
            stem = name.rpartition("/")[2].rpartition(".")[0] or name.rpartition("/")[2]
            return Severity.WARNING, text, f"write {stem}", None
    return None


def _platforms(_: LintContext, one: Occurrence) -> _Verdict | None:
    """Check comma-separated names of backends; a plugin may provide one that is unknown here."""
    if not one.meant:
        return None
    for name in one.meant.split(","):
        if name in (*_BACKENDS, _PATHWAYS):
            continue
        meant = _BACKENDS_MEANT.get(name.strip().lower())
        if meant or not name.strip():
            text = f"JAX raises a RuntimeError: it has no backend `{name}`"
            return Severity.ERROR, text, f"write {meant or 'names separated by commas'}", None
        text = f"JAX has no backend `{name}`, and fails unless a plugin provides it"
        return Severity.WARNING, text, f"write {', '.join(_BACKENDS)}, or a plugin's name", None
    return None


def _level(_: LintContext, one: Occurrence) -> _Verdict | None:
    """Check NCCL's topology levels: names in capitals, or the numbers that preceded them."""
    if one.meant in _TOPOLOGY or not one.meant or one.meant[0].isdigit():
        return None
    meant = one.meant.upper()
    fix = Fix(((one.name, meant),), safe=False) if meant in _TOPOLOGY else None
    text = "NCCL does not know it, and uses its default"
    return Severity.WARNING, text, f"write one of {', '.join(_TOPOLOGY)}", fix


_BACKENDS: Final = ("cpu", "gpu", "cuda", "rocm", "tpu")
_PATHWAYS: Final = "proxy"
"""The backend of Pathways, as its documentation sets it, with `JAX_BACKEND_TARGET`."""
_BACKENDS_MEANT: Final = {name: name for name in _BACKENDS} | {
    "nvidia": "cuda", "cuda12": "cuda", "cuda13": "cuda", "amd": "rocm", "host": "cpu",
}  # fmt: skip
_TOPOLOGY: Final = ("LOC", "NVL", "NVB", "C2C", "PIX", "PXB", "P2C", "PXN", "PHB", "SYS")


_OWN: Final[Mapping[str, Callable[[LintContext, Occurrence], _Verdict | None]]] = MappingProxyType(
    {
        "XLA_CLIENT_MEM_FRACTION": _fraction,
        "XLA_PYTHON_CLIENT_MEM_FRACTION": _fraction,
        "XLA_PYTHON_CLIENT_PREALLOCATE": _preallocate,
        "NCCL_PROTO": _protocols,
        "NCCL_ALGO": _algorithms,
        "NCCL_DEBUG_SUBSYS": _subsystems,
        "NCCL_P2P_LEVEL": _level,
        "NCCL_NET_GDR_LEVEL": _level,
        "JAX_PLATFORMS": _platforms,
        "TF_CPP_VMODULE": _vmodule,
    }
)


def _catalogued(case: LintContext, one: Occurrence, name: str) -> _Verdict | None:
    known = variables().get(name)
    if known is None or known.reader is ReadingProgram.JAX:
        return _jax(case, one, name)
    if not one.meant or known.type == "none":
        return None
    number = known.type == "int"
    if number and known.reader is ReadingProgram.NCCL:
        return _nccl_number(known, one)
    if number and known.reader is ReadingProgram.LOG:
        return _log_number(one)
    if number and known.reader is ReadingProgram.CLIENT and is_python_int(one.meant):
        return None
    return None if known.takes(one.meant) else _not_taken(known, one.meant)


def _not_taken(known: DocumentedSetting, value: str) -> _Verdict:
    words = {word.upper(): word for word in known.values if ".." not in word}
    near = difflib.get_close_matches(value.upper(), words, n=1)
    advice = f"write {words[near[0]] if near else _wanted(known)}"
    if known.reader is ReadingProgram.CLIENT and not known.name.startswith("TF_"):
        return Severity.ERROR, f"JAX fails on it: {_wanted(known)}", advice, None
    what = {
        ReadingProgram.NCCL: "NCCL does not know it, and uses its default",
        ReadingProgram.CUDA: "CUDA does not document this value; its effect is unknown",
    }.get(known.reader, "it is ignored")
    return Severity.WARNING, what, advice, None


def _nccl_number(known: DocumentedSetting, one: Occurrence) -> _Verdict | None:
    advice = f"write {_wanted(known)}"
    number = strtoll(one.meant)
    if number is None:
        text = "it does not fit in 64 bits: NCCL uses its default"
        return Severity.WARNING, text, advice, None
    if not _PLAIN.fullmatch(one.meant):
        if also := _SECOND.search(one.meant):
            text = f"the value is `{one.meant}`, which NCCL reads as {number}"
            return Severity.WARNING, text, f"write {also[1]} on a line of its own", None
        return Severity.WARNING, f"NCCL reads `{one.meant}` as {number}", advice, None
    if known.takes(str(number)):
        return None
    if known.name == "NCCL_NVLS_ENABLE":
        text = "NCCL reads all but 0 and 2 as 1: NVLS without checking the driver's support"
        return Severity.WARNING, text, advice, None
    text = f"NCCL documents {_wanted(known)}, checks no range, and uses {number}"
    return Severity.WARNING, text, advice, None


def _log_number(one: Occurrence) -> _Verdict | None:
    if _DECIMAL.fullmatch(one.meant):
        return None
    text = f"XLA's log reads it as {from_stream(one.meant)}"
    return Severity.WARNING, text, "write a whole number", None


def _jax(case: LintContext, one: Occurrence, name: str) -> _Verdict | None:
    """Check booleans by their default, other types by the catalogue. JAX checks no range."""
    known = variables().get(name)
    is_bool = (known and known.type == "bool") or case.release.jax.get(name) in ("true", "false")
    if is_bool:
        return _jax_bool(one)
    unset = not one.meant or (one.channel is Channel.JAX_CONFIG and one.meant == "None")
    if known is None or unset:
        return None
    number = known.type in ("int", "float")
    if not _jax_takes(known, one.meant) or (number and quoted_for_jax(one)):
        text = f"JAX raises a ValueError: it is not {_one_of(known)}"
        return Severity.ERROR, text, f"write {_wanted(known)}", None
    if known.type == "enum" or known.takes(one.meant.replace("_", "")):
        return None
    text = f"JAX accepts it without a range check; expected: {_wanted(known)}"
    return Severity.WARNING, text, f"write {_wanted(known)}", None


def _jax_bool(one: Occurrence) -> _Verdict | None:
    if quoted_for_jax(one) and one.meant:
        text = "JAX takes any text as true"
        return Severity.ERROR, text, "write True or False, without quotes", None
    if one.meant.lower() in YES | NO:
        return None
    text = f"JAX raises a ValueError: `{one.meant}` is neither true nor false"
    return Severity.ERROR, text, "write true or false", None


def _jax_takes(known: DocumentedSetting, value: str) -> bool:
    if known.type == "int":
        return is_python_int(value)
    if known.type == "float":
        return is_python_float(value)
    return value in known.values if known.type == "enum" else known.takes(value)


def _one_of(known: DocumentedSetting) -> str:
    return "one of its values" if known.type == "enum" else _WORDS.get(known.type, known.type)


def _wanted(known: DocumentedSetting) -> str:
    """Return the values that a variable accepts, in words."""
    span = known.values[0] if known.values and ".." in known.values[0] else ""
    if known.values and not span:
        return " or ".join(known.values)
    word = _WORDS.get(known.type, known.type)
    low, _, high = span.partition("..")
    if not span:
        return word
    return f"{word} from {low} to {high}" if high else f"{word}, at least {low}"
