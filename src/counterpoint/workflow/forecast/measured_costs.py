"""Costs that the user measured: tables, and profiles transferred to other compiles of a workload.

A PGLE profile names instructions of one program, without its HLO: the names are looked up in the
program that was compiled here. A recording or a Run holds the HLO that ran, so its costs are
matched by stable key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from counterpoint.core import InputError
from counterpoint.cost.collectives.measured_table import table_notes
from counterpoint.cost.measured import MeasuredCosts
from counterpoint.cost.tables import (
    CollectiveTable,
    Table,
    read_gemm_csv,
    read_kernel_toml,
    read_nccl_log,
)
from counterpoint.hardware.chip import find_chip
from counterpoint.hardware.mismatch import mismatched_chip, mismatched_devices
from counterpoint.hardware.target import Target
from counterpoint.hlo.model.instruction import Instruction
from counterpoint.hlo.model.program import Program, launched, launches
from counterpoint.hlo.schedule import is_done
from counterpoint.pgle.lookups import cost_name, lookup_name
from counterpoint.pgle.making.make import make_profile
from counterpoint.pgle.making.origin import other_recorded
from counterpoint.pgle.profiles.files import read_profile
from counterpoint.pgle.profiles.profile import ENDINGS, InstructionCost, Profile
from counterpoint.runs.timeline import read
from counterpoint.timeline.formats import is_recording
from counterpoint.timeline.model import Timeline
from counterpoint.workflow.recorded_programs import recorded_programs

_FEW: Final = 0.5  # share of its names
_WALKED: Final = ("while", "conditional", "call")


@dataclass(frozen=True, slots=True)
class TransferredCosts:
    """Measured costs, their origin, and warnings about them."""

    measured: MeasuredCosts
    how: str
    warnings: tuple[str, ...] = ()


def transfer_costs(
    path: Path | str, programs: Sequence[Program], main: int, target: Target
) -> tuple[TransferredCosts, ...]:
    """Read costs from a PGLE profile, a recording or a Run, for each program of a step.

    They are for these programs and their relatives. Raises an InputError if they were measured on
    another chip than the target's, or if there are none of the main program.
    """
    place = Path(path)
    if (place.suffix in ENDINGS and not is_recording(place.name)) or _is_profiles(place):
        profile = read_profile(place)
        _refuse(other_recorded(profile.origin, target), place, target)
        shares = _shares(profile, programs)
        costs = [
            _of_profile(share, place, program)
            for share, program in zip(shares, programs, strict=True)
        ]
    else:
        timeline = read(str(path))
        _refuse(mismatched_devices(timeline.devices, target), place, target)
        numbers = recorded_programs(timeline, programs, main)
        costs = [
            _of_timeline(timeline, number, str(path), program)
            if at == main
            else _of_another(timeline, number, str(path), program)
            for at, (number, program) in enumerate(zip(numbers, programs, strict=True))
        ]
    if len(programs) == 1:
        return tuple(costs)
    return tuple(_told_of(one, program) for one, program in zip(costs, programs, strict=True))


def _of_another(
    timeline: Timeline, number: int | None, where: str, program: Program
) -> TransferredCosts:
    """Return the costs of a program beside the main one, which may have none."""
    if number is not None:
        with suppress(InputError):
            return _of_timeline(timeline, number, where, program)
    warning = f"{where} has no costs of it: the model prices it"
    return TransferredCosts(MeasuredCosts(program, {}, where), "no costs", (warning,))


def _told_of(costs: TransferredCosts, program: Program) -> TransferredCosts:
    """Return the costs with the program's name in what is said of them."""
    warnings = tuple(f"{program.name}: {text}" for text in costs.warnings)
    return replace(costs, how=f"{program.name}: {costs.how}", warnings=warnings)


def _shares(profile: Profile, programs: Sequence[Program]) -> list[Profile]:
    """Return the costs of each program: those of its fingerprint.

    Costs of other fingerprints, or of none, go to the program without costs that has most of their
    names, all of one fingerprint to one.
    """
    if len(programs) == 1:
        return [profile]
    groups: dict[str | None, list[InstructionCost]] = {}
    for cost in profile.costs:
        groups.setdefault(cost.fingerprint, []).append(cost)
    costs = [groups.pop(program.fingerprint, []) for program in programs]
    for group in sorted(groups.values(), key=len, reverse=True):
        waiting = [at for at, own in enumerate(costs) if not own]
        if not waiting:
            break
        best = max(waiting, key=lambda at: len(instructions_of(group, programs[at])))
        costs[best] = group
    return [replace(profile, costs=tuple(own)) for own in costs]


def _is_profiles(place: Path) -> bool:
    """Return True for a directory of `<fingerprint>.pbtxt`."""
    return place.is_dir() and any(place.glob("*.pbtxt"))


def _refuse(other: str | None, place: Path, target: Target) -> None:
    if other is not None and other != "CPUs":  # `make_profile` reports more on CPUs
        raise InputError(
            f"{place}: measured on {other}, but the target is {target.gpu}",
            why="the costs of one chip do not hold for another",
            next="omit --profile",
        )


