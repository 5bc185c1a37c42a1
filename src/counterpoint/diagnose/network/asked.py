"""Asked: whether the machine that `--target` names can be the one of the profile.

A profile of other chips, of more devices, or a prediction for another machine would be held against
links that it never had. Whatever is not known contradicts nothing.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from counterpoint.core.errors import UsageError
from counterpoint.diagnose.case import Case
from counterpoint.hardware import Target
from counterpoint.hardware.recorded import other_devices
from counterpoint.simulate.stands_for import target_said

_NEXT: Final = "leave --target out"


def check_target(case: Case) -> tuple[str, ...]:
    """Notes on a target that is odd; UsageError where it can't be the profile's machine."""
    target = case.context.target
    if target is None:
        return ()
    if (said := target_said(case.timeline)) is not None:
        _check_prediction(target, said)
        return ()
    _check_chip(case, target)
    _check_devices(case, target)
    machines = Counter(case.timeline.hosts[device.host].machine for device in case.timeline.devices)
    most = max(machines.values(), default=0)
    if most <= target.gpus_per_host:
        return ()
    said = f"--target {target} has {target.gpus_per_host:,} devices on a host"
    return (f"{said}, the profile {most:,}: which share fast links is taken from the target",)


def _check_prediction(target: Target, said: Target) -> None:
    parts = ("gpu", "hosts", "gpus_per_host")
    if any(getattr(target, part) != getattr(said, part) for part in parts):
        raise UsageError(
            f"--target {target}, but this is a prediction for {said}",
            next="leave --target out",
        )


def _check_chip(case: Case, target: Target) -> None:
    """A100s of 40 and of 80 GB have the same links."""
    other = other_devices(case.timeline.devices, target, links=True)
    if other is not None:
        raise UsageError(f"--target {target}, but the profile is of {other}", next=_NEXT)


def _check_devices(case: Case, target: Target) -> None:
    program = case.program
    count = program.num_partitions * program.num_replicas if program else 0
    devices = max(count, len(case.timeline.devices))
    if devices > target.devices:
        raise UsageError(
            f"--target {target} has {target.devices:,} devices, the profile's program runs on"
            f" {devices:,}",
            next=_NEXT,
        )
