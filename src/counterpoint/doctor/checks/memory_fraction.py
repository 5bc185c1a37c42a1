"""JAX's share of GPU memory leaves too little for others, or is invalid.

## What it does

Checks `XLA_CLIENT_MEM_FRACTION` (formerly `XLA_PYTHON_CLIENT_MEM_FRACTION`),
`XLA_PYTHON_CLIENT_PREALLOCATE` and `XLA_PYTHON_CLIENT_ALLOCATOR`.

## Why it costs time

NCCL's buffers, CUDA's context and library workspaces are outside JAX's pool. With a share of 0.98,
their allocation fails, often only at the first collective of a large run.

## How it is detected

The check computes the memory that the share leaves on the smallest GPU: less than 2 GiB is a
warning (rule of thumb: the context and cuBLAS take several hundred MB, NCCL more with each
communicator). If the size is unknown, a share above 0.95 is a warning. JAX exits if a value is not
a number, or if both variables are set.

## Example

```sh
export XLA_CLIENT_MEM_FRACTION=0.98
```

## Fix

Use 0.90 to 0.92 on a GPU with 80 GB.

## Fix safety

A smaller pool may be too small for the step: `counterpoint predict` shows the memory it needs.

## False alarms

A run on one GPU has no NCCL and needs less.

## References

- https://docs.jax.dev/en/latest/gpu_memory_allocation.html
- https://github.com/jax-ml/jax/blob/main/jaxlib/xla_client.py
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterpoint.doctor.facts import HostFacts
from counterpoint.doctor.result import CheckResult, Status, not_applicable, ok

CODE: Final = "DOC306"
NAME: Final = "memory-fraction"
SINCE: Final = "0.1"

_NAMES: Final = ("XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION")
_DEFAULT: Final = 0.75
_LEAST: Final = 2 * 2**30
_MOST: Final = 0.95
_SOURCE: Final = "https://docs.jax.dev/en/latest/gpu_memory_allocation.html"
_CODE: Final = "https://github.com/jax-ml/jax/blob/main/jaxlib/xla_client.py"


def check(facts: HostFacts) -> Iterator[CheckResult]:
    """Yield verdicts on the share of memory, then on preallocation."""
    if not facts.has_driver:
        yield not_applicable(facts.gpus.why_none)
        return
    names = [name for name in _NAMES if facts.environment.get(name)]
    faults = [*_share(facts, names), *_pool(facts)]
    yield from faults
    if not faults:
        share = f"{names[0]}={facts.environment[names[0]]}" if names else f"{_DEFAULT}, the default"
        yield ok(f"JAX's share of GPU memory: {share}")


def _share(facts: HostFacts, names: list[str]) -> Iterator[CheckResult]:
    if len(names) > 1:
        yield _bad(
            Status.ERROR,
            f"both {' and '.join(names)} are set",
            "one of them",
            "JAX exits with a ValueError",
            f"unset {names[1]}",
            _CODE,
        )
    elif names:
        yield from _value(facts, names[0], facts.environment[names[0]])


def _value(facts: HostFacts, name: str, text: str) -> Iterator[CheckResult]:
    try:
        share = float(text)
    except ValueError:
        why = "JAX exits with a ValueError"
        yield _bad(Status.ERROR, f"{name}={text}", "a number", why, f"unset {name}", _CODE)
        return
    unified = facts.environment.get("TF_FORCE_UNIFIED_MEMORY", "") not in ("", "0", "false")
    if not 0 < share <= 1 and not (unified and share > 1):
        why = "a pool of that size is possible only with unified memory"
        yield _bad(Status.ERROR, f"{name}={text}", "0 to 1", why, f"export {name}=0.9", _SOURCE)
        return
    if unified or facts.environment.get("XLA_PYTHON_CLIENT_ALLOCATOR", "").lower() == "platform":
        return
    sizes = [card.memory_bytes for card in facts.gpus.cards if card.memory_bytes]
    left = (1 - share) * min(sizes) if sizes else None
    if share > _MOST if left is None else left < _LEAST:
        rest = "" if left is None else f", which leaves {left / 2**30:,.1f} GiB of a GPU"
        several = len(facts.gpus.cards) > 1 or facts.hosts > 1
        yield _bad(
            Status.WARNING if several else Status.NOTE,
            f"{name}={text}{rest}",
            "2 GiB outside the pool (rule of thumb)",
            "NCCL's buffers, CUDA's context and workspaces are outside JAX's pool",
            f"export {name}={_advised(sizes):.2f}",
            _SOURCE,
        )


def _advised(sizes: list[int]) -> float:
    """Return a share that leaves 10%, or 2 GiB if that is more."""
    return min(0.9, 1 - _LEAST / min(sizes)) if sizes and min(sizes) > 2 * _LEAST else 0.9


def _pool(facts: HostFacts) -> Iterator[CheckResult]:
    text = facts.environment.get("XLA_PYTHON_CLIENT_PREALLOCATE", "")
    if text in ("false", "False", "0"):
        yield _bad(
            Status.NOTE,
            f"XLA_PYTHON_CLIENT_PREALLOCATE={text}: the pool grows on demand",
            "unset, for training",
            "memory becomes fragmented, and a large step may no longer fit",
            "unset XLA_PYTHON_CLIENT_PREALLOCATE",
            _SOURCE,
        )


def _bad(
    status: Status, found: str, wanted: str, why: str, remedy: str, source: str
) -> CheckResult:
    return CheckResult(
        status=status, found=found, wanted=wanted, why=why, remedy=remedy, source=source
    )
