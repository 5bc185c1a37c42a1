"""The machine of a recording against the target that it is to calibrate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from counterpoint.core.errors import InputError
from counterpoint.hardware import Target
from counterpoint.hardware.gpu import gpus
from counterpoint.hardware.recorded import other_devices, unknown_devices
from counterpoint.hardware.target_text import sized, spelled
from counterpoint.timeline.model import Timeline


def check_machine(timeline: Timeline, target: Target) -> None:
    """Refuse times of another machine than the target."""
    named = ", ".join(timeline.inputs)
    other = other_devices(timeline.devices, target)
    unknown = [it for it in unknown_devices(timeline.devices) if it and not target.origin]
    if other is not None or unknown:
        raise InputError(
            f"{named}: recorded on {other or unknown[0]}, and --target {target} is {target.gpu}",
            why="the fit would take the difference between the chips for what programs reach",
            next=_elsewhere(other, len(timeline.devices)),
        )
    number = timeline.step_program
    program = timeline.programs[number].hlo() if number is not None else None
    devices = program.num_partitions * program.num_replicas if program is not None else 1
    if devices > target.devices:
        raise InputError(
            f"{named}: its program runs on {devices:,} devices, and --target {target} has"
            f" {target.devices:,}",
            why="which collectives leave a host is taken from the target",
            next=sized(target, devices),
        )
    hosts = len({timeline.hosts[it.host].machine for it in timeline.devices})
    if hosts > target.hosts:
        raise InputError(
            f"{named}: recorded on {hosts:,} hosts, and --target {target} has {target.hosts:,}",
            why="which collectives leave a host is taken from the target",
            next=f"--target {hosts}x{max(devices // hosts, 1)}x{target.gpu}",
        )


def _elsewhere(other: str | None, devices: int) -> str:
    """What to do with a recording of another chip; None for one that nobody here knows."""
    if other is None:
        return "describe the machine in a file: docs/reference/target-files.md"
    gpu = next((gpu for gpu in gpus() if gpu.chip == other), None)
    if gpu is None:
        return "record the step on GPUs of the target: counterpoint run -- python train.py"
    return f"--target {spelled(gpu.name, devices)}, for a calibration of {gpu.name}"


def machine_notes(timelines: Sequence[Timeline], target: Target) -> Iterator[str]:
    """What has to be taken on trust."""
    for timeline in timelines:
        inputs = ", ".join(timeline.inputs)
        for name in unknown_devices(timeline.devices):
            named = f"its devices {name}, which is not known here" if name else "no chip"
            yield f"{inputs} names {named}: its times are taken to be of {target.gpu}"
        machines = Counter(timeline.hosts[it.host].machine for it in timeline.devices)
        most = max(machines.values(), default=0)
        if most > target.gpus_per_host:
            yield (
                f"WARNING: {inputs} has {most:,} devices on a host, and --target"
                f" {target} {target.gpus_per_host:,}: which of them share fast links is taken from"
                " the target"
            )
