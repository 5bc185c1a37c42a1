"""A study before anything ran, made by hand."""

from __future__ import annotations

from typing import Final

from counterpoint.flags.settings import Settings
from counterpoint.tune.arm import Acts, ArmOrigin
from counterpoint.tune.dryrun import DryRun
from counterpoint.tune.race.budget import StudyCost
from counterpoint.tune.space.space import Dimension, LeftOut, Space
from tune_conclusions import NVLS, PIPELINED, THRESHOLD, arm

SPACE: Final = Space(
    base=Settings((("xla_gpu_x", "1"),)),
    dimensions=(
        Dimension(
            name="all-gather threshold",
            choices=(THRESHOLD,),
            why="larger all-gathers use the links better",
            source="the program's break points",
        ),
        Dimension(name="NVLS", choices=(NVLS,), acts=Acts.RUNTIME, why="only the run can tell"),
    ),
    seeds=(arm("fsdp", PIPELINED, origin=ArmOrigin.RECIPE),),
    left_out=(LeftOut("collective matmul", "the program has no matmul behind a collective"),),
    notes=("the flags are those of jaxlib 0.10.2",),
)
PLAN: Final = DryRun(
    workload="python train.py",
    target="8xH100",
    executor="local: 1 node, 1 process",
    space=SPACE,
    arms=(*SPACE.seeds, arm("all-gather threshold 512 MiB", THRESHOLD), arm("NVLS off", NVLS)),
    compiles=100,
    cost=StudyCost(
        expected_trials=31,
        most_trials=60,
        expected_seconds=3720.0,
        most_seconds=7200.0,
        left_out=2,
    ),
    trial_s=120.0,
    nodes=2,
    base_step_s=0.131,
)
