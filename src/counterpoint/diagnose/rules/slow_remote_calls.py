"""Messages between slices take longer than their bytes explain.

## What it does

Reports the latency of remote calls over the profile: whether it is always high or only sometimes,
between which hosts, and how long devices wait for it.

## Why it costs time

A message that takes ten times as long as the network needs delays its collective, and all slices
wait for the slowest. TCP with small buffers, with slow start after each pause between steps, or
with lost packets does this while the network itself is idle.

## How it is detected

The rule uses the transport time that the runtime records for each message, minus the time in which
the receiving host registered or copied buffers (STEP202, STEP203), compared with 1 ms plus the time
that the host's network needs for all bytes received meanwhile (at the Target's rate, otherwise 12.5
GB/s, xprof's value for a host). So messages that share a busy network are not slow. A call is slow
from three times that time on. If most calls are slow, latency is high throughout. Otherwise it is
high occasionally, and calls also count as slow if they take three times as long for their load as
the typical one and are outside of its scatter. The saving is the time in which slow calls were
overdue and a device of the same host waited, for the device that lost most. If single steps are
much longer than the median because of them, it is the mean over all steady steps.

## Example

```text
NetworkReceive   8.4 MB     4.1 ms under way     as it should be
NetworkReceive   8.4 MB    61.0 ms               step 5: a lost packet, and a timeout
```

## Fix

Run `counterpoint doctor --dcn` on the hosts: TCP buffers, slow start after idle, congestion
control, MTU. If latency is high throughout, also check that the runtime uses all NICs. If it is
high occasionally, look for lost packets (`nstat`) and for other traffic at those times.

## Fix safety

Kernel settings apply to the whole host.

## False alarms

If a sender registers or copies buffers first and the receiver does not, its messages look slow. On
networks slower than 100 Gb/s per host, all large calls look slow: state the rate with `--target`.
Between regions, the distance alone takes more than a millisecond.

## References

- https://openxla.org/xla/megascale/debugging_workflow
- https://github.com/AI-Hypercomputer/maxtext/blob/main/src/dependencies/scripts/rto_setup.sh
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from statistics import fmean
from typing import Any, Final

import numpy as np
import polars as pl

from counterpoint.core import Range
from counterpoint.core.columns import Intervals, union
from counterpoint.diagnose.environment import advise
from counterpoint.diagnose.finding import Evidence, Finding, Remedy, ms_text
from counterpoint.diagnose.network.calls import (
    LatencyPattern,
    RemoteCalls,
    listed,
    remote_calls,
    silent_hosts,
)
from counterpoint.diagnose.outliers import longer_steps
from counterpoint.diagnose.selection import PS_PER_MS, Selection, device_slices, of_steps
from counterpoint.diagnose.slow_steps import slow_steps
from counterpoint.diagnose.step_data import StepData, longest_rows
from counterpoint.timeline.host_transfers import host_transfers

CODE: Final = "STEP204"
NAME: Final = "slow-remote-calls"
SINCE: Final = "0.1"

_SHOWN: Final = 3
_WHEN: Final = {LatencyPattern.SUSTAINED: "throughout", LatencyPattern.SPORADIC: "occasionally"}


def check(data: StepData) -> Iterator[Finding]:
    """Yield at most one finding."""
    calls = remote_calls(data.timeline, data.context.target)
    inside = calls.rows.filter(pl.col("steady"))
    steady = replace(calls, rows=inside)
    if steady.pattern is LatencyPattern.NORMAL:
        return
    slow = inside.filter("slow")
    long = _LongSteps(data)
    saves = _saves(data, slow, long)
    yield Finding(
        code=CODE,
        title=(
            f"{len(slow):,} of {len(inside):,} messages between slices are slow"
            f" ({_WHEN[steady.pattern]}), up to {slow['latency_ms'].max():,.1f} ms"
            f"{long.named_with(slow)}"
        ),
        detail=_detail(data, steady, slow) + long.described_with(slow),
        saves_ms=saves,
        mean_step_ms=fmean(data.selection.lengths_ms) if long.longer_ms else None,
        basis=data.basis,
        evidence=tuple(_link(data, row, slow) for row in _slow_links(steady)),
        remedy=_remedy(data, steady.pattern),
        doubt=_doubt(data, calls),
    )


def _doubt(data: StepData, calls: RemoteCalls) -> str | None:
    reasons: list[str] = []
    if data.context.target is None:
        reasons.append(f"the expected latency is based on a {calls.rate_source}")
    silent = silent_hosts(data.timeline, calls)
    if silent:
        reasons.append(f"{listed(silent)} recorded no messages: only those of others count")
    return "; ".join(reasons) or None


def _detail(data: StepData, calls: RemoteCalls, slow: pl.DataFrame) -> str:
    rows = calls.rows
    latency, expected = rows["latency_ms"], rows["expected_ms"].median()
    steps = slow["step"].n_unique()
    whole = rows["step"].n_unique()
    links = calls.links.filter(pl.col("slow_share") > 0)
    where = f"{len(links)} of {len(calls.links)} links"
    if len(links) == 1:
        where = f"one link, {_name(data, links.row(0, named=True))}"
    return (
        f"the median message takes {latency.median():,.2f} ms, 5% take more than"
        f" {latency.quantile(0.95, 'linear'):,.2f} ms; the median load explains {expected:,.2f} ms."
        f" Slow messages occur in {steps} of {whole} steady steps and on {where}"
    )


def _slow_links(calls: RemoteCalls) -> list[dict[str, Any]]:
    links = calls.links.filter(pl.col("slow_share") > 0).sort("p95_ms", descending=True)
    return links.head(_SHOWN).to_dicts()


def _link(data: StepData, row: dict[str, Any], slow: pl.DataFrame) -> Evidence:
    own = slow.filter(
        (pl.col("host") == row["host"]) & pl.col("peer").eq_missing(pl.lit(row["peer"], pl.String))
    )
    what = (
        f"{_name(data, row)}: median {row['median_ms']:,.2f} ms, 95% within {row['p95_ms']:,.2f}"
        f" ms, {row['slow_share']:.0%} slow"
    )
    return Evidence(
        what=what,
        ms=None,
        transfers=longest_rows(own.with_columns(dur_ps=pl.col("end_ps") - pl.col("start_ps"))),
    )


def _name(data: StepData, row: dict[str, Any]) -> str:
    return (
        f"from {row['peer'] or 'an unknown peer'} to {data.timeline.hosts[int(row['host'])].name}"
    )


def _uneven(data: StepData) -> dict[int, float]:
    """Return the steps that STEP309 finds slow, if they are in no typical step."""
    slow = (it for it in data.cached(slow_steps) if not it.by_host)
    typical = set(data.selection.windows["step"].to_list())
    return {
        step: ms
        for steps_of_cause in slow
        for step, ms in steps_of_cause.longer_ms.items()
        if step not in typical
    }


class _LongSteps:
    """Steady steps that took much longer than the median, which does not show them."""

    def __init__(self, data: StepData) -> None:
        self.longer_ms = longer_steps(data.selection) or _uneven(data)
        self.of_steps = len(data.selection.lengths_ms)
        self.selection = of_steps(data.selection, self.longer_ms)

    def _slow(self, slow: pl.DataFrame) -> list[float]:
        """Return by how much those are longer in which a slow message arrived."""
        met = set(slow["step"].to_list())
        return [ms for step, ms in self.longer_ms.items() if step in met]

    def named_with(self, slow: pl.DataFrame) -> str:
        longer = self._slow(slow)
        if not longer:
            return ""
        are = "step is" if len(longer) == 1 else "steps are"
        return f"; {len(longer)} of {self.of_steps} {are} {ms_text(fmean(longer))} longer"

    def described_with(self, slow: pl.DataFrame) -> str:
        if not self._slow(slow):
            return ""
        return ". The saving is per step on average; a median step has none of it"


def lost_in_long_steps(data: StepData) -> float:
    """Return what this finding claims of long steps, per step on average: STEP309 leaves it out."""
    calls = remote_calls(data.timeline, data.context.target)
    steady = replace(calls, rows=calls.rows.filter(pl.col("steady")))
    if steady.pattern is LatencyPattern.NORMAL:
        return 0.0
    return _lost_ms(data, steady.rows.filter("slow"), _LongSteps(data))


def _lost_ms(data: StepData, slow: pl.DataFrame, long: _LongSteps) -> float:
    if not long.longer_ms:
        return 0.0
    each_ms = _waited_ms(data, slow, long.selection, long.selection.spans())
    return len(long.longer_ms) * each_ms / long.of_steps


def _saves(data: StepData, slow: pl.DataFrame, long: _LongSteps) -> Range:
    """Return the time per step, long ones included, that devices waited for overdue calls."""
    typical_ms = _waited_ms(data, slow, data.selection, data.spans)
    typical_ms *= data.selection.scale * data.selection.occurrences * PS_PER_MS
    return Range(0.0, typical_ms + _lost_ms(data, slow, long))


def _waited_ms(
    data: StepData, slow: pl.DataFrame, selection: Selection, spans: pl.DataFrame
) -> float:
    """Return the mean time per step that a device spent in a send or recv for overdue calls.

    For the device that lost most: if all wait for each other, a step gains what that one does.
    """
    parts = host_transfers(data.timeline)["row"].to_list()
    inside = spans.filter(pl.col("op").is_in(parts) & pl.col("step").is_not_null())
    windows = device_slices(selection.windows)
    most = 0.0
    for (index,), rows in inside.group_by("device"):
        device = int(str(index))
        late = slow.filter(pl.col("host") == data.timeline.devices[device].host)
        start = rows["start_ps"].to_numpy()
        waits = union(start, start + rows["dur_ps"].to_numpy())
        steps = windows[device].stop - windows[device].start
        most = max(most, (_overdue(late, waits) & waits).total / steps)
    return most / PS_PER_MS


def _overdue(late: pl.DataFrame, waits: Intervals) -> Intervals:
    """Return when a device would have continued already, had the calls not been slow.

    A wait continues after the message has arrived, while the host passes it on: that shifts too.
    """
    excess = (late["excess_ms"] * PS_PER_MS).cast(pl.Int64).to_numpy()
    end = late["end_ps"].to_numpy()
    if len(waits):
        index = np.minimum(np.searchsorted(waits.end, end), len(waits) - 1)
        waited_for = (waits.start[index] <= end) & (end <= waits.end[index])
        end = np.where(waited_for, waits.end[index], end)
    return union(end - excess, end)


def _remedy(data: StepData, pattern: LatencyPattern) -> Remedy:
    more = (
        "make sure that Megascale uses all NICs of a host"
        if pattern is LatencyPattern.SUSTAINED
        else "look for lost packets and other traffic at those times"
    )
    return advise(
        data,
        "run `counterpoint doctor --dcn` on the hosts and apply its TCP settings (buffers, slow"
        f" start after idle, congestion control, MTU); {more}",
    )
