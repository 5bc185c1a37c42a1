"""Synchronous collectives, and why the scheduler did not make them asynchronous."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

import polars as pl

from counterpoint.diagnose.environment import given_flags, is_true, on_gpu
from counterpoint.diagnose.step_data import StepData
from counterpoint.flags.observed import has
from counterpoint.flags.versions import (
    DISABLED_PASSES,
    LHS,
    PROFILE,
    SCHEDULER,
    SYNCHRONOUS,
    false_stops_scheduler,
    lhs_flag_needed,
)
from counterpoint.hlo.collectives import collective
from counterpoint.hlo.model.instruction import Instruction
from counterpoint.hlo.model.program import Program
from counterpoint.hlo.schedule import in_loop, is_start
from counterpoint.timeline.model import Lane

_UNMODELED: Final = ("collective-broadcast", "ragged-all-to-all")


_AMD: Final = re.compile(r"\bAMD\b|^MI\d|\bInstinct\b")
"""Matches AMD chips: since some release the scheduler runs by default on MI300 too."""


@dataclass(frozen=True, slots=True)
class SchedulerState:
    """`ran` is None if not known; `why` says what it was inferred from, or what disabled it."""

    ran: bool | None
    why: str


def scheduler_of(data: StepData) -> SchedulerState:
    """Return whether the latency-hiding scheduler ran on the step's program.

    The latency-hiding scheduler notes the name by which it knew an instruction, so one such note
    proves that it ran. Without one, the settings decide: its flag, disabled passes, and the chips
    on which it runs by default. By default it needs a model of every collective and of all
    computation. XLA has none for collective-broadcast, ragged-all-to-all and work on the host, and
    older releases have none for collective-permute: one of those disables it for the whole module.

    Source: xla/service/gpu/gpu_hlo_schedule.cc, model/sol_latency_estimator.cc
    (HasOnlySupportedCollectives), transforms/scheduling_instruction_annotator.cc.
    """
    program = data.program
    if program is None:
        return SchedulerState(None, "the profile has no HLO")
    if any(instruction.scheduling_name for instruction in program.instructions):
        return SchedulerState(True, "its notes are in the HLO")
    flags = given_flags(data)
    if flags is None:
        return SchedulerState(None, "the flags are unknown")
    return _by_settings(data, program, flags)


def _by_settings(data: StepData, program: Program, flags: Mapping[str, str]) -> SchedulerState:
    version, chip = data.context.jaxlib, data.timeline.devices[0].chip
    enabled = is_true(flags, LHS)
    profile = PROFILE in flags
    obeyed = false_stops_scheduler(version, profile=profile) or (
        not profile and lhs_flag_needed(version, chip)
    )
    stopped = _switched_off(flags, obeyed=obeyed)
    if stopped:
        return SchedulerState(False, f"{stopped} disables it")
    if enabled or (profile and not lhs_flag_needed(version, chip, profile=True)):
        return SchedulerState(True, f"--{LHS if enabled else PROFILE} enables it")
    if version is None or chip is None or _AMD.search(chip):
        return SchedulerState(None, "its default on this chip and release is unknown")
    return _by_default(program, version, chip)


def _switched_off(flags: Mapping[str, str], *, obeyed: bool) -> str | None:
    if SCHEDULER in flags.get(DISABLED_PASSES, "").split(","):
        return f"--{DISABLED_PASSES}"
    return f"--{LHS}=false" if is_true(flags, LHS) is False and obeyed else None


def _by_default(program: Program, version: str, chip: str) -> SchedulerState:
    if lhs_flag_needed(version, chip):
        return SchedulerState(False, f"it is not the default of jaxlib {version} on {chip}")
    stopped = _unmodeled(program, version)
    if stopped:
        return SchedulerState(
            False, f"XLA has no model of {stopped}, which disables it for the whole module"
        )
    return SchedulerState(True, f"it is the default of jaxlib {version} on {chip}")


def _unmodeled(program: Program, version: str) -> str | None:
    unmodeled = _UNMODELED
    if has("permute-stops-scheduler", version):
        unmodeled = (*unmodeled, "collective-permute")
    for instruction in program.instructions:
        transfer = (
            collective(program, instruction)
            if is_start(instruction) or instruction.opcode in unmodeled
            else None
        )
        if transfer is not None and transfer.kind in unmodeled:
            return f"{transfer.kind} ({instruction.name})"
        if '"device_type":"DEVICE_TYPE_HOST"' in instruction.backend_config.replace(" ", ""):
            return f"computation on the host ({instruction.name})"
    return None


PIPELINED: Final = ("all-gather", "all-reduce", "reduce-scatter")
"""Kinds that XLA can move to the previous or next iteration of their loop."""

_WORTH: Final = 0.1
"""Share of a collective that other work must cover for it to be worth moving."""


class SyncCause(IntEnum):
    """Causes, the most certain first."""

    REQUESTED = 1
    KERNEL = 2
    SCHEDULER_OFF = 3
    LEFT_ALONE = 4
    LOOP = 5
    NOTHING = 6
    UNKNOWN = 7


@dataclass(frozen=True, slots=True)
class SyncReason:
    """The cause in words: `why` completes "it is synchronous because"."""

    cause: SyncCause
    why: str

    @property
    def by_setting(self) -> bool:
        return self.cause in (SyncCause.REQUESTED, SyncCause.SCHEDULER_OFF)

    @property
    def can_change(self) -> bool:
        """True if a setting or the scheduler could hide it with the program as it is."""
        return self.cause not in (SyncCause.NOTHING, SyncCause.KERNEL, SyncCause.UNKNOWN)


def synchronous(data: StepData, rows: list[dict[str, Any]]) -> Mapping[str, SyncReason]:
    """Return the step's synchronous collectives by name; `rows` have their `movable_ms`.

    XLA makes every collective a start and a done, then the scheduler moves work between them. If
    nothing ends up there, or if a flag demands it, both become one synchronous instruction. So the
    cause is found by exclusion: the flag; a kernel that runs among the others; a scheduler that did
    not run; work that it could have moved but did not; no such work. Compilers other than XLA:GPU
    have other flags: for them only the surroundings of the collective count.

    Source: convert_async_collectives_to_sync.cc in xla/hlo/transforms/collectives and in
    xla/backends/gpu/transforms/collectives.
    """
    if any(device.kind == "cpu" for device in data.timeline.devices):
        return {}  # XLA:CPU has no others
    program = data.program
    if program is None:
        named = _without_done(data)
        return {row["op"]: _UNKNOWN for row in rows if row["op"] in named}
    flags = given_flags(data) or {}
    scheduler = scheduler_of(data)
    reasons: dict[str, SyncReason] = {}
    for row in rows:
        instruction = program.instruction(row["op"])
        described = collective(program, instruction) if instruction is not None else None
        if (
            instruction is None
            or described is None
            or described.is_async
            or instruction.opcode == "fusion"
        ):
            continue
        if on_gpu(data):
            reasons[row["op"]] = _cause(program, instruction, row, scheduler, flags)
        else:
            reasons[row["op"]] = _by_surroundings(program, instruction, row, flags)
    return reasons


_UNKNOWN: Final = SyncReason(
    SyncCause.UNKNOWN,
    "the compiler left it in one piece; without HLO the reason is unknown",
)


def _without_done(data: StepData) -> set[str]:
    """Return the names of collectives with a known instruction that have no start and done."""
    ops = data.timeline.ops.filter(pl.col("lane") == Lane.COLLECTIVE)
    plain = (
        (pl.col("opcode") == pl.col("collective"))
        & pl.col("pair").is_null()
        & ~pl.col("async_window").fill_null(value=False)
        & pl.col("done_position").is_null()
    )
    plain &= ~pl.col("collective").is_in(["send", "recv"])
    return set(ops.filter(plain).select(pl.coalesce("op", "name")).to_series().to_list())


def _cause(
    program: Program,
    instruction: Instruction,
    row: dict[str, Any],
    scheduler: SchedulerState,
    flags: Mapping[str, str],
) -> SyncReason:
    if _requested_sync(row["kind"], flags):
        return SyncReason(SyncCause.REQUESTED, f"--{SYNCHRONOUS}={flags[SYNCHRONOUS]} requests it")
    if '"kernel_strategy":"TRITON' in instruction.backend_config.replace(" ", ""):
        return SyncReason(SyncCause.KERNEL, "XLA runs it as a kernel on the main stream")
    if scheduler.ran is False:
        why = f"the latency-hiding scheduler did not run: {scheduler.why}"
        return SyncReason(SyncCause.SCHEDULER_OFF, why)
    return _by_surroundings(program, instruction, row, flags)


def _by_surroundings(
    program: Program, instruction: Instruction, row: dict[str, Any], flags: Mapping[str, str]
) -> SyncReason:
    movable = row["movable_ms"]
    if movable is not None and movable > _WORTH * (row["transfer_ms"] or row["median_ms"]):
        why = (
            f"nothing was overlapped with it, although {movable:,.3g} ms of independent work exists"
        )
        return SyncReason(SyncCause.LEFT_ALONE, why)
    if in_loop(program, instruction.computation):
        return SyncReason(SyncCause.LOOP, _in_loop(row, flags))
    if movable is None:
        return SyncReason(SyncCause.NOTHING, "there is no work between its start and its done")
    return SyncReason(
        SyncCause.NOTHING, "all work before it feeds it, and all work after it needs it"
    )


def _in_loop(row: dict[str, Any], flags: Mapping[str, str]) -> str:
    reason = "its loop iteration needs the result at once"
    if row["kind"] not in PIPELINED:
        return reason
    pipelined = is_true(flags, pipelining_flag(row["kind"]))
    return f"{reason}, pipelined or not" if pipelined else f"{reason}, and it is not pipelined"


def pipelining_flag(kind: str) -> str:
    """Return the flag that moves collectives of a kind to another iteration of their loop."""
    return f"xla_gpu_enable_pipelined_{kind.replace('-', '_')}"


def _requested_sync(kind: str, flags: Mapping[str, str]) -> bool:
    kinds = flags.get(SYNCHRONOUS, "").upper().replace("_", "").split(",")
    return kind.replace("-", "").upper() in kinds or "ALLCOLLECTIVES" in kinds
