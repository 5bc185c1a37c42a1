"""The target of a request: the one that it names, or else the GPUs of this machine."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from counterpoint.core import UsageError
from counterpoint.hardware.chip import find_described, find_gpu
from counterpoint.hardware.target import Target
from counterpoint.hardware.targets import parse_target
from counterpoint.tune.executors.choose import executor_kind, runs_here
from counterpoint.tune.executors.executor import PlaceRequest
from counterpoint.tune.race.budget import refuse_small
from counterpoint.tune.request import (
    Say,
    TuneRequest,
    check,
    example_target,
    in_words_of_tune,
)
from counterpoint.workflow import require_source

_SECONDS: Final = 60


def own_gpus(environ: Mapping[str, str]) -> Target | None:
    """Return this machine's visible GPUs as a target; None if unknown or of several kinds."""
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
    names = [line.strip() for line in listed.stdout.splitlines() if line.strip()]
    return target_of(names, environ.get("CUDA_VISIBLE_DEVICES"))


def target_of(names: list[str], shown: str | None) -> Target | None:
    """Return the target for GPUs with these names."""
    kinds = {
        gpu.name
        for name in names
        if (gpu := find_described(name) or find_gpu(name.removeprefix("NVIDIA ")))
    }
    if len(kinds) != 1 or len(set(names)) != 1:
        return None
    count = len(names)
    if shown is not None:
        count = min(count, len([device for device in shown.split(",") if device.strip()]))
    # The machine may have more GPUs than any that is sold.
    return replace(parse_target(f"1x{kinds.pop()}"), gpus_per_host=count) if count else None


def resolve_target(request: TuneRequest, say: Say) -> TuneRequest:
    """Check the request; set the target to this machine's GPUs if nothing else was named."""
    check(request)
    if request.workload is not None:
        with in_words_of_tune():
            require_source(request.workload)
    if request.measure:
        refuse_small(request.online_plan)
    elsewhere = _gpus_elsewhere(request)
    by_hand = request.arms or request.plan.space_file is not None
    if elsewhere is not None and request.target is None and not by_hand:
        raise _nothing_for_the_cluster(request.plan.shape.nodes, elsewhere)
    if request.target is not None or by_hand or not runs_here(request.executor):
        return request
    gpus = own_gpus(request.inherited)
    if gpus is None:
        raise UsageError(
            "nothing to try: neither settings nor a target were given",
            why="this machine has no GPUs that Counterpoint knows, and there is no --arm",
            next=f"use --target {example_target(request.plan.shape.nodes)}",
        )
    say(f"using this machine's GPUs as the target: {gpus}")
    return replace(request, target=gpus)


def _gpus_elsewhere(request: TuneRequest) -> int | None:
    """Check the options of the place; return the GPUs of a node if trials do not run on these."""
    if not request.measure:
        return None
    options, environ = request.executor_options, request.inherited
    kind = executor_kind(request.executor, options, environ)
    shape, study = request.plan.shape, request.directory
    return kind.gpus_elsewhere(
        PlaceRequest(shape=shape, options=options.of(kind), environ=environ, study=study)
    )


def _nothing_for_the_cluster(nodes: int, gpus: int) -> UsageError:
    """Return the error for trials elsewhere: this machine does not tell what they run on."""
    return UsageError(
        "nothing to try: neither settings nor a target were given",
        why="the GPUs of the cluster are not known here, and there is no --arm",
        next=f"use --target {example_target(nodes, gpus)}: with the name of your GPUs"
        if gpus
        else "use --arm FLAGS: flags or variables to try",
    )
