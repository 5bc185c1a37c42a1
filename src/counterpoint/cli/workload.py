"""Options of commands that run a workload: its directory, its Settings, what is profiled."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from counterpoint.capture import (
    SHORTEST_S,
    ProfileSchedule,
    RunOptions,
    RunRequest,
    find_interpreter,
)
from counterpoint.cli.options import OutputPath, flat
from counterpoint.core import UsageError, refuse_url
from counterpoint.core.bounds import check_number
from counterpoint.flags.lines.line import parse_settings
from counterpoint.flags.lines.source import load_settings
from counterpoint.flags.recipe import recipes
from counterpoint.flags.settings import Settings


@flat
@dataclass(frozen=True)
class WorkloadOptions:
    """Options for running the workload.

    Args:
        settings: A settings file or a recipe; may be repeated, and all apply.
        set_: An XLA flag, xla_gpu_...=value; follows the inherited XLA_FLAGS.
        env: An environment variable: NAME=value.
        out: Directory for the run; it must be empty or not exist yet.
    """

    settings: tuple[str, ...] = ()
    set_: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    out: OutputPath = None
    how: Annotated[RunOptions, flat] = RunOptions()


@flat
@dataclass(frozen=True)
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

    def schedule(self) -> ProfileSchedule | None:
        """Return when to profile; None for not at all."""
        if self.no_profile:
            return None
        check_number("--profile-start-step", self.profile_start_step, 0)
        check_number("--profile-steps", self.profile_steps, 1)
        check_number("--profile-after-quiet", self.profile_after_quiet, 0)
        check_number("--profile-seconds", self.profile_seconds, SHORTEST_S)
        if self.profile_in_pieces and self.perfetto_link:
            raise UsageError(
                "--profile-in-pieces writes no trace for --perfetto-link",
                next="counterpoint convert RUN trace.pftrace   # when the run has ended",
            )
        steps = self.profile_steps
        return ProfileSchedule(
            start_step=self.profile_start_step,
            steps=ProfileSchedule().steps if steps is None else steps,
            quiet_s=self.profile_after_quiet,
            seconds=self.profile_seconds,
            perfetto_link=self.perfetto_link,
            in_pieces=self.profile_in_pieces,
            python=self.profile_python,
            processes=_processes(self.processes),
        )


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
    workload.how.check()
    version = _jaxlib(command) if set(workload.settings) & set(recipes()) else None
    return RunRequest(
        **vars(workload.how),
        command=tuple(command),
        directory=workload.out,
        settings=_settings(workload, version),
        origins=_origins(workload, version),
        window=profile.schedule(),
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
