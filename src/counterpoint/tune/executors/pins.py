"""Which GPUs and CPUs of this machine trials are to have, checked against what is here."""

from __future__ import annotations

import os
from collections.abc import Mapping

from counterpoint.capture.world import count_gpus
from counterpoint.core.errors import UsageError


def read_gpus(text: str, environ: Mapping[str, str]) -> tuple[str, ...]:
    """As CUDA_VISIBLE_DEVICES has them: numbers or UUIDs, of those that we may use."""
    named = tuple(part.strip() for part in text.split(","))
    bad = [it for it in named if not (it.isdecimal() or it.startswith(("GPU-", "MIG-")))]
    if bad or len(set(named)) < len(named):
        raise UsageError(
            f"--gpus takes numbers with commas between, not {text!r}", next="--gpus 0,1"
        )
    shown = environ.get("CUDA_VISIBLE_DEVICES")
    allowed = (
        tuple(part.strip() for part in shown.split(",") if part.strip())
        if shown is not None
        else tuple(map(str, range(count_gpus(environ))))
    )
    strange = [it for it in named if it.isdecimal() and it not in allowed]
    if strange:
        why = "CUDA_VISIBLE_DEVICES shows" if shown is not None else "nvidia-smi lists"
        raise UsageError(
            f"--gpus {text}: there is no GPU {', '.join(strange)} for us",
            why=f"{why} {', '.join(allowed) or 'none'}",
        )
    return named


def read_cpus(text: str) -> tuple[int, ...]:
    """Numbers and ranges, `0-3,8`, of those that we may use."""
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()) or int(last or 0) > 1 << 16:
            raise UsageError(f"--cpus takes numbers and ranges, not {text!r}", next="--cpus 0-3,8")
        found |= set(range(int(first), int(last or first) + 1))
    allowed = os.sched_getaffinity(0)
    strange = sorted(found - allowed)
    if strange or not found:
        raise UsageError(
            f"--cpus {text}: we may not use CPU {', '.join(map(str, strange[:8]))}",
            why=f"this process may use {', '.join(map(str, sorted(allowed)[:64]))}",
        )
    return tuple(sorted(found))
