"""Options of `tune`: what is tried, how it is measured, and where it runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Group, Parameter

from counterpoint.cli.output import MaybeWholeNumber, WholeNumber

Many = Annotated[tuple[str, ...], Parameter(show_default=False)]
Flags = Annotated[tuple[str, ...], Parameter(show_default=False, allow_leading_hyphen=True)]
Value = Annotated[str | None, Parameter(allow_leading_hyphen=True)]  # -5% is not an option
Switch = Annotated[bool, Parameter(show_default=False)]

_TRIED = Group("What is tried", sort_key=1)
_PREDICTED = Group("Prediction, where there is a --target", sort_key=2)
_MEASURED = Group("Measurement, where there is a command", sort_key=3)
_PLACE = Group("Where trials run", sort_key=4)


@Parameter(name="*", group=_TRIED)
@dataclass(frozen=True, slots=True)
class TriedOptions:
    """The base, and what is tried on top of it.

    Args:
        set_: Of the base: a flag of XLA, xla_gpu_...=value.
        env: Of the base: a variable, NAME=value.
        recipe: Of the base: settings by a recipe's name or of a file, before --set and --env.
        arm: Settings of your own to try: flags in quotes, a file, a recipe's name; several.
        space: A TOML or JSON that adds, fixes or leaves out dimensions, or names arms.
        seed: Of all that is drawn.
    """

    set_: Annotated[
        tuple[str, ...], Parameter(name="--set", show_default=False, allow_leading_hyphen=True)
    ] = ()
    env: Many = ()
    recipe: Many = ()
    arm: Flags = ()
    space: Path | None = None
    seed: WholeNumber = 0


@Parameter(name="*", group=_PREDICTED)
@dataclass(frozen=True, slots=True)
class SearchOptions:
    """What is predicted, for what, and what prices it.

    Args:
        predict: Search without running anything: a file, a dump, a Run, file.py:function; alone,
            the command behind `--` is lowered, and not trained. With both, this is searched and
            the command measured.
        target: The devices: 8xH100, 64x8xH100:400G for 64 hosts with a NIC per GPU, or a .toml.
        candidates: Compile at most so many.
        shortlist: Of them so many are worth real time, at most.
        program: Of several programs this one; else the one with the most FLOPs.
        devices: Lower a function or a command for so many devices; else for the target's.
        jobs: Compile so many at once; else as many as cores and memory allow.
        compile_timeout: Seconds that one compile, or lowering, may take.
        profile: Price by what was measured: a PGLE profile, a recording or a Run.
        nccl_table: A log of nccl-tests on your network, before our tables.
        gemm_table: A CSV of GEMM benchmarks on your GPU, before our tables.
        kernel_table: A TOML of what your own kernels cost.
        calibration: Scalars that `counterpoint calibrate` fitted.
    """

    predict: Annotated[
        tuple[str, ...] | None, Parameter(consume_multiple=True, show_default=False)
    ] = None
    target: str | None = None
    candidates: WholeNumber = 100
    shortlist: WholeNumber = 8
    program: str | None = None
    devices: MaybeWholeNumber = None
    jobs: MaybeWholeNumber = None
    compile_timeout: float = 900.0
    profile: Path | None = None
    nccl_table: Annotated[tuple[Path, ...], Parameter(show_default=False)] = ()
    gemm_table: Path | None = None
    kernel_table: Path | None = None
    calibration: Path | None = None


@Parameter(name="*", group=_MEASURED)
@dataclass(frozen=True, slots=True)
class RaceOptions:
    """How it is measured, and when it ends.

    Args:
        budget: What may be spent on trials: 2h, 90m, 20trials, or '20 trials, 2h'.
        target_gain: Good enough: end once so much is shown, e.g. 2%.
        confirm: Measure so many of the arms that were found, at most, beside those of --arm and
            --space; else the shortlist. 0: none.
        confirm_rows: Fresh runs of the winner and of the base, in a fresh allocation, or more
            (up to --cap) where runs differ much; 0: none, else 2 at least.
        cap: Rows (one pass through the base and the arms) at most, before it stays undecided.
        indifferent: A gain or loss within this share of the step is none that counts.
        steps: End each trial after so many steps; else the program ends by itself.
        timeout: End a trial after so many seconds.
        hang_after: End it when nothing was printed, compiled or stepped for so many seconds.
        loss_tolerance: By how much losses may differ from the base's, e.g. 0.1%; else as much as
            those of the base differ among themselves.
        ablate: Measure the winner without each of its changes, too.
    """

    budget: Value = None
    target_gain: Value = None
    confirm: MaybeWholeNumber = None
    confirm_rows: WholeNumber = 4
    cap: WholeNumber = 6
    indifferent: Annotated[str, Parameter(allow_leading_hyphen=True)] = "0.5%"
    steps: MaybeWholeNumber = None
    timeout: float | None = None
    hang_after: float | None = None
    loss_tolerance: Value = None
    ablate: Switch = False


@Parameter(name="*", group=_PLACE)
@dataclass(frozen=True, slots=True)
class PlaceOptions:
    """Where trials run, and as how many processes.

    Args:
        executor: local, slurm (steps in one allocation), slurm-batch (a job for each trial), ray;
            else what is around us: a job of Slurm, a cluster of Ray, this machine.
        nodes: So many; else those of the allocation we are in, else of the --target.
        ranks_per_node: So many processes on each node; else --per.
        per: A process per GPU, or one for the node.
        gpus: Of this machine, those that trials get: 0,1.
        cpus: Of this machine, those that trials get: 0-7,16.
        slurm: Options for salloc or sbatch, in quotes: '--partition=h100 --time=4:00:00'.
        ray_address: Of the cluster; else the one that Ray finds.
    """

    executor: Literal["local", "slurm", "slurm-batch", "ray"] | None = None
    nodes: MaybeWholeNumber = None
    ranks_per_node: MaybeWholeNumber = None
    per: Literal["gpu", "node"] = "node"
    gpus: str | None = None
    cpus: str | None = None
    slurm: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None
    ray_address: str | None = None
