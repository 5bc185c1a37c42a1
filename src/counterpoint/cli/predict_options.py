"""Options of `predict`, and the question that they form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

from cyclopts import Parameter

from counterpoint.cli.output import check_digest, check_number
from counterpoint.core import InputError, UsageError

if TYPE_CHECKING:
    from counterpoint.hardware.target import Target
    from counterpoint.workflow.prediction import PredictionOptions


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class CompileOptions:
    """The settings and devices to compile for.

    Args:
        target: The devices: 8xH100, 64x8xH100:400G for 64 hosts with a NIC per GPU, or a .toml.
        set_: A flag of XLA: xla_gpu_...=value. --set
            xla_gpu_pgle_profile_file_or_directory_path=FILE gives the compiler a profile.
        env: A variable: NAME=value. XLA_PYTHON_CLIENT_MEM_FRACTION sets the available memory.
        recipe: A recipe's name, or a file of settings; --set and --env override it.
        candidate: Settings to rank, on top of these: flags in quotes, a file, a recipe's name.
        program: The program to predict; by default the one with the most FLOPs, with what else
            an iteration of a command's loop calls.
        devices: Number of devices to lower a function or a command for; by default the target's.
        jobs: Number of concurrent compiles; by default as many as cores and memory allow.
        timeout: Time limit of one compile or lowering, in seconds.
        schedule_only: On TPUs, stop libtpu when it has scheduled: seconds instead of minutes, but
            prices are formulas, and of the memory only the buffers are known.
    """

    target: str | None = None
    set_: Annotated[
        tuple[str, ...],
        Parameter(allow_leading_hyphen=True),
    ] = ()
    env: tuple[str, ...] = ()
    recipe: tuple[str, ...] = ()
    candidate: Annotated[tuple[str, ...], Parameter(allow_leading_hyphen=True)] = ()
    program: str | None = None
    devices: int | None = None
    jobs: int | None = None
    timeout: float = 900.0
    schedule_only: bool = False


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class DigestOptions:
    """A short form of the answer.

    Args:
        as_: Print a digest: the most important lines, for a program that reads text.
        budget: Characters of the digest; by default 1,500.
    """

    as_: Literal["digest"] | None = None
    budget: int | None = None

    def size(self, *, json: bool) -> int | None:
        """Return the characters of the digest; None if none is wanted."""
        return check_digest(self.as_, self.budget, json=json)


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class PriceOptions:
    """The sources of prices, and questions about them.

    Args:
        profile: Measured costs of this workload: a PGLE profile, a recording or a Run.
            The compiler does not see them.
        nccl_table: A log of nccl-tests on your network; precedes the shipped tables.
        gemm_table: A CSV of GEMM benchmarks on your GPU; precedes the shipped tables.
        kernel_table: A TOML file with the costs of your own kernels (custom calls).
        calibration: Output of `counterpoint calibrate`.
        trips: How often a loop turns whose trip count is unknown: NAME=N, by its instruction or its
            source line (while.5=40, train.py:12=40).
        trips_from: A Run or a profile of the same program, on any devices, that measures this.
        what_if: Other hardware, same schedule: nic=2x,hbm=1.5x,collective:all-gather=0.
        against: Compare with a measurement: a Run or a recording.
        pgle: Estimate the maximum gain from a profile of real costs (PGLE); takes no file.
        pgle_out: Save the predicted costs as a profile: .pbtxt or .pb.
        jitter: Add random variation between devices, with this seed.
    """

    profile: Path | None = None
    nccl_table: tuple[Path, ...] = ()
    gemm_table: Path | None = None
    kernel_table: Path | None = None
    calibration: Path | None = None
    trips: tuple[str, ...] = ()
    trips_from: Path | None = None
    what_if: tuple[str, ...] = ()
    against: Path | None = None
    pgle: bool = False
    pgle_out: Path | None = None
    jitter: int | None = None


_PROFILES: Final = (".pbtxt", ".pb")
_COMPILED_WITH: Final = "xla_gpu_pgle_profile_file_or_directory_path"


def checked_prices(
    prices: PriceOptions | None, words: Sequence[str], target: Target | None
) -> PriceOptions:
    """Refuse a profile after --pgle, which would be taken for the workload or its command."""
    if prices is None:
        return PriceOptions()
    alone = len(words) == 1
    last = words[1:] if len(words) == 2 else ()
    taken = next(
        (it for it in (words[0], *last) if it.endswith(_PROFILES[:1] if alone else _PROFILES)), None
    )
    if not prices.pgle or taken is None:
        return prices
    if target is not None and target.tpu is not None:
        raise UsageError(
            f"--pgle takes no file, but {taken} follows it",
            why="it estimates what a profile of real costs could gain; `counterpoint pgle apply`"
            " gives libtpu one",
            next="omit --pgle",
        )
    raise UsageError(
        f"--pgle takes no file, but {taken} follows it",
        why="it estimates what a profile of real costs could gain. --profile FILE gives the costs"
        f" of one to the prices, and --set {_COMPILED_WITH}=FILE gives it to the compiler",
        next=f"omit --pgle, use --set {_COMPILED_WITH}={taken}",
    )


def make_question(
    compile_: CompileOptions, prices: PriceOptions, target: Target | None, *, force: bool
) -> PredictionOptions:
    """Return the question that the options describe, checked."""
    from counterpoint.workflow import base_settings
    from counterpoint.workflow.prediction import PredictionOptions, check_gain_place

    check_number("--devices", compile_.devices, 1)
    check_number("--jobs", compile_.jobs, 1)
    check_number("--jitter", prices.jitter, 0)
    if not 0 < compile_.timeout < float("inf"):
        raise UsageError(
            f"--timeout takes a number of seconds above 0, not {compile_.timeout:g}",
            next="use --timeout 600",
        )
    if prices.pgle_out is not None:
        check_gain_place(prices.pgle_out, overwrite=force)
    chip = target.gpu if target is not None else None
    settings = base_settings(compile_.recipe, compile_.set_, compile_.env, chip=chip)
    given = settings.flags.get(_COMPILED_WITH)
    if given and not Path(given).exists():
        raise InputError(
            f"--set {_COMPILED_WITH}={given}: no such file or directory",
            why="XLA logs an error at most and compiles without the profile",
            next="counterpoint pgle make PROFILE... -o FILE.pbtxt",
        )
    return PredictionOptions(
        settings=settings,
        recipes=compile_.recipe,
        candidates=compile_.candidate,
        profile=prices.profile,
        against=prices.against,
        trips=prices.trips,
        trips_from=prices.trips_from,
        what_if=prices.what_if,
        pgle=prices.pgle or prices.pgle_out is not None,
        pgle_out=prices.pgle_out,
        overwrite=force,
        nccl_tables=prices.nccl_table,
        gemm_table=prices.gemm_table,
        kernel_table=prices.kernel_table,
        calibration=prices.calibration,
        jitter=prices.jitter,
        devices=compile_.devices,
        jobs=compile_.jobs,
        timeout_s=compile_.timeout,
        schedule_only=compile_.schedule_only,
    )
