"""Clocks of hosts are apart.

## What it does

Measures how far each host's clock is from the others'.

## Why it costs time

Profiles of several hosts are laid beside each other by their clocks: with clocks that are apart,
who was late in a collective is told wrongly, and logs can't be read side by side.

## How it is detected

By 16 exchanges with each rank over TCP, of which the quickest counts; half of its round trip is how
far off the figure may be. More than 10 ms, beyond that, from the middle of all hosts is a warning:
chrony keeps hosts of one network within 1 ms.

## Example

```
node7's clock is 1.300 s ahead (+- 0.2 ms)
```

## Fix

`sudo systemctl enable --now chrony`, then `chronyc makestep` where it is far off.

## Fix safety

A clock that is stepped makes logs jump: do it between runs.

## False alarms

Ranks that are starved of processor time answer late; the uncertainty says so.

## References

- https://datatracker.ietf.org/doc/html/rfc5905#section-8
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median_low
from typing import Final

from counterpoint.doctor.cluster.gathering import Gathering
from counterpoint.doctor.diagnosis import Status, Verdict, not_applicable, ok, unknown

CODE: Final = "DOC602"
NAME: Final = "clocks-apart"
SINCE: Final = "0.1"

_FAR_MS: Final = 10.0
_SOURCE: Final = "https://datatracker.ietf.org/doc/html/rfc5905#section-8"


def check(gathering: Gathering) -> Iterator[Verdict]:
    """One for each host that is off."""
    offsets = gathering.offset_of_host
    if gathering.size < 2:
        yield not_applicable("one rank: no other clock")
        return
    if len({report.host for report in gathering.reports}) == 1:
        yield not_applicable("all ranks are on one host: one clock")
        return
    if len(offsets) < 2:
        yield unknown("no clock but rank 0's was measured")
        return
    middle = median_low([one.ms for one in offsets.values()])
    unsure = min(one.within_ms for one in offsets.values() if one.ms == middle)
    apart_ms = {
        host: (one.ms - middle, one.within_ms + (unsure if one.ms != middle else 0.0))
        for host, one in offsets.items()
    }
    far = {host: one for host, one in apart_ms.items() if abs(one[0]) - one[1] > _FAR_MS}
    for host, (apart, within) in far.items():
        yield Verdict(
            status=Status.WARNING,
            found=f"{host}'s clock is {_shown(abs(apart))} {'ahead' if apart > 0 else 'behind'}"
            f" (± {_shown(within)}, measured)",
            wanted="within 10 ms of the other hosts",
            why="profiles and logs of hosts are laid beside each other by their clocks",
            remedy="sudo systemctl enable --now chrony && sudo chronyc makestep",
            source=_SOURCE,
        )
    if not far:
        first = min(offsets.values(), key=lambda one: one.ms)
        last = max(offsets.values(), key=lambda one: one.ms)
        most, within = _shown(last.ms - first.ms), _shown(first.within_ms + last.within_ms)
        yield ok(f"clocks are within {most} of each other (± {within}, measured)")


def _shown(ms: float) -> str:
    if ms >= 1000:
        return f"{ms / 1000:,.3f} s"
    return f"{ms:,.1f} ms" if ms >= 0.1 or not ms else f"{ms * 1000:,.1f} us"
