"""All flags unknown to a compiler, after it has named the first.

XLA stops at the first unknown name; a recipe of an older release has several.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

from counterpoint.compile import TIMEOUT_S
from counterpoint.core import CounterpointError, UsageError
from counterpoint.flags import Settings
from counterpoint.flags.lifecycle import removal_of
from counterpoint.workflow.subject.subject import Variant

Say: TypeAlias = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictionOptions:
    """The inputs of a prediction other than its workload and target."""

    settings: Settings = field(default_factory=Settings)
    recipes: Sequence[str] = ()  # names and files that the settings came from
    candidates: Sequence[Variant | str] = ()
    profile: Path | str | None = None  # prices from it: PGLE profile, recording or Run
    against: Path | str | None = None  # a Run or profile to compare with
    what_if: Sequence[str] = ()
    pgle: bool = False
    pgle_out: Path | None = None
    overwrite: bool = False  # the file at pgle_out
    nccl_tables: Sequence[Path] = ()
    gemm_table: Path | None = None
    kernel_table: Path | None = None
    calibration: Path | str | None = None  # the output of `counterpoint calibrate`
    jitter: int | None = None  # seed
    inherited: Mapping[str, str] = field(default_factory=dict[str, str])  # of the shell; not used
    devices: int | None = None  # to lower a function for; default: the target's
    jobs: int | None = None
    timeout_s: float = TIMEOUT_S


_MARK: Final = "has no option "
_MOST: Final = 8


def with_the_others(
    error: CounterpointError, flags: Iterable[str], recipes: Sequence[str]
) -> CounterpointError:
    """Return the error with the other removed flags, and the command that corrects a file."""
    if not isinstance(error, UsageError) or _MARK not in error.what:
        return error
    first = error.what.rpartition(_MARK)[2]
    others = [name for name in dict.fromkeys(flags) if name != first and removal_of(name)]
    removed = ", ".join(others[:_MOST]) + (
        f" and {len(others) - _MOST} more" if others[_MOST:] else ""
    )
    file = next(
        (recipe for recipe in recipes if Path(recipe).is_file() and first in _text(recipe)), None
    )
    then = f"counterpoint flags check {shlex.quote(file)} --fix" if file else error.next
    return UsageError(
        error.what + (f"; removed as well: {removed}" if others else ""), why=error.why, next=then
    )


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
