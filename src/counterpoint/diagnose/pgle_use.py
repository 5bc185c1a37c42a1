"""The PGLE profile that the step was compiled with, as far as it is known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from counterpoint.core import CounterpointError
from counterpoint.diagnose.collectives.bound import Bound
from counterpoint.diagnose.environment import given_flags, on_gpu
from counterpoint.diagnose.exposure.causes import EXPOSED, Rows, shares_of
from counterpoint.diagnose.finding import Evidence
from counterpoint.diagnose.step_data import StepData
from counterpoint.flags.versions import PROFILE

if TYPE_CHECKING:
    from counterpoint.pgle.checking.check import Coverage
    from counterpoint.runs.run import Run

AUTO: Final = "JAX_ENABLE_PGLE"
_SHOWN: Final = 5


@dataclass(frozen=True, slots=True)
class PgleUse:
    """`path` is the profile that was given, None if there was none; `auto` if JAX made its own."""

    path: str | None
    auto: bool


def use_of(data: StepData) -> PgleUse | None:
    """Return the PGLE use under the settings, including inherited ones; None if not recorded."""
    given = given_flags(data)
    flags = dict(given or {})
    variables = dict(data.timeline.environment) | dict(data.context.environment or {})
    guided = False
    run = data.context.run
    if run is not None:
        from counterpoint.runs.reports import variables_of

        flags |= _flags_read(run)
        variables = variables_of(run) | variables
        guided = any(_was_guided(line) for line in _logs(run))
    if given is None and run is None:
        return None
    auto = variables.get(AUTO, "").lower() in ("true", "1", "yes", "on", "y", "t")
    return PgleUse(flags.get(PROFILE) or None, auto or (guided and not flags.get(PROFILE)))


def _flags_read(run: Run) -> Mapping[str, str]:
    """Return the profile flag in effect: inherited flags are only in the compiler's report."""
    from counterpoint.flags.text import parse_xla_flags
    from counterpoint.runs.reports import effective_flags, variables_of

    if run.ranks and (effective := effective_flags(run.ranks[0])):
        return {PROFILE: effective[PROFILE]} if PROFILE in effective else {}
    try:
        return dict(parse_xla_flags(variables_of(run).get("XLA_FLAGS", "")))
    except CounterpointError:  # damaged, or in a file on another machine
        return {}


def _logs(run: Run) -> Iterable[str]:
    for rank in run.ranks[:1]:
        try:
            yield rank.stderr.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue


def _was_guided(log: str) -> bool:
    """Return whether XLA reports that it took costs from a profile."""
    from counterpoint.pgle.compiler_log import read_compiler_log

    return any(module.guided for module in read_compiler_log(log).modules)


def coverage_of(data: StepData, path: str) -> Coverage | None:
    """Return what the profile at `path` covers of the step's program; None if not known."""
    program, index = data.program, data.timeline.step_program
    if program is None or index is None or not on_gpu(data):
        return None
    run = data.context.run
    from counterpoint.pgle.checking.check import check_profile
    from counterpoint.pgle.making.samples import measured_times
    from counterpoint.pgle.profiles.files import read_profile

    place = Path(path) if run is None else Path(run.cwd) / path
    versions = {} if data.context.jaxlib is None else {"jaxlib": data.context.jaxlib}
    measured = measured_times(data.timeline, index)
    try:
        return check_profile(read_profile(place), program, measured, versions)
    except CounterpointError:  # no longer here, or unreadable for XLA too: FLAG406 reports that
        return None


def ill_informed(data: StepData) -> Rows:
    """Return exposed collectives that a better informed scheduler might hide; those of STEP101."""
    rows = data.cached(shares_of).of(EXPOSED)
    return [row for row in rows if row["movable_ms"] != 0 and row["bound"] != Bound.TOO_LITTLE]


def used_profile(data: StepData) -> tuple[Rows, str, Coverage] | None:
    """Return the collectives that costs might hide, the profile given for that, and its coverage.

    None without such collectives, or without a profile that can be checked.
    """
    rows, use = ill_informed(data), use_of(data)
    if not rows or use is None or use.path is None:
        return None
    coverage = coverage_of(data, use.path)
    return None if coverage is None else (rows, use.path, coverage)


def missing_costs(data: StepData, coverage: Coverage) -> tuple[Evidence, ...]:
    """Return the most expensive instructions without a cost, collectives first."""
    missing = {entry.lookup.instruction.name for entry in coverage.missing}
    own = data.timeline.step_program
    rows: list[dict[str, Any]] = [
        row
        for row in data.ops.iter_rows(named=True)
        if row["program"] == own and row["op"] in missing
    ]
    rows.sort(key=lambda row: (row["collective"] is None, -(row["self_ms"] or 0.0)))
    return tuple(data.evidence(row, "self_ms") for row in rows[:_SHOWN])
