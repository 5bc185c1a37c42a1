"""From measured runs to a table, or to the same as data."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from statistics import median

from captures import Capture
from contenders import COUNTING, OURS, Contender
from fresh_process import Failed, Trial
from machine import Machine

SCHEMA = "counterpoint.benchmark-read/1"

GROWTH = "Seconds per further 100 MB between profiles, so without start-up (flat: linear):"

MEMORY = (
    "Seconds are wall time of a fresh process, imports included: median (least to most); CPU s are"
    " those of all its threads. Peak is its largest resident set, pages of mapped files included."
    " The last columns are ratios to Counterpoint on the same profile."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One reader on one profile; figures are None when it failed."""

    contender: Contender
    capture: Capture
    trials: tuple[Trial, ...]
    failure: str | None

    @staticmethod
    def of(contender: Contender, capture: Capture, results: Sequence[Trial | Failed]) -> Measured:
        """What came of all turns; one that failed spoils the rest."""
        failures = [str(result) for result in results if isinstance(result, Failed)]
        trials = () if failures else tuple(r for r in results if isinstance(r, Trial))
        return Measured(
            contender=contender,
            capture=capture,
            trials=trials,
            failure=failures[0] if failures else None,
        )

    @property
    def seconds(self) -> float | None:
        """Wall time, median."""
        return median(trial.seconds for trial in self.trials) if self.trials else None

    @property
    def cpu_seconds(self) -> float | None:
        """Time on all cores, median."""
        return median(trial.cpu_seconds for trial in self.trials) if self.trials else None

    @property
    def peak_bytes(self) -> int | None:
        """Memory, the most of all runs."""
        return max((trial.peak_bytes for trial in self.trials), default=None)


def as_text(machine: Machine, captures: Sequence[Capture], measured: Sequence[Measured]) -> str:
    """All for a terminal, and for a Markdown file."""
    parts = [
        _heading(machine),
        _main_table(measured),
        _growth_table(captures, measured),
        MEMORY,
        *(f"{one.contender.name} failed: {one.failure}" for one in measured if one.failure),
    ]
    return "\n\n".join(part for part in parts if part)


def as_json(machine: Machine, captures: Sequence[Capture], measured: Sequence[Measured]) -> str:
    """The same as data; each run is there by itself."""
    data = {
        "schema": SCHEMA,
        "machine": asdict(machine),
        "captures": [
            {"asked_mb": one.asked_mb, "bytes": one.bytes, "events": _events(one, measured)}
            for one in captures
        ],
        "results": [_record(one, measured) for one in measured],
        "growth": [
            {
                "contender": contender.name,
                "seconds_per_100_mb": _slopes([one.seconds for one in rows], captures),
                "cpu_seconds_per_100_mb": _slopes([one.cpu_seconds for one in rows], captures),
            }
            for contender, rows in _by_contender(measured).items()
        ],
    }
    return json.dumps(data, indent=1)


def _record(one: Measured, measured: Sequence[Measured]) -> dict[str, object]:
    ours = _ours(one, measured)
    return {
        "contender": one.contender.name,
        "bytes": one.capture.bytes,
        "seconds": one.seconds,
        "seconds_of_runs": [trial.seconds for trial in one.trials],
        "cpu_seconds": one.cpu_seconds,
        "peak_bytes": one.peak_bytes,
        "peak_bytes_of_runs": [trial.peak_bytes for trial in one.trials],
        "peak_over_file": _over(one.peak_bytes, one.capture.bytes),
        "seconds_over_counterpoint": _over(one.seconds, ours.seconds),
        "cpu_seconds_over_counterpoint": _over(one.cpu_seconds, ours.cpu_seconds),
        "peak_over_counterpoint": _over(one.peak_bytes, ours.peak_bytes),
        "failure": one.failure,
    }


def _heading(machine: Machine) -> str:
    versions = ", ".join(f"{name} {number}" for name, number in machine.versions.items())
    return (
        f"{machine.cores} cores, {machine.processor}, {machine.memory_bytes / 1e9:.0f} GB,"
        f" {machine.system}; load {machine.load:.1f} before\n{versions}"
    )


def _main_table(measured: Sequence[Measured]) -> str:
    head = ("MB", "events", "reader", "seconds", "", "CPU s", "s/100 MB", "peak MB")
    rows: list[tuple[str, ...]] = [(*head, "peak/file", "seconds x", "CPU x", "peak x")]
    for one in measured:
        ours, file = _ours(one, measured), one.capture
        spread = [trial.seconds for trial in one.trials]
        rows.append(
            (
                _number(file.megabytes, 1),
                _number(_events(file, measured), 0),
                one.contender.name,
                _number(one.seconds, 2),
                f"({min(spread):.2f} to {max(spread):.2f})" if spread else "failed",
                _number(one.cpu_seconds, 2),
                _number(_over(one.seconds, file.megabytes / 100), 2),
                _number(_over(one.peak_bytes, 1e6), 0),
                _number(_over(one.peak_bytes, file.bytes), 2),
                _number(_over(one.seconds, ours.seconds), 2),
                _number(_over(one.cpu_seconds, ours.cpu_seconds), 2),
                _number(_over(one.peak_bytes, ours.peak_bytes), 2),
            )
        )
    return _aligned(rows, texts={2})


def _growth_table(captures: Sequence[Capture], measured: Sequence[Measured]) -> str:
    if len(captures) < 2:
        return ""
    steps = [f"{a.megabytes:,.0f} to {b.megabytes:,.0f} MB" for a, b in pairwise(captures)]
    rows: list[tuple[str, ...]] = [("reader", *steps, *(f"CPU, {step}" for step in steps))]
    for contender, mine in _by_contender(measured).items():
        wall = _slopes([one.seconds for one in mine], captures)
        cpu = _slopes([one.cpu_seconds for one in mine], captures)
        rows.append((contender.name, *(_number(slope, 2) for slope in wall + cpu)))
    return f"{GROWTH}\n\n{_aligned(rows, texts={0})}"


def _by_contender(measured: Sequence[Measured]) -> dict[Contender, list[Measured]]:
    """What each contender did, in the order of the profiles."""
    found: dict[Contender, list[Measured]] = {}
    for one in measured:
        found.setdefault(one.contender, []).append(one)
    return found


def _slopes(took: Sequence[float | None], captures: Sequence[Capture]) -> list[float | None]:
    """Seconds per further 100 MB, from each profile to the next larger."""
    return [
        None if before is None or after is None else (after - before) / (b.bytes - a.bytes) * 1e8
        for (before, after), (a, b) in zip(pairwise(took), pairwise(captures), strict=True)
    ]


def _ours(one: Measured, measured: Sequence[Measured]) -> Measured:
    return next(m for m in measured if m.contender == OURS and m.capture == one.capture)


def _events(capture: Capture, measured: Sequence[Measured]) -> int | None:
    counted = next(m for m in measured if m.contender == COUNTING and m.capture == capture)
    return int(counted.trials[0].output) if counted.trials else None


def _over(value: float | None, by: float | None) -> float | None:
    return None if value is None or not by else value / by


def _number(value: float | None, digits: int) -> str:
    return "?" if value is None else f"{value:,.{digits}f}"


def _aligned(rows: Sequence[Sequence[str]], texts: set[int]) -> str:
    """A Markdown table; columns of text to the left, numbers to the right."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    lines = [
        [
            cell.ljust(width) if index in texts else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        for row in rows
    ]
    rule = [
        "-" * width if index in texts else "-" * (width - 1) + ":"
        for index, width in enumerate(widths)
    ]
    lines.insert(1, rule)
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
