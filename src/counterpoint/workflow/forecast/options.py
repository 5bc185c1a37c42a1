"""Options of a prediction, and which of them GPUs or TPUs lack.

Commands have the same options: their names, defaults and help are those of the fields here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path

from counterpoint.compile.task import TIMEOUT_S
from counterpoint.core import UsageError
from counterpoint.core.arguments import option_of
from counterpoint.core.bounds import check_number
from counterpoint.flags.settings import Settings
from counterpoint.hardware.target import Target
from counterpoint.hardware.targets import parse_target
from counterpoint.workflow.variant import Variant


@dataclass(frozen=True, kw_only=True)
class Where:
    """What is compiled, and for which devices.

    Args:
        target: The devices: 8xH100, 64x8xH100:400G for 64 hosts with a NIC per GPU, or a .toml.
        program: The program, if there are several; by default the one with the most FLOPs.
    """

    target: str | None = None
    program: str | None = None

    def read(self) -> Target | None:
        """Return the target; None if none is named."""
        return None if self.target is None else parse_target(self.target, tpus=True)


@dataclass(frozen=True, kw_only=True)
class CompileOptions:
    """How a program is lowered and compiled.

    Args:
        devices: Number of devices to lower a function or a command for; by default the target's.
        jobs: Number of concurrent compiles; by default as many as cores and memory allow.
    """

    devices: int | None = None
    jobs: int | None = None

    def check(self) -> None:
        """Refuse numbers that make no sense."""
        check_number("--devices", self.devices, 1)
        check_number("--jobs", self.jobs, 1)


def check_timeout(seconds: float) -> None:
    """Refuse a time limit that makes no sense."""
    if not 0 < seconds < float("inf"):
        raise UsageError(
            f"--timeout takes a number of seconds above 0, not {seconds:g}",
            next="use --timeout 600",
        )


@dataclass(frozen=True, kw_only=True)
class PriceFiles:
    """Tables and factors that price a step on GPUs.

    Args:
        nccl_table: A log of nccl-tests on your network; precedes the shipped tables.
        gemm_table: A CSV of GEMM benchmarks on your GPU; precedes the shipped tables.
        kernel_table: A TOML file with the costs of your own kernels (custom calls).
        calibration: Output of `counterpoint calibrate`.
    """

    nccl_table: tuple[Path, ...] = ()
    gemm_table: Path | None = None
    kernel_table: Path | None = None
    calibration: Path | None = None

    @property
    def given(self) -> dict[str, object]:
        """The options with a value."""
        values = {each.name: getattr(self, each.name) for each in fields(PriceFiles)}
        return {name: value for name, value in values.items() if value}


@dataclass(frozen=True, kw_only=True)
class ForecastOptions(PriceFiles, CompileOptions):
    """What compiles and prices each candidate of `predict` and `tune`.

    Args:
        profile: Measured costs of this workload: a PGLE profile, a recording or a Run.
            The compiler does not see them.
        schedule_only: On TPUs, stop libtpu when it has scheduled: seconds instead of minutes, but
            prices are formulas, blind to changes of machine code, and of the memory only the
            buffers are known.
    """

    profile: str | None = None
    schedule_only: bool = False

    def refuse_those_of_others(self, target: Target) -> None:
        """Refuse what only predictions on GPUs have so far, and on GPUs what only TPUs have."""
        if target.tpu is None:
            if self.schedule_only:
                raise UsageError(
                    f"--schedule-only is for TPUs, and {target} has GPUs",
                    why="XLA:GPU compiles a step in seconds, machine code included",
                    next="omit --schedule-only",
                )
            return
        for name in self.given:
            raise UsageError(
                f"{option_of(name)} is for GPUs, and {target} has TPUs",
                why="docs/guide/tpu.md lists what predictions on TPUs have",
                next=f"omit {option_of(name)}",
            )


@dataclass(frozen=True, kw_only=True)
class QuestionOptions:
    """What is asked of the prediction, beside the time of the step.

    Args:
        trips: How often a loop turns whose trip count is unknown: NAME=N, by its instruction or its
            source line (while.5=40, train.py:12=40).
        trips_from: A Run or a profile of the same program, on any devices, that measures this.
        what_if: Other hardware, same schedule: nic=2x,hbm=1.5x,collective:all-gather=0.
        against: Compare with a measurement: a Run or a recording.
        pgle: Estimate the maximum gain from a profile of real costs (PGLE); takes no file.
        pgle_out: Save the predicted costs as a profile: .pbtxt or .pb.
        jitter: Add random variation between devices, with this seed.
    """

    trips: tuple[str, ...] = ()
    trips_from: str | None = None
    what_if: tuple[str, ...] = ()
    against: str | None = None
    pgle: bool = False
    pgle_out: Path | None = None
    jitter: int | None = None

    @property
    def wants_gain(self) -> bool:
        """Whether the gain from a profile of real costs is wanted."""
        return self.pgle or self.pgle_out is not None


@dataclass(frozen=True, kw_only=True)
class PredictionOptions(ForecastOptions, QuestionOptions):
    """The inputs of a prediction other than its workload and target.

    Args:
        settings: The base.
        recipes: Names and files that the settings came from.
        candidates: Settings to rank, on top of the base.
        overwrite: Whether a file at `pgle_out` is overwritten.
        inherited: The variables of the shell, which are not used.
        timeout_s: Time limit of one compile or lowering, in seconds.
    """

    settings: Settings = field(default_factory=Settings)
    recipes: tuple[str, ...] = ()
    candidates: tuple[str | Variant, ...] = ()
    overwrite: bool = False
    inherited: Mapping[str, str] = field(default_factory=dict[str, str])
    timeout_s: float = TIMEOUT_S

    def check(self) -> None:
        """Refuse numbers that make no sense."""
        super().check()
        check_timeout(self.timeout_s)
        check_number("--jitter", self.jitter, 0)
