"""Devices of a TPU slice wait in recv-done for data from other slices.

## What it does

Adds up the waits for transfers between slices, and attributes each to its cause: too little work
between send and recv-done, other slices that send late, or a slow network.

## Why it costs time

XLA turns a collective between slices into a `send` to the host and a `recv` from it; the host's
network does the rest while the device computes. The slack of the transfer is what the device
computes until `recv-done`. Data that arrives later stops the device.

## How it is detected

The rule starts from the exposed time of send, recv and their dones, which belong together by
rendezvous or channel. The slack is the work between send and recv-done that does not need the
network. If the runtime records when each message left and arrived (the plane "Megascale Trace", or
`MegaScale:` events), a wait is attributed first to the peer, as far as its message left later than
ours; then to the host, as far as it registered or copied buffers meanwhile (STEP202, STEP203); then
to the network, as far as the message was slower than its load explains (STEP204); and the rest to
the schedule. Without these records, the time that the bytes of all devices of a host need at 12.5
GB/s (xprof's value for a host, a rule of thumb) is attributed to the schedule as far as it exceeds
the slack.

The saving is at most the wait of the device that waits longest. If other slices may be late, its
idle time is included, because the next step starts on all slices together.

## Example

```text
send.3          0.01 ms      hands 128 MiB of gradients to the host
fusion.2       10 ms         all there is to do meanwhile
recv-done.4    30 ms         waits for the gradients of the other slices
```

## Fix

Schedule: send earlier, need the result later, or send less. Gradients can be sent layer by layer
during the backward pass, in bfloat16, or once per several micro-batches. Late peers: find what the
other slice does before its send. Network: STEP204.

## Fix safety

Accumulating gradients over micro-batches changes the batch of an update, unless the batch is split
into them. Sums in bfloat16 round.

## False alarms

The first steps after a compile or a checkpoint may wait longer. If slices run different programs on
purpose (pipelining), the wait is the bubble of the schedule.

## References

- https://openxla.org/xla/megascale/debugging_workflow
- https://cloud.google.com/tpu/docs/troubleshooting/troubleshoot-multislice
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from counterpoint.core import Range
from counterpoint.diagnose.environment import advise
from counterpoint.diagnose.exposure.causes import BETWEEN_SLICES
from counterpoint.diagnose.finding import Finding, Remedy, ms_text
from counterpoint.diagnose.network.calls import listed, remote_calls, silent_hosts
from counterpoint.diagnose.network.stalls import (
    SlowerHost,
    Stall,
    StallCause,
    longest_wait_ms,
    slower_host,
    stalls,
)
from counterpoint.diagnose.step_data import StepData, place_of

CODE: Final = BETWEEN_SLICES
NAME: Final = "recv-stall"
SINCE: Final = "0.1"

_SHOWN: Final = 5

_OF_OTHERS: Final = (StallCause.PEER, StallCause.UNKNOWN)
"""Causes that may be due to another slice being late."""

_REMEDIES: Final = {
    StallCause.SCHEDULE: (
        "give {op} more work to overlap: send each layer's gradients during the backward pass,"
        " send fewer bytes (bfloat16), or less often (gradient accumulation)"
    ),
    StallCause.PEER: (
        "find out what delays the send of the slower slice: compute, input, or a straggler"
        " (explain the profiles of all slices together)"
    ),
    StallCause.NETWORK: (
        "check the hosts' network: `counterpoint doctor --dcn` compares TCP settings, MTU and"
        " interfaces with what is recommended between slices"
    ),
    StallCause.HOST: (
        "let Megascale register enough memory in advance: STEP202 and STEP203 compute how much"
    ),
    StallCause.UNKNOWN: (
        "profile all slices with Megascale's own trace, which shows whether peers send late or the"
        " network is slow; also check the hosts with `counterpoint doctor --dcn`"
    ),
}


def check(data: StepData) -> Iterator[Finding]:
    """Yield at most one finding, for all transfers."""
    waiting = stalls(data)
    if not waiting:
        return
    waits = sum(stall.waits_ms for stall in waiting)
    sums = _by_cause(waiting)
    cause = next(iter(sums))
    slower = slower_host(data) if cause in _OF_OTHERS else None
    saves = _saves(data, sums, waits)
    yield Finding(
        code=CODE,
        title=f"devices wait {ms_text(waits)} per step for data of other slices: {cause}",
        detail=(
            f"{_causes(sums)}. {_slower(data, slower)}{_describe(waiting[0])}{_more(saves, waits)}"
        ),
        saves_ms=saves,
        basis=data.basis,
        evidence=tuple(data.evidence(stall.row, "own_ms") for stall in waiting[:_SHOWN]),
        remedy=_remedy(data, cause, waiting[0], slower),
        doubt=_doubt(data),
    )


def _by_cause(waiting: Sequence[Stall]) -> dict[StallCause, float]:
    """Return milliseconds by cause, largest first."""
    sums: dict[StallCause, float] = {}
    for stall in waiting:
        for cause, ms in stall.by_cause.items():
            sums[cause] = sums.get(cause, 0.0) + ms
    return dict(sorted(sums.items(), key=lambda item: -item[1]))


def _saves(data: StepData, sums: dict[StallCause, float], waits: float) -> Range:
    """Return at most the wait of the longest-waiting device, including idle time for late peers."""
    late = any(sums.get(cause, 0.0) > 0 for cause in _OF_OTHERS)
    return Range(0.0, max(waits, longest_wait_ms(data, idle=late)))


def _more(saves: Range, waits: float) -> str:
    """Say why more could be saved than the mean wait, if so."""
    if f"{saves.high:,.2f}" == f"{waits:,.2f}":
        return ""
    return (
        f". {ms_text(waits)} is the mean over devices; up to {ms_text(saves.high)} could be saved,"
        " what the device that waits longest waits and, if another slice is late, idles"
    )


def _causes(sums: dict[StallCause, float]) -> str:
    return "; ".join(f"{ms_text(ms)} because {cause}" for cause, ms in sums.items() if ms > 0)


def _slower(data: StepData, slower: SlowerHost | None) -> str:
    if slower is None:
        return ""
    return (
        f"{data.timeline.hosts[slower.host].name} computes {ms_text(slower.compute_ms)} per step,"
        f" other hosts {ms_text(slower.others_ms)}: {ms_text(slower.longer_ms)} more. "
    )


def _describe(stall: Stall) -> str:
    """Describe the most expensive stall in figures, for checking by hand."""
    row = stall.row
    parts = [
        f"{place_of(row)} ({row['kind']}) lasts {ms_text(stall.lasts_ms)} from send to recv-done"
    ]
    if stall.slack_ms is not None:
        parts.append(f"{ms_text(stall.slack_ms)} of other work runs meanwhile")
    if stall.late_ms is not None and stall.network_ms is not None:
        parts.append(
            f"the peer's message leaves {ms_text(stall.late_ms)} after ours and takes"
            f" {ms_text(stall.network_ms)} in the network"
        )
    if stall.needed_ms is not None:
        parts.append(f"the network needs about {ms_text(stall.needed_ms)} (rule of thumb)")
    return "; ".join(parts)


def _remedy(data: StepData, cause: StallCause, stall: Stall, slower: SlowerHost | None) -> Remedy:
    words = _REMEDIES[cause].format(op=stall.row["op"])
    if slower is not None:
        name = data.timeline.hosts[slower.host].name
        words = f"make {name} as fast as the others: compare its ops with theirs"
    if data.program is None:
        words += (
            "; to see work that could overlap, dump the HLO on one worker: --xla_dump_to=/tmp/hlo"
            " in XLA_FLAGS"
        )
    return advise(data, words)


def _doubt(data: StepData) -> str | None:
    reasons: list[str] = []
    if any(host.clock_offset_ps is None for host in data.timeline.hosts[1:]):
        reasons.append(
            "the slices' clocks are not aligned: lateness is based on the runtime's own times"
        )
    silent = silent_hosts(data.timeline, remote_calls(data.timeline, data.context.target))
    if silent:
        reasons.append(
            f"the profile of {listed(silent)} has no Megascale events: causes are those of the"
            " others' transfers"
        )
    return "; ".join(reasons) or None
