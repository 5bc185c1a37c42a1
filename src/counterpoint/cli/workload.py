"""Options of commands that run a workload: its directory, its Settings, what is profiled."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal

from cyclopts import Parameter

from counterpoint.capture import ProfileSchedule, RunRequest, find_interpreter
from counterpoint.core import UsageError, refuse_url
from counterpoint.core.bounds import check_number
from counterpoint.flags.lines.line import parse_settings
from counterpoint.flags.lines.source import load_settings
from counterpoint.flags.recipe import recipes
from counterpoint.flags.settings import Settings

_SHORTEST: Final = 0.001  # seconds


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class WorkloadOptions:
    """Options for running the workload.

    Args:
        settings: A settings file or a recipe; may be repeated, and all apply.
        set_: An XLA flag, xla_gpu_...=value; follows the inherited XLA_FLAGS.
        env: An environment variable: NAME=value.
        name: Name of the run.
        out: Directory for the run; it must be empty or not exist yet.
        ranks: Number of local processes; not under srun or mpirun.
        per: Without --ranks: one process per GPU, or one for the node.
        timeout: End the run after this many seconds.
        hang_after: End it after this many seconds without output, a compile or a step.
        stop_after_steps: End it successfully after this many steps on all ranks.
    """

    settings: tuple[str, ...] = ()
    set_: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    name: str | None = None
    out: Annotated[Path | None, Parameter(name=["--out", "-o"])] = None
    ranks: int | None = None
    per: Literal["gpu", "node"] = "node"
    timeout: float | None = None
    hang_after: float | None = None
    stop_after_steps: int | None = None


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class ProfileOptions:
    """Options for the profile.

    Args:
        profile_start_step: First step to profile, counted from 0, or numbered as in the
            program's own StepTraceAnnotation.
        profile_steps: Number of steps to profile; by default 10.
        profile_after_quiet: Start the profile after this many seconds without a compile.
        profile_seconds: Length of the profile in seconds, if steps cannot be counted.
        no_profile: Run without a profile.
        profile_in_pieces: Write the profile piece by piece, so that it may exceed 2 GB: with JAX
            0.11.1 or later, not on GPUs. It then contains no HLO.
        profile_python: Record each call of the host's Python, which makes steps longer; otherwise
            its stacks are sampled.
        perfetto_link: When the run is done, serve the profile to ui.perfetto.dev and wait.
        processes: Ranks to profile: all, or numbers separated by commas.
    """

    profile_start_step: int | None = None
    profile_steps: int | None = None
    profile_after_quiet: float | None = None
    profile_seconds: float | None = None
    no_profile: bool = False
    profile_in_pieces: bool = False
    profile_python: bool = False
    perfetto_link: bool = False
    processes: str = "all"

    @property
    def is_explicit(self) -> bool:
        """True if a profile was requested, not only allowed."""
        given = (
            self.profile_start_step,
            self.profile_steps,
            self.profile_after_quiet,
            self.profile_seconds,
        )
        return not self.no_profile and any(value is not None for value in given)


def make_request(
    command: Sequence[str],
    workload: WorkloadOptions,
    profile: ProfileOptions,
    *,
    echo: bool | Literal["stderr"] = True,
) -> RunRequest:
    """Return the request that the options describe, checked."""
    if workload.out is not None:
        refuse_url(workload.out)
    check_number("--ranks", workload.ranks, 1)
    check_number("--timeout", workload.timeout, _SHORTEST)
    check_number("--hang-after", workload.hang_after, _SHORTEST)
    check_number("--stop-after-steps", workload.stop_after_steps, 1)
    version = _jaxlib(command) if set(workload.settings) & set(recipes()) else None
    return RunRequest(
        command=tuple(command),
        directory=workload.out,
        name=workload.name,
        settings=_settings(workload, version),
        origins=_origins(workload, version),
        window=_window(profile),
        ranks=workload.ranks,
        per=workload.per,
        timeout_s=workload.timeout,
        hang_after_s=workload.hang_after,
        stop_after_steps=workload.stop_after_steps,
        echo=echo,
    )


def _jaxlib(command: Sequence[str]) -> str | None:
    """Return the jaxlib that the command will use, since recipes differ between releases."""
    python = find_interpreter(command, os.environ)
    return python.versions.get("jaxlib") if python else None


def _settings(workload: WorkloadOptions, version: str | None) -> Settings:
    """Combine files and recipes in order; settings on the command line come last."""
    settings = Settings()
    for name in workload.settings:
        settings = settings.followed_by(load_settings(name, version=version))
    return settings.followed_by(parse_settings(workload.set_, workload.env))


def _origins(workload: WorkloadOptions, version: str | None) -> dict[str, str]:
    """Return the option that determines each flag."""
    found: dict[str, str] = {}
    for name in workload.settings:
        found |= dict.fromkeys(load_settings(name, version=version).flags, f"--settings {name}")
    for text in workload.set_:
        found |= dict.fromkeys(parse_settings([text]).flags, f"--set {text}")
    for text in workload.env:
        found |= dict.fromkeys(parse_settings((), [text]).flags, "--env XLA_FLAGS")
    return found


def _window(profile: ProfileOptions) -> ProfileSchedule | None:
    if profile.no_profile:
        return None
    check_number("--profile-start-step", profile.profile_start_step, 0)
    check_number("--profile-steps", profile.profile_steps, 1)
    check_number("--profile-after-quiet", profile.profile_after_quiet, 0)
    check_number("--profile-seconds", profile.profile_seconds, _SHORTEST)
    if profile.profile_in_pieces and profile.perfetto_link:
        raise UsageError(
            "--profile-in-pieces writes no trace for --perfetto-link",
            next="counterpoint convert RUN trace.pftrace   # when the run has ended",
        )
    steps = profile.profile_steps
    return ProfileSchedule(
        start_step=profile.profile_start_step,
        steps=ProfileSchedule().steps if steps is None else steps,
        quiet_s=profile.profile_after_quiet,
        seconds=profile.profile_seconds,
        perfetto_link=profile.perfetto_link,
        in_pieces=profile.profile_in_pieces,
        python=profile.profile_python,
        processes=_processes(profile.processes),
    )


def _processes(text: str) -> Literal["all"] | tuple[int, ...]:
    if text.strip() == "all":
        return "all"
    numbers = text.split(",")
    if not all(number.strip().isdecimal() for number in numbers):
        raise UsageError(
            f"--processes takes `all`, or numbers separated by commas, not {text!r}",
            next="use --processes 0,3",
        )
    return tuple(sorted({int(number) for number in numbers}))
