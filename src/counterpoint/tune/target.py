"""The target of a request: the one that it names, or else the GPUs of this machine."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from counterpoint.core import UsageError
from counterpoint.core.arguments import Retry
from counterpoint.hardware import Target, find_described, find_gpu
from counterpoint.hardware.targets import parse_target
from counterpoint.tune.executors.choose import executor_kind, named_here
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


def resolve_target(asked: TuneRequest, say: Say) -> TuneRequest:
    """Check the request; set the target to this machine's GPUs if nothing else was named."""
    check(asked)
    if asked.workload is not None:
        with in_words_of_tune():
            require_source(asked.workload)
    if asked.measure:
        refuse_small(asked.online_plan)
    elsewhere = _gpus_elsewhere(asked)
    by_hand = asked.arms or asked.plan.space_file is not None
    if elsewhere is not None and asked.target is None and not by_hand:
        raise _nothing_for_the_cluster(asked.plan.shape.nodes, elsewhere)
    if asked.target is not None or by_hand or not named_here(asked.executor):
        return asked
    gpus = own_gpus(asked.inherited)
    if gpus is None:
        raise UsageError(
            "nothing to try: neither settings nor a target were given",
            why="this machine has no GPUs that Counterpoint knows, and there is no `arm=`",
            next=Retry({"target": example_target(asked.plan.shape.nodes)}),
        )
    say(f"using this machine's GPUs as the target: {gpus}")
    return replace(asked, target=gpus)


def _gpus_elsewhere(asked: TuneRequest) -> int | None:
    """Check the options of the place; return the GPUs of a node if trials do not run on these."""
    if not asked.measure:
        return None
    options, environ = asked.executor_options, asked.inherited
    kind = executor_kind(asked.executor, options, environ)
    shape, study = asked.plan.shape, asked.directory
    return kind.gpus_elsewhere(
        PlaceRequest(shape=shape, options=options, environ=environ, study=study)
    )


def _nothing_for_the_cluster(nodes: int, gpus: int) -> UsageError:
    """Return the error for trials elsewhere: this machine does not tell what they run on."""
    return UsageError(
        "nothing to try: neither settings nor a target were given",
        why="the GPUs of the cluster are not known here, and there is no `arm=`",
        next=Retry({"target": example_target(nodes, gpus)}, remark="with the name of your GPUs")
        if gpus
        else Retry({"arm": "FLAGS"}, remark="flags or variables to try"),
    )
