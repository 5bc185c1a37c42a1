"""The GPUs of this machine, as a target: what a command will run on if nobody says more."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from counterpoint.hardware import Target, parse_target
from counterpoint.hardware.gpu import find_described, find_gpu

_SECONDS: Final = 60


def own_gpus(environ: Mapping[str, str]) -> Target | None:
    """All of one kind, or as many of them as CUDA is shown; None where there are none we know."""
    tool = shutil.which("nvidia-smi", path=environ.get("PATH"))
    if tool is None:
        return None
    try:
        listed = subprocess.run(  # noqa: S603
            [tool, "--query-gpu=name", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    names = [it.strip() for it in listed.stdout.splitlines() if it.strip()]
    return target_of(names, environ.get("CUDA_VISIBLE_DEVICES"))


def target_of(names: list[str], shown: str | None) -> Target | None:
    """The target of GPUs with these names."""
    kinds = {
        it.name
        for name in names
        if (it := find_described(name) or find_gpu(name.removeprefix("NVIDIA ")))
    }
    if len(kinds) != 1 or len(set(names)) != 1:
        return None
    count = len(names)
    if shown is not None:
        count = min(count, len([it for it in shown.split(",") if it.strip()]))
    # A machine that is there may be larger than any that is sold.
    return replace(parse_target(f"1x{kinds.pop()}"), gpus_per_host=count) if count else None
