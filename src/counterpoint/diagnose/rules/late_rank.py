"""Collectives wait for devices that arrive late.

## What it does

Reports how long devices wait in collectives for those that arrive later. If the same device or host
is late most often, it is named, with how much longer the others wait than it does, and whether its
own compute takes longer.

## Why it costs time

No collective ends before its last participant has arrived. All others wait, however fast the
network is.

## How it is detected

Each execution of a collective is compared over all devices of its group, on aligned clocks. The
stay of the last device is the transfer; the excess of the others is waiting, as far as no compute
overlaps it. The late device is the one that waits least over a whole step, so a device that others
delay is not blamed. It is named only if it is last in more steps than by chance (5%, over all
devices, by the binomial distribution): three steps prove nothing for two devices, but something for
eight. If the steps of typical length are few and show none, all steady steps are counted.

The saving is between the exposed waiting that is certain, as a mean over devices, and the waiting
of the device that waits most in each step, but no more than work and transfers leave of the
step. If one device is slow and the profile holds the program, the simulator runs it with that
device's times and with the others'; the difference narrows the saving. If its compute exceeds the
median of the others by at least half of its lateness, the device is slow (a lower clock, more work
in its shard); otherwise it starts late (its host, its input).

## Example

```text
device 0   backward | all-reduce (waits ......... transfer)
device 5   backward ................| all-reduce (transfer)
```

## Fix

Slow device: compare its clocks, temperature and neighbors (`nvidia-smi -q -d CLOCK,PERFORMANCE`),
and whether its shard holds more (experts, sequence lengths, pipeline stages). Late start: look at
its host's threads in the gap: input, logging, checkpoints, garbage collection.

## Fix safety

The program does not change.

## False alarms

Between hosts, lateness below the uncertainty of their clocks means nothing. If devices take turns
being last, or too few steps were recorded, the waiting is real, but no device is named. Virtual
devices of one CPU take turns on its cores, and one is late where others have run: there, waiting is
reported only if a device executes more ops than the others, which then is what can be saved, or if
one of several processes is late more often than by chance.

## References

- docs/reference/explain-json.md (`wait_ms` and `transfer_ms`)
- https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from counterpoint.core import Basis, Range
from counterpoint.core.printable import counted_noun
from counterpoint.diagnose.collectives.requirement import Bound
from counterpoint.diagnose.environment import advise, on_virtual_devices
from counterpoint.diagnose.exposure.causes import evidence, shares_of
from counterpoint.diagnose.finding import Finding, Remedy, ms_text, range_text
from counterpoint.diagnose.host.stragglers import (
    Straggler,
    last_of_few_steps,
    least_needed_ms,
    most_often_last,
    over_all_steps,
    stragglers,
    waited_most_ms,
)
from counterpoint.diagnose.host.uneven_ops import MoreWork, UnevenOp, more_work, most_uneven_op
from counterpoint.diagnose.rules.pipeline_bubble import bubble_waits
from counterpoint.diagnose.savings import longer_ms, savings_of
from counterpoint.diagnose.step_data import StepData, everywhere, place_of

CODE: Final = "STEP105"
NAME: Final = "late-rank"
SINCE: Final = "0.1"

_NAMED: Final = 3
_SOME: Final = 0.25
"""Share of the mean wait that unequal work must explain on virtual devices."""
_MOSTLY: Final = 0.5
"""Share of the mean wait that the differences of one op must explain for it to be named."""


def check(data: StepData) -> Iterator[Finding]:
    """Yield at most one finding: the waiting in all collectives."""
    bubbles = bubble_waits(data)
    rows = sorted(
        (
            row
            for row in data.cached(shares_of).rows
            if row["late_ms"] > 0
            and not (row["program"] == data.timeline.step_program and row["op"] in bubbles)
        ),
        key=lambda row: -row["late_ms"],
    )
    if not rows:
        return
    mean = sum(row["late_ms"] for row in rows)
    chosen = data
    data = chosen.cached(everywhere)
    waited = waited_most_ms(data)
    needed = least_needed_ms(data)
    most = max(mean, min(waited, data.step_ms - needed)) if chosen is data else mean
    late = stragglers(data)
    every = data if late else over_all_steps(data)
    late = late or stragglers(every)
    low = min(sum(map(_certain, rows)), mean)
    gain, uneven, more = None, None, None
    if on_virtual_devices(data.timeline):
        more = more_work(every)
        if more is not None and more.ms < _SOME * mean:
            more = None
        # Of several processes, one may be late for what its own host does.
        if more is None and (len(data.timeline.hosts) == 1 or not late):
            return
        if more is not None:
            # Others compute on the cores for which devices wait: only work that ends is a gain.
            most = min(most, more.than_least_ms)
            low = min(low, more.ms, most)
    else:
        gain = _simulated(data, late, most)
        uneven = most_uneven_op(every)
        if uneven is not None and uneven.excess_ms < _MOSTLY * mean:
            uneven = None
    yield Finding(
        code=CODE,
        title=f"devices wait {ms_text(mean)} per step for the last device to arrive",
        detail=(
            f"{ms_text(mean)} is the mean over"
            f" {_most(data, waited, mean, needed) if chosen is data else 'the chosen devices'}."
            f" The transfers of these collectives take {ms_text(sum(map(_transfer, rows)))}; the"
            " longest wait is in"
            f" {place_of(rows[0])}, {ms_text(rows[0]['late_ms'])}. {_who(data, every, late, more)}"
            f"{_without(gain)}{_differing(uneven)}"
        ),
        saves_ms=Range(max(low, gain.low) if gain else low, most),
        basis=Basis.PREDICTED if gain and gain.low > low else data.basis,
        evidence=evidence(chosen, rows, "late_ms"),
        remedy=_remedy(data, late or _last_and_idle(every), uneven, more),
        doubt=_doubt(data),
    )


def _last_and_idle(data: StepData) -> tuple[Straggler, ...]:
    """Return the device that was last in each of few steps, if its own idle time explains it."""
    rank = last_of_few_steps(data)
    if rank is None or rank.slow:
        return ()
    idle = rank.idle_ms - rank.others_idle_ms
    return (rank,) if idle >= _MOSTLY * rank.others_wait_ms else ()


def _most(data: StepData, waited: float, mean: float, needed: float) -> str:
    which = f"devices; the device that waits most waits {ms_text(max(mean, waited))}"
    return which + _limit(data, waited, needed)


def _limit(data: StepData, waited: float, needed: float) -> str:
    if waited <= data.step_ms - needed:
        return ", the gain if the others arrived as early"
    return (
        f". Of the step, {ms_text(data.step_ms)} in the mean over devices, work and transfers"
        f" need {ms_text(needed)} in any case, so the gain is at most the rest"
    )


def _simulated(data: StepData, late: tuple[Straggler, ...], most: float) -> Range | None:
    """Simulate a step in which the slow device is as fast as the others, if it alone is late."""
    if len(late) != 1 or not late[0].slow or not late[0].persistent or late[0].whole_host:
        return None
    gain = data.cached(savings_of).as_quick(longer_ms(data, late[0].number))
    return Range(min(gain.low, most), min(gain.high, most)) if gain is not None else None


def _without(gain: Range | None) -> str:
    if gain is None:
        return ""
    return f". At their speed a step would be {range_text(gain)} shorter"


def _transfer(row: dict[str, Any]) -> float:
    return float(row["total_ms"] - (row["wait_ms"] or 0.0))


def _certain(row: dict[str, Any]) -> float:
    """Return the wait that is certain: exposed time beyond the transfer, or covered by slack."""
    if row["bound"] == Bound.HIDDEN:
        return float(row["late_ms"])
    return max(0.0, float(row["exposed_ms"]) - _transfer(row))


def _who(
    data: StepData, every: StepData, late: tuple[Straggler, ...], more: MoreWork | None
) -> str:
    if more is not None:
        return (
            f"{_busiest(data, more)} than the others: {ms_text(more.ms)} per step beyond the mean"
            " of all, by the mean time of each op"
        )
    if late:
        return "; ".join(_one(data, rank) for rank in late[:_NAMED])
    steps = every.selection.windows["step"].n_unique()
    rank = last_of_few_steps(every)
    if rank is not None:
        return _in_few_steps(data, rank, steps)
    if steps == 1:
        return "One step does not show which device is last more often than by chance"
    rank = most_often_last(every)
    often = ""
    if rank is not None:
        host = data.timeline.hosts[data.timeline.devices[rank.number].host].name
        often = (
            f"; most often it is device {rank.number} ({host}), in {rank.last} of {rank.steps}, for"
            f" which the others wait {ms_text(rank.others_wait_ms)} longer. Its compute takes"
            f" {ms_text(rank.compute_ms)}, that of the others {ms_text(rank.others_compute_ms)}:"
            f" {_why(rank)}"
        )
    which = "" if every is not data else " of typical length, which are looked into"
    if every is data and steps == len(data.selection.lengths_ms):
        which = ""
    return f"No device is last more often than by chance in the {steps} steps{which}{often}"


def _in_few_steps(data: StepData, rank: Straggler, steps: int) -> str:
    these = "in this step" if steps == 1 else f"in each of the {steps} steps looked into"
    many = "One step does" if steps == 1 else f"{steps} steps do"
    return (
        f"{_named(data, rank)} the last {these}: the others wait"
        f" {ms_text(rank.others_wait_ms)} longer than it does, by the median. Its compute takes"
        f" {ms_text(rank.compute_ms)}, that of the others {ms_text(rank.others_compute_ms)}:"
        f" {_why(rank)}. {many} not show whether it always is"
    )


def _differing(op: UnevenOp | None) -> str:
    if op is None:
        return ""
    return (
        f". Devices differ most in {place_of(op.row)}: it takes {ms_text(op.least_ms)} to"
        f" {ms_text(op.most_ms)} per step, depending on the device"
    )


def _one(data: StepData, rank: Straggler) -> str:
    how = "in every step" if rank.last == rank.steps else f"in {rank.last} of {rank.steps} steps"
    chance = f"by chance in one of {rank.among}"
    kind = "persistent" if rank.persistent else "sporadic"
    worst = "" if rank.persistent else f" ({ms_text(rank.most_ms)} in its worst)"
    more = rank.compute_ms - rank.others_compute_ms
    return (
        f"{_named(data, rank)} {kind}: it waits least {how} ({chance}), and the others wait"
        f" {ms_text(rank.others_wait_ms)} per step longer than it does{worst}. Its compute takes"
        f" {ms_text(rank.compute_ms)} per step, {ms_text(abs(more))}"
        f" {'more' if more > 0 else 'less'} than that of the others by the median: {_why(rank)}"
    )


def _named(data: StepData, rank: Straggler) -> str:
    if rank.whole_host:
        return f"All devices of {data.timeline.hosts[rank.number].name} are late together,"
    host = data.timeline.hosts[data.timeline.devices[rank.number].host].name
    return f"Device {rank.number} ({host}) is"


def _why(rank: Straggler) -> str:
    if rank.slow:
        return "it is slow"
    if rank.idle_ms - rank.others_idle_ms > 0:
        return (
            f"that does not explain its lateness; it is idle for {ms_text(rank.idle_ms)}, the"
            f" others for {ms_text(rank.others_idle_ms)}, so it starts late"
        )
    return "that does not explain its lateness, so it starts late"


def _place(data: StepData, rank: Straggler) -> str:
    return data.timeline.hosts[rank.number].name if rank.whole_host else f"device {rank.number}"


def _busiest(data: StepData, more: MoreWork) -> str:
    if more.device is None:
        return "In each step another device executes more"
    host = data.timeline.hosts[data.timeline.devices[more.device].host].name
    return f"Device {more.device} ({host}) executes more"


def _remedy(
    data: StepData, late: tuple[Straggler, ...], uneven: UnevenOp | None, more: MoreWork | None
) -> Remedy:
    if more is not None:
        which = "one device, another one in each step," if more.device is None else "it"
        return advise(
            data,
            f"give {'all devices' if more.device is None else f'device {more.device}'} as much work"
            f" as the others: {which} executes {more.op} {counted_noun(round(more.count), 'time')}"
            f" per step, each of the others {counted_noun(round(more.others_count), 'time')}",
        )
    if uneven is not None and not late:
        return advise(
            data,
            f"make {uneven.row['op']} faster, or its work equal on all devices: the wait is the"
            " difference of its times; where the same device always takes longer, look at its"
            " clocks and temperature, too",
        )
    if not late:
        return advise(
            data,
            "balance the work of devices between collectives, or use fewer collectives; profile"
            " more steps to see whether the same device is always late",
        )
    first = late[0]
    if first.slow and on_virtual_devices(data.timeline):
        return advise(
            data,
            f"look at what else runs on the cores of {_place(data, first)}: it executes no more"
            " than the others",
        )
    if first.slow:
        command = (
            "" if first.whole_host else f" (`counterpoint explain ... --device {first.number}`)"
        )
        return advise(
            data,
            f"find out why {_place(data, first)} computes longer: clocks and temperature, or more"
            f" work in its shard{command}",
        )
    return advise(
        data,
        f"look at what the host {'' if first.whole_host else 'of '}{_place(data, first)} does"
        " before its collectives: input, logging, checkpoints, other processes on its cores",
    )


def _doubt(data: StepData) -> str | None:
    apart = [host.name for host in data.timeline.hosts[1:] if host.clock_offset_ps is None]
    if not apart:
        return None
    return f"clocks of {len(apart)} hosts are not aligned: the late device is unknown"
