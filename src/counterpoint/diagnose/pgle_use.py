"""The PGLE profile that the step was compiled with, as far as it is known."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from counterpoint.compile import VARIABLES, memory_fraction
from counterpoint.core import CounterpointError, UsageError
from counterpoint.diagnose.collectives.bound import Bound
from counterpoint.diagnose.exposure.causes import EXPOSED, Rows, shares_of
from counterpoint.diagnose.exposure.given import given_flags, on_gpu
from counterpoint.diagnose.finding import Evidence
from counterpoint.diagnose.machines import chip_of
from counterpoint.diagnose.step_data import StepData
from counterpoint.flags.text import parse_xla_flags
from counterpoint.flags.versions import PROFILE
from counterpoint.hardware import gpus
from counterpoint.pgle.applying import read_evidence
from counterpoint.pgle.checking import Coverage, check_profile
from counterpoint.pgle.making import measured_times
from counterpoint.pgle.profiles import read_profile
from counterpoint.runs import Run
from counterpoint.runs.reports import effective_flags, variables_of

AUTO: Final = "JAX_ENABLE_PGLE"
_SHOWN: Final = 5


@dataclass(frozen=True, slots=True)
class PgleUse:
    """`path` is the profile that was given, None if there was none; `auto` if JAX made its own."""

    path: str | None
    auto: bool


def use_of(case: StepData) -> PgleUse | None:
    """Return the PGLE use under the settings, including inherited ones; None if not recorded."""
    given = given_flags(case)
    flags = dict(given or {})
    variables = dict(case.timeline.environment) | dict(case.context.environment or {})
    guided = False
    run = case.context.run
    if run is not None:
        flags |= _flags_read(run)
        variables = variables_of(run) | variables
        guided = any(_was_guided(line) for line in _logs(run))
    if given is None and run is None:
        return None
    auto = variables.get(AUTO, "").lower() in ("true", "1", "yes", "on", "y", "t")
    return PgleUse(flags.get(PROFILE) or None, auto or (guided and not flags.get(PROFILE)))


def _flags_read(run: Run) -> Mapping[str, str]:
    """Return the profile flag in effect: inherited flags are only in the compiler's report."""
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
    return any(module.guided for module in read_evidence(log).modules)


def coverage_of(case: StepData, path: str) -> Coverage | None:
    """Return what the profile at `path` covers of the step's program; None if not known."""
    program, index = case.program, case.timeline.step_program
    if program is None or index is None or not on_gpu(case):
        return None
    run = case.context.run
    place = Path(path) if run is None else Path(run.cwd) / path
    versions = {} if case.context.jaxlib is None else {"jaxlib": case.context.jaxlib}
    measured = measured_times(case.timeline, index)
    try:
        return check_profile(read_profile(place), program, measured, versions)
    except CounterpointError:  # no longer here, or unreadable for XLA too: FLAG406 reports that
        return None


def ill_informed(case: StepData) -> Rows:
    """Return exposed collectives that a better informed scheduler might hide; those of STEP101."""
    rows = case.ask(shares_of).of(EXPOSED)
    return [row for row in rows if row["movable_ms"] != 0 and row["bound"] != Bound.TOO_LITTLE]


def missing_costs(case: StepData, coverage: Coverage) -> tuple[Evidence, ...]:
    """Return the most expensive instructions without a cost, collectives first."""
    missing = {entry.lookup.instruction.name for entry in coverage.missing}
    own = case.timeline.step_program
    rows: list[dict[str, Any]] = [
        row
        for row in case.ops.iter_rows(named=True)
        if row["program"] == own and row["op"] in missing
    ]
    rows.sort(key=lambda row: (row["collective"] is None, -(row["self_ms"] or 0.0)))
    return tuple(case.evidence(row, "self_ms") for row in rows[:_SHOWN])


GIB: Final = 1 << 30


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    """Bytes of the device with the highest peak; `whole` is the chip's capacity."""

    peak: int
    limit: int | None
    whole: int | None

    @property
    def most(self) -> int | None:
        """The most a program could allocate, as far as is known."""
        return self.limit if self.limit is not None else self.whole

    @property
    def spare(self) -> int | None:
        """Memory that was never used."""
        return None if self.most is None else max(0, self.most - self.peak)


def memory_of(case: StepData) -> DeviceMemory | None:
    """Return the memory use; None if no Run recorded the peak.

    The agent reads peak and limit from JAX's allocator. Older Runs lack the limit: then it is known
    only if the Run names the allocator's share, since inherited variables are not kept.
    """
    run = case.context.run
    peaks = dict(_peaks(run)) if run is not None else {}
    if run is None or not peaks:
        return None
    fullest = max(peaks, key=lambda device: peaks[device])
    whole = _whole(case)
    limit = dict(_limits(run)).get(fullest)
    return DeviceMemory(peaks[fullest], limit or _by_share(case, run, whole), whole)


_Device = tuple[int, int, str]


def _peaks(run: Run) -> Iterator[tuple[_Device, int]]:
    for rank in run.ranks:
        for process in rank.processes:
            for device, peak in process.peak_memory.items():
                if device != "host" and peak > 0:
                    yield (rank.number, process.pid, device), peak


def _limits(run: Run) -> Iterator[tuple[_Device, int]]:
    for rank in run.ranks:
        for process in rank.processes:
            limits = process.facts.get("memory_limit")
            if isinstance(limits, dict):
                for device, limit in cast("Mapping[str, object]", limits).items():
                    if isinstance(limit, int) and limit > 0:
                        yield (rank.number, process.pid, device), limit


def _whole(case: StepData) -> int | None:
    chip = chip_of(case)
    if chip is None:
        return None
    gpu = next((gpu for gpu in gpus() if gpu.chip == chip.name), None)
    return gpu.memory_bytes if gpu else round(chip.memory_bytes)


def _by_share(case: StepData, run: Run, whole: int | None) -> int | None:
    known = variables_of(run) | dict(case.context.environment or {})
    if whole is None or not any(known.get(name, "").strip() for name in VARIABLES):
        return None
    try:
        return int(whole * memory_fraction(known))
    except UsageError:  # a share that JAX rejects too
        return None
