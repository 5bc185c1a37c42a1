"""`analyze_network`: the network load of a step, as records and frames for use in notebooks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import polars as pl

from counterpoint.core import Basis, UsageError, shorten_names
from counterpoint.diagnose.collectives.collectives import collective_profile
from counterpoint.diagnose.collectives.fabric import fabric_of, target_of
from counterpoint.diagnose.collectives.requirement import classify
from counterpoint.diagnose.collectives.slack import slack_table
from counterpoint.diagnose.exposure.causes import causes
from counterpoint.diagnose.network.calls import RemoteCalls, remote_calls
from counterpoint.diagnose.network.demand import Demand, demand
from counterpoint.diagnose.selection import WindowKind, require_devices, select
from counterpoint.diagnose.step_data import StepData, context_of
from counterpoint.hardware.chip import chip_label
from counterpoint.timeline.model import Timeline, machines
from counterpoint.timeline.step_range import narrow, step_range

if TYPE_CHECKING:
    from counterpoint.hardware.target import Target
    from counterpoint.runs.run import Run
    from counterpoint.timeline.model import ChosenSteps

_NEXT: Final = "leave out the target"


def check_target(data: StepData) -> tuple[str, ...]:
    """Return notes on an unusual target; raise UsageError if it can't be the profile's machine.

    A profile of other chips or of more devices, or a prediction for another machine, would be
    compared with links that it never had. Unknown properties contradict nothing.
    """
    target = data.context.target
    if target is None:
        return ()
    if (predicted_for := target_of(data.timeline)) is not None:
        _check_prediction(target, predicted_for)
        return ()
    _check_chip(data, target)
    _check_devices(data, target)
    each = Counter(data.timeline.hosts[device.host].machine for device in data.timeline.devices)
    most = max(each.values(), default=0)
    if most <= target.gpus_per_host:
        return ()
    mismatch = f"target {target} has {target.gpus_per_host:,} devices on a host"
    return (f"{mismatch}, the profile has {most:,}: the target decides which share fast links",)


def _check_prediction(target: Target, predicted_for: Target) -> None:
    parts = ("gpu", "hosts", "gpus_per_host")
    if any(getattr(target, part) != getattr(predicted_for, part) for part in parts):
        raise UsageError(
            f"target {target}, but this is a prediction for {predicted_for}",
            next="leave out the target",
        )


def _check_chip(data: StepData, target: Target) -> None:
    """A100s of 40 and of 80 GB have the same links."""
    from counterpoint.hardware.mismatch import mismatched_devices

    other = mismatched_devices(data.timeline.devices, target, links=True)
    if other is not None:
        raise UsageError(f"target {target}, but the profile is of {other}", next=_NEXT)


def _check_devices(data: StepData, target: Target) -> None:
    program = data.program
    count = program.num_partitions * program.num_replicas if program else 0
    devices = max(count, len(data.timeline.devices))
    if devices > target.devices:
        raise UsageError(
            f"target {target} has {target.devices:,} devices, the profile's program runs on"
            f" {devices:,}",
            next=_NEXT,
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NetworkAnalysis:
    """The network load of a median step, mean over devices.

    `slack` and `network` are the tables of `slack_table` and `causes`; `collectives` is the
    table of `explain`, in the order of `network`. `links_source` says where capacities come from,
    or why there are none. `calls` is empty if no runtime recorded any.
    """

    inputs: tuple[str, ...]
    notes: tuple[str, ...]
    basis: str
    step: int | None
    chosen_steps: ChosenSteps | None
    selected_devices: tuple[int, ...] | None
    hosts: int | None  # machines; None if not recorded
    processes: int
    devices: int
    stands_for: str | None  # of a prediction: what its single device represents
    device_kind: str
    chips: str
    subject: str  # what the figures describe: a median step, or its replacement
    window: WindowKind
    window_ms: float
    links_source: str
    slack: pl.DataFrame
    collectives: pl.DataFrame
    network: pl.DataFrame
    demand: Demand
    calls: RemoteCalls

    def __repr__(self) -> str:
        return (
            f"<NetworkAnalysis of {shorten_names(self.inputs)}: {self.basis},"
            f" {self.window} {self.window_ms:,.2f} ms on {self.devices} devices,"
            f" {len(self.collectives)} collectives>"
        )


def analyze_network(
    timeline: Timeline,
    *,
    step: int | None = None,
    steps: str | range | None = None,
    last: int | None = None,
    devices: Sequence[int] | None = None,
    run: Run | None = None,
    target: Target | None = None,
) -> NetworkAnalysis:
    """Analyze the network load of a typical step, or step `step`, on all or some devices.

    The typical step is one of `steps`, or of the `last` so many, as in `explain`.
    """
    if (wanted := step_range(steps, last, step)) is not None:
        timeline = narrow(timeline, wanted)
    require_devices(timeline)
    selection = select(timeline, step=step, devices=devices)
    data = StepData(selection=selection, context=context_of(run, target))
    odd = check_target(data)
    return NetworkAnalysis(
        inputs=timeline.inputs,
        notes=(*odd, *timeline.notes, *_more_notes(data)),
        basis=str(timeline.basis),
        step=step,
        chosen_steps=timeline.chosen,
        selected_devices=None if devices is None else selection.devices,
        hosts=machines(timeline.hosts),
        processes=len(timeline.hosts),
        stands_for=timeline.hosts[0].name if timeline.basis is Basis.PREDICTED else None,
        devices=len(selection.devices),
        device_kind=" and ".join(sorted({d.kind for d in timeline.devices})),
        chips=" and ".join(sorted({chip_label(it.chip, it.kind) for it in timeline.devices})),
        subject=selection.subject,
        window=selection.window,
        window_ms=data.step_ms,
        links_source=fabric_of(data).source,
        slack=data.cached(slack_table),
        collectives=data.cached(collective_profile),
        network=data.cached(causes),
        demand=demand(data),
        calls=remote_calls(timeline, target),
    )


def _more_notes(data: StepData) -> list[str]:
    notes: list[str] = []
    if not data.selection.occurrences:
        notes.append("no complete step was found, so there are no figures per step")
    unsized = len(data.cached(classify).filter(pl.col("wire_bytes").is_null()))
    if unsized:
        notes.append(
            f"the bytes of {unsized:,} of {len(data.cached(classify)):,} collectives are unknown;"
            " the demand excludes them"
        )
    return notes
