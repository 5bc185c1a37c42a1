"""Options of `tune`: what is tried, how it is measured, and where it runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Group, Parameter

from counterpoint.tune.executors.choose import EXECUTORS, NO_OPTIONS, ExecutorOptions

Flags = Annotated[tuple[str, ...], Parameter(allow_leading_hyphen=True)]
Value = Annotated[str | None, Parameter(allow_leading_hyphen=True)]  # -5% is not an option

if TYPE_CHECKING:
    ExecutorName = str
else:
    ExecutorName = Literal[tuple(kind.name for kind in EXECUTORS)]
_EXECUTOR_HELP = (
    f"{'; '.join(f'{kind.name}: {kind.summary}' for kind in EXECUTORS)}. The default is what the"
    " environment suggests (a Slurm job, or a Ray cluster's address), otherwise this machine."
)

_TRIED = Group("Settings to try", sort_key=1)
_PREDICTED = Group("Prediction (with --target)", sort_key=2)
_MEASURED = Group("Measurement (with a command)", sort_key=3)
_PLACE = Group("Where trials run", sort_key=4)


@Parameter(name="*", group=_TRIED)
@dataclass(frozen=True, slots=True)
class TriedOptions:
    """The base, and the settings tried on top of it.

    Args:
        set_: Add an XLA flag to the base: xla_gpu_...=value.
        env: Add an environment variable to the base: NAME=value.
        recipe: Add a recipe, or the settings in a file, to the base, before --set and --env.
        arm: Try these settings: flags in quotes, a file, or a recipe, or options of the command:
            '--batch 16'; repeatable.
        vary: Try these values of an option of the command, an arm each: batch=16,32; repeatable.
        space: TOML or JSON file that adds, fixes or drops dimensions, or names arms.
        seed: Seed for all random choices.
    """

    set_: Annotated[tuple[str, ...], Parameter(allow_leading_hyphen=True)] = ()
    env: tuple[str, ...] = ()
    recipe: tuple[str, ...] = ()
    arm: Flags = ()
    vary: Flags = ()
    space: Path | None = None
    seed: int = 0


@Parameter(name="*", group=_PREDICTED)
@dataclass(frozen=True, slots=True)
class SearchOptions:
    """The prediction: its workload, target and prices.

    Args:
        predict: Predict from this workload: a file, a dump, a Run, or file.py:function, which runs
            that file. Without a value, the command after `--` is lowered, not trained. With both,
            the search uses the workload, and the command is measured.
        target: Devices: 8xH100, 64x8xH100:400G for 64 hosts with one NIC per GPU, or a .toml.
        candidates: Maximum number of candidates to compile. Default: 100, or 24 for TPUs without
            --schedule-only.
        schedule_only: On TPUs, stop libtpu when it has scheduled: seconds instead of minutes for
            each candidate, but prices are formulas, blind to changes of machine code.
        shortlist: Maximum number of candidates to measure.
        program: Program to tune, if there are several; default: the one with the most FLOPs.
        devices: Number of devices to lower a function or a command for; default: the target's.
        jobs: Number of parallel compiles; default: as many as cores and memory allow.
        compile_timeout: Time limit in seconds for each compile or lowering.
        profile: Use measured costs: a PGLE profile, a recording or a Run.
        nccl_table: Log of nccl-tests on your network, used before the built-in tables.
        gemm_table: CSV of GEMM benchmarks on your GPU, used before the built-in tables.
        kernel_table: TOML with the costs of your own kernels.
        calibration: Scalars fitted by `counterpoint calibrate`.
    """

    predict: Annotated[tuple[str, ...] | None, Parameter(consume_multiple=True)] = None
    target: str | None = None
    candidates: int | None = None
    shortlist: int = 8
    program: str | None = None
    devices: int | None = None
    jobs: int | None = None
    compile_timeout: float = 900.0
    schedule_only: bool = False
    profile: Path | None = None
    nccl_table: tuple[Path, ...] = ()
    gemm_table: Path | None = None
    kernel_table: Path | None = None
    calibration: Path | None = None


@Parameter(name="*", group=_MEASURED)
@dataclass(frozen=True, slots=True)
class RaceOptions:
    """The measurement, and when it ends.

    Args:
        budget: Limit on the trials: 4h, 90m, 20trials, or '20 trials, 2h'; default: 2h. A larger
            one continues a study.
        target_gain: Stop when this gain is shown, for example 2%.
        confirm: Maximum number of arms found by the search to measure, in addition to those of
            --arm and --space; default: --shortlist; 0: none.
        confirm_rows: Number of fresh runs of the winner and of the base, in a fresh allocation;
            more (up to --cap) if runs differ much; 0: none, otherwise at least 2.
        cap: Maximum number of rows (one pass through the base and the arms) per arm.
        indifferent: Gains and losses within this share of the step do not count.
        steps: Number of steps after which a trial ends; default: the program ends by itself.
        timeout: Time limit of a trial in seconds.
        hang_after: Seconds without output, compile or step after which a trial is ended.
        loss_tolerance: Allowed deviation of the losses from the base's, for example 0.1%;
            default: derived from the differences between runs of the base.
        ablate: Also measure the winner without each of its changes.
    """

    budget: Value = None
    target_gain: Value = None
    confirm: int | None = None
    confirm_rows: int = 4
    cap: int = 6
    indifferent: Annotated[str, Parameter(allow_leading_hyphen=True)] = "0.5%"
    steps: int | None = None
    timeout: float | None = None
    hang_after: float | None = None
    loss_tolerance: Value = None
    ablate: bool = False


@Parameter(name="*", group=_PLACE)
@dataclass(frozen=True, slots=True)
class PlaceOptions:
    """The place where trials run, and the number of processes.

    Args:
        executor: Where trials run; default: what the environment suggests, otherwise here.
        nodes: Number of nodes; default: those of the current allocation, or of --target.
        ranks_per_node: Number of processes per node, instead of --per.
        per: One process per GPU, or one per node.
    """

    executor: Annotated[ExecutorName | None, Parameter(help=_EXECUTOR_HELP)] = None
    nodes: int | None = None
    ranks_per_node: int | None = None
    per: Literal["gpu", "node"] = "node"
    own: ExecutorOptions = NO_OPTIONS


for group in (ExecutorOptions, *map(type, NO_OPTIONS.groups)):  # a value may begin with a hyphen
    Parameter(name="*", allow_leading_hyphen=True)(group)