def _of_profile(profile: Profile, place: Path, base: Program) -> TransferredCosts:
    own = [cost for cost in profile.costs if cost.fingerprint in (None, base.fingerprint)]
    # The middle program of a compile with other flags has another fingerprint and mostly the same
    # names: matching by name is better than nothing, and is reported.
    costs = own or list(profile.costs)
    by_name: Mapping[str, float] = instructions_of(costs, base)
    warnings = _warnings(str(place), len(by_name), len(costs))
    if by_name and len(by_name) < _FEW * len(costs):
        # Names such as fusion.3 are in every program: some match by chance.
        mismatch = f"only {len(by_name):,} of {len(costs):,} names of {place} are in this program"
        warnings = (f"{mismatch}: it belongs to another program and is NOT USED",)
        by_name = {}
    elif not own:
        warning = (
            f"{place} was made from another compilation (fingerprint {_fingerprints(costs)}, here"
            f" {base.fingerprint}): costs are matched by name, which may stand for other"
            " instructions"
        )
        warnings = (warning, *warnings)
    how = f"{len(by_name):,} of {len(costs):,} costs of {place}, by name"
    return TransferredCosts(MeasuredCosts(base, by_name, str(place)), how, warnings)


def _of_timeline(
    timeline: Timeline, number: int | None, where: str, base: Program
) -> TransferredCosts:
    built = make_profile(timeline, module=None if number is None else f"#{number}")
    entry = timeline.programs[number] if number is not None else None
    program = entry.hlo() if entry is not None else None
    if program is None or entry is None:
        by_name = instructions_of(built.profile.costs, base)
        how = f"{len(by_name):,} costs of {where}, by name: it holds no HLO"
        return TransferredCosts(
            MeasuredCosts(base, by_name, where),
            how,
            _warnings(where, len(by_name), len(built.profile.costs)),
        )
    known = (None, program.fingerprint, *entry.fingerprints)
    own = [cost for cost in built.profile.costs if cost.fingerprint in known]
    if not own:
        raise InputError(
            f"{where}: no costs of {entry.name}, which ran in its steps",
            next=f"counterpoint pgle make {where} -o step.pbtxt",
        )
    measured = MeasuredCosts(program, instructions_of(own, program), where)
    matched = _count_matches(measured, base)
    total = len(_launched(base))
    how = f"{matched:,} of {total:,} instructions, matched by operation, from {where}"
    return TransferredCosts(measured, how, _few_matches(where, matched, total))


def instructions_of(costs: Sequence[InstructionCost], program: Program) -> Mapping[str, float]:
    """Return seconds by instruction of the program, for costs by the names that XLA looks up."""
    names: dict[str, str] = {}
    for instruction in _launched(program):
        for name in (instruction.name, cost_name(instruction), lookup_name(instruction)):
            names.setdefault(name, instruction.name)
    wrapped = program.wrapped
    seconds: dict[str, float] = {}
    for cost in costs:
        name = names.get(cost.name) or names.get(wrapped.get(cost.name, ""))
        if name is not None:
            seconds[name] = cost.us * 1e-6
    return seconds


def _launched(program: Program) -> list[Instruction]:
    return [
        instruction
        for computation in launched(program)
        for instruction in computation.instructions
        if launches(instruction) and not is_done(instruction) and instruction.opcode not in _WALKED
    ]


def _count_matches(measured: MeasuredCosts, program: Program) -> int:
    return sum(
        measured.find(program, instruction) is not None for instruction in _launched(program)
    )


def _few_matches(where: str, matched: int, whole: int) -> tuple[str, ...]:
    if matched >= _FEW * whole:
        return ()
    subject = (
        f"only {matched:,} of {whole:,} instructions of this program were"
        if matched
        else "NOTHING of this program was"
    )
    return (f"{subject} measured in {where}: another compiler, other settings or another program",)


def _fingerprints(costs: Sequence[InstructionCost]) -> str:
    return ", ".join(dict.fromkeys(cost.fingerprint for cost in costs if cost.fingerprint))


def _warnings(where: str, matched: int, whole: int) -> tuple[str, ...]:
    if not matched:
        return (
            (
                f"NOTHING in {where} matches this program: it belongs to another program and is"
                " not used"
            ),
        )
    if matched < _FEW * whole:
        return (
            (
                f"only {matched:,} of {whole:,} of {where} match this program; it may belong to"
                " another one"
            ),
        )
    return ()


def read_tables(
    nccl: Sequence[Path] = (), gemm: Path | None = None, kernels: Path | None = None
) -> tuple[Table, ...]:
    """Read all tables, in order: the first that has an instruction prices it."""
    tables: list[Table] = [table for path in nccl for table in read_nccl_log(path)]
    if gemm is not None:
        tables.append(read_gemm_csv(gemm))
    if kernels is not None:
        tables.append(read_kernel_toml(kernels))
    return tuple(tables)


def notes_on_tables(program: Program, target: Target, tables: Sequence[Table]) -> tuple[str, ...]:
    """Report tables without entries for this program, and what they do not cover."""
    logs = [table for table in tables if isinstance(table, CollectiveTable)]
    return tuple(dict.fromkeys(table_notes(program, target, logs)))


def warnings_on_tables(target: Target, tables: Sequence[Table]) -> tuple[str, ...]:
    """Report tables that were measured on another machine."""
    logs = [table for table in tables if isinstance(table, CollectiveTable) and table.device]
    return tuple(
        dict.fromkeys(
            f"{table.origin} was measured on {table.device}, but the target is {target.gpu}"
            for table in logs
            if mismatched_chip(table.device, target) or find_chip(table.device) is None
        )
    )
