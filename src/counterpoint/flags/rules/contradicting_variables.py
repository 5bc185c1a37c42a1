"""Two environment variables cancel each other.

## What it does

Checks pairs of variables of the memory allocator and of NCCL.

## Why it costs time

One of the two has no effect, usually the one that was meant to help.

## How it is detected

- `XLA_PYTHON_CLIENT_ALLOCATOR=platform` has no pool: a memory fraction, and preallocation, have no
  meaning for it
- a memory fraction without preallocation is only an upper limit
- `NCCL_NVLS_ENABLE=0`, and `NCCL_ALGO` with NVLS only
- `NCCL_ALGO` with NVLS, CollNet or PAT only, and `NCCL_PROTO` without Simple: these algorithms
  support no other protocol, so no combination is left
- the minimum number of channels or blocks exceeds the maximum

## Example

```sh jaxlib=0.10.2
export NCCL_ALGO=NVLS
export NCCL_PROTO=LL128
```

## Fix

Remove one of the two.

## Fix safety

Reported only: the intended one is not known.

## References

- https://docs.jax.dev/en/latest/gpu_memory_allocation.html
- https://github.com/NVIDIA/nccl/blob/master/src/graph/tuning.cc
- https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterpoint.flags.lint import Fix, LintContext, Remark, Severity, remark

CODE: Final = "FLAG506"
NAME: Final = "contradicting-variables"
SINCE: Final = "0.1"

_SHARES: Final = ("XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION")
_PREALLOCATE: Final = "XLA_PYTHON_CLIENT_PREALLOCATE"
_ALLOCATOR: Final = "XLA_PYTHON_CLIENT_ALLOCATOR"
_SIMPLE_ONLY: Final = frozenset({"nvls", "nvlstree", "collnetdirect", "collnetchain", "pat"})
_LIMITS: Final = (("NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS"), ("NCCL_MIN_CTAS", "NCCL_MAX_CTAS"))


def check(case: LintContext) -> Iterator[Remark]:
    """Yield one remark for each pair."""
    yield from _memory(case)
    yield from _algorithms(case)
    yield from _limits(case)


def _memory(case: LintContext) -> Iterator[Remark]:
    platform = case.variables.get(_ALLOCATOR) == "platform"
    grows = case.variables.get(_PREALLOCATE) in ("false", "False", "0")
    for name in (*_SHARES, *([_PREALLOCATE] if platform else [])):
        given = case.last(name)
        if given is None:
            continue
        if platform:
            text = f"it has no effect: {_ALLOCATOR}=platform has no pool"
            grave = Severity.NOTE if name == _PREALLOCATE else Severity.WARNING
            yield _remark(case, name, grave, text, "remove one of the two")
        elif grows:
            text = f"with {_PREALLOCATE}=false it is only an upper limit"
            yield _remark(case, name, Severity.NOTE, text, "remove it, unless a limit is intended")


def _algorithms(case: LintContext) -> Iterator[Remark]:
    chosen = _chosen(case, "NCCL_ALGO")
    if not chosen:
        return
    if case.variables.get("NCCL_NVLS_ENABLE") == "0" and chosen <= {"nvls", "nvlstree"}:
        text = "NCCL_NVLS_ENABLE=0 leaves none of these algorithms"
        yield _remark(case, "NCCL_ALGO", Severity.ERROR, text, "remove one of the two")
    protocols = _chosen(case, "NCCL_PROTO")
    excluded = "simple" in _excluded(case, "NCCL_PROTO")
    if chosen <= _SIMPLE_ONLY and ((protocols and "simple" not in protocols) or excluded):
        text = "the algorithms of NCCL_ALGO support only the protocol Simple"
        yield _remark(case, "NCCL_PROTO", Severity.ERROR, text, "add Simple, or remove NCCL_ALGO")


def _limits(case: LintContext) -> Iterator[Remark]:
    for least, most in _LIMITS:
        low, high = case.variables.get(least, ""), case.variables.get(most, "")
        if low.isdecimal() and high.isdecimal() and int(low) > int(high):
            text = f"it exceeds {most}={high}"
            yield _remark(case, least, Severity.WARNING, text, "remove one of the two")


def _chosen(case: LintContext, name: str) -> frozenset[str]:
    """Return the names of a plain list; empty if it names functions or exclusions."""
    text = case.variables.get(name, "").lower()
    return frozenset() if set(text) & set(":;^") else frozenset(filter(None, text.split(",")))


def _excluded(case: LintContext, name: str) -> frozenset[str]:
    text = case.variables.get(name, "").lower()
    plain = text.startswith("^") and not set(text) & set(":;")
    return frozenset(text[1:].split(",")) if plain else frozenset()


def _remark(case: LintContext, name: str, severity: Severity, message: str, advice: str) -> Remark:
    given = case.last(name)
    assert given is not None, name  # noqa: S101 - callers have checked it
    return remark(CODE, severity, given, message, advice, Fix(safe=False))
