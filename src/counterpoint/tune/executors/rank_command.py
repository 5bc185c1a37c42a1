"""The command of a rank in every executor: `counterpoint run` around the user's command."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from counterpoint.capture import ProfileSchedule
from counterpoint.tune.executors.executor import ProcessShape, TrialJob, TrialLimits


def rank_command(job: TrialJob, *, starts_ranks: bool = False) -> tuple[str, ...]:
    """Return the command of a rank; the caller sets `TrialJob.environment`.

    With `starts_ranks` it is one command for all ranks of this machine, which starts them itself;
    otherwise a launcher has started each rank. `-P` keeps files of the working directory from being
    imported as Python modules.
    """
    return (
        *(sys.executable, "-P", "-m", "counterpoint", "run"),
        f"--name={job.name}",
        f"--out={job.directory.absolute()}",
        *_profile(job.window),
        *_limits(job.limits),
        *(word for name, value in job.settings.xla for word in ("--set", f"{name}={value}")),
        *(word for name, value in job.settings.env for word in ("--env", f"{name}={value}")),
        *(_ranks(job.shape) if starts_ranks else ()),
        "--",
        *job.command,
    )


def _profile(window: ProfileSchedule | None) -> Iterator[str]:
    if window is None:
        yield "--no-profile"
        return
    if window.start_step is not None:
        yield f"--profile-start-step={window.start_step}"
    yield f"--profile-steps={window.steps}"
    if window.quiet_s is not None:
        yield f"--profile-after-quiet={window.quiet_s}"
    if window.seconds is not None:
        yield f"--profile-seconds={window.seconds}"
    if window.processes != "all":
        yield f"--processes={','.join(map(str, window.processes))}"


def _limits(limits: TrialLimits) -> Iterator[str]:
    if limits.timeout_s is not None:
        yield f"--timeout={limits.timeout_s}"
    if limits.hang_after_s is not None:
        yield f"--hang-after={limits.hang_after_s}"
    if limits.steps is not None:
        yield f"--stop-after-steps={limits.steps}"


def _ranks(shape: ProcessShape) -> Iterator[str]:
    if shape.ranks_per_node is not None:
        yield f"--ranks={shape.ranks_per_node}"
    else:
        yield f"--per={shape.per}"
