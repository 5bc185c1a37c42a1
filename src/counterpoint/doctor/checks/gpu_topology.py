"""GPUs of the host are not all connected by NVLink, although others are.

## What it does

Reads the matrix of `nvidia-smi topo -m`.

## Why it costs time

A collective is as fast as the slowest link of its ring. A missing bridge between two GPUs, or a GPU
on another board, sends part of the traffic over PCIe.

## How it is detected

A mixture of NVLink and PCIe among the pairs, or NVLink of different widths, is a note: boards with
bridges between pairs are built that way. GPUs that always have NVLink (SXM) without any NVLink are
a warning.

## Example

```
GPU 0 and GPU 5: SYS, where other pairs have NV18
```

## Fix

Choose GPUs that are connected (`CUDA_VISIBLE_DEVICES`), or check the links: `nvidia-smi nvlink -s`.

## Fix safety

Reading changes nothing.

## References

- https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from counterpoint.doctor.facts import HostFacts
from counterpoint.doctor.result import CheckResult, Status, not_applicable, ok, unknown

CODE: Final = "DOC505"
NAME: Final = "gpu-topology"
SINCE: Final = "0.1"

_SOURCE: Final = "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html"
_WITH_NVLINK: Final = ("SXM", "HBM3")
"""Parts of names of GPUs that always have NVLink; PCIe and NVL cards may lack bridges."""


def check(facts: HostFacts) -> Iterator[CheckResult]:
    """Yield one verdict on the links between pairs of GPUs."""
    gpus = facts.gpus
    if not facts.has_driver:
        yield not_applicable(gpus.why_none)
        return
    if len(gpus.cards) < 2:
        yield not_applicable("fewer than two GPUs")
        return
    if not gpus.links:
        yield unknown("`nvidia-smi topo -m` printed no links")
        return
    kinds = Counter(kind for _, _, kind in gpus.links)
    linked = [kind for kind in kinds if kind.startswith("NV")]
    if not linked:
        yield _without(facts)
    elif len(kinds) > 1:
        yield _mixed(facts, kinds)
    else:
        yield ok(f"all {len(gpus.links)} pairs of GPUs: {linked[0]}")


def _without(facts: HostFacts) -> CheckResult:
    built = [
        card.name
        for card in facts.gpus.cards
        if any(word in card.name for word in _WITH_NVLINK) and "PCIe" not in card.name
    ]
    kinds = ", ".join(sorted({kind for _, _, kind in facts.gpus.links}))
    if not built:
        return ok(f"GPUs are connected over PCIe ({kinds})")
    return CheckResult(
        status=Status.WARNING,
        found=f"{built[0]}: no NVLink between GPUs ({kinds})",
        wanted="NVLink between all pairs",
        why="collectives within the host use PCIe",
        remedy="nvidia-smi nvlink -s   # and: systemctl status nvidia-fabricmanager",
        source=_SOURCE,
    )


def _mixed(facts: HostFacts, kinds: Counter[str]) -> CheckResult:
    least = min(kinds, key=lambda kind: (kinds[kind], kind))
    gpu, other_gpu, _ = next(link for link in facts.gpus.links if link[2] == least)
    usual = kinds.most_common(1)[0][0]
    return CheckResult(
        status=Status.NOTE,
        found=f"GPU {gpu} and GPU {other_gpu}: {least}, where most pairs have {usual}",
        wanted="the same link between all GPUs of a collective",
        why="a ring is as fast as its slowest link",
        remedy="nvidia-smi topo -m",
        source=_SOURCE,
    )
