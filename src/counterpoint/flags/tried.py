"""What XLA made of flags on common steps, as tools/tried_flags.py found it, by release."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from counterpoint.flags.versions import version_number

__all__ = ["TriedFlag", "crashed_steps", "largest_cost", "tried_flags"]

_FILE: Final = Path(__file__).with_name("catalogue") / "tried_flags.tsv"
_SAME: Final = "same"
_CRASH: Final = "crash"
_REFUSED: Final = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class TriedFlag:
    """One flag with one value in the compile of one common step, without a device.

    `crash` is the compiler's message if it ended there, `change` the change of the predicted step
    time as a share (0 for the same program), None after a crash.
    """

    version: str
    target: str
    step: str
    crash: str = ""
    change: float | None = None


def tried_flags(name: str, value: str, version: str, steps: Iterable[str]) -> tuple[TriedFlag, ...]:
    """Return the trials of a flag on some steps, in the tried release that is nearest.

    The nearest is the newest that is not newer than `version`, or else the oldest.
    """
    by_release = _table()
    if not by_release:
        return ()
    known = sorted(by_release, key=version_number)
    older = [tried for tried in known if version_number(tried) <= version_number(version)]
    rows = by_release[older[-1] if older else known[0]].get((name, value), ())
    wanted = frozenset(steps)
    return tuple(row for row in rows if row.step in wanted)


def largest_cost(name: str, value: str, steps: Iterable[str]) -> float:
    """Return the largest increase of the step time in any tried release, as a share; 0: none."""
    wanted = frozenset(steps)
    rows = (row for rows in _table().values() for row in rows.get((name, value), ()))
    return max((row.change or 0.0 for row in rows if row.step in wanted), default=0.0)


def crashed_steps(name: str, value: str, version: str) -> tuple[TriedFlag, ...]:
    """Return the common steps whose compile a flag ended in exactly this release."""
    rows = _table().get(version, {}).get((name, value), ())
    return tuple(row for row in rows if row.crash)


@cache
def _table() -> Mapping[str, Mapping[tuple[str, str], tuple[TriedFlag, ...]]]:
    table: dict[str, dict[tuple[str, str], tuple[TriedFlag, ...]]] = {}
    for line in _FILE.read_text("utf-8").splitlines():
        if line.startswith("#"):
            continue
        version, target, step, name, value, told = line.split("\t")
        outcome, _, words = told.partition(" ")
        if outcome == _REFUSED:  # by the channel of compile options, so nothing is known
            continue
        crash = words if outcome == _CRASH else ""
        change = None if crash else 0.0 if outcome == _SAME else float(outcome)
        row = TriedFlag(version=version, target=target, step=step, crash=crash, change=change)
        rows = table.setdefault(version, {})
        rows[name, value] = (*rows.get((name, value), ()), row)
    return table
