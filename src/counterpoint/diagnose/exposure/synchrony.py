"""Synchronous collectives, and why the scheduler left them so."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

import polars as pl

from counterpoint.diagnose.case import Case
from counterpoint.diagnose.exposure.given import given_flags, is_true, on_gpu
from counterpoint.flags.versions import (
    DISABLED_PASSES,
    LHS,
    PROFILE,
    SCHEDULER,
    SYNCHRONOUS,
    false_is_obeyed,
    lhs_flag_needed,
)
from counterpoint.hlo import Instruction, Program
from counterpoint.hlo.collectives import collective
from counterpoint.hlo.schedule import in_loop, is_start
from counterpoint.timeline import Lane

_UNMODELLED: Final = ("collective-broadcast", "ragged-all-to-all")


_AMD: Final = re.compile(r"\bAMD\b|^MI\d|\bInstinct\b")
"""Since some release it runs unasked on MI300, too."""


@dataclass(frozen=True, slots=True)
class Scheduler:
    """`ran` is None where nobody can tell; `why` says what it was told by, or what stopped it."""

    ran: bool | None
    why: str


def scheduler_of(case: Case) -> Scheduler:
    """Of the step's program."""
    program = case.program
    if program is None:
        return Scheduler(None, "the profile holds no HLO")
    if any(it.scheduling_name for it in program.instructions):
        return Scheduler(True, "instructions carry its notes")
    flags = given_flags(case)
    if flags is None:
        return Scheduler(None, "flags are not known")
    return _by_settings(case, program, flags)


def _by_settings(case: Case, program: Program, flags: Mapping[str, str]) -> Scheduler:
    version, chip = case.context.jaxlib, case.timeline.devices[0].chip
    asked = is_true(flags, LHS)
    stopped = _switched_off(
        flags, obeyed=false_is_obeyed(version) or lhs_flag_needed(version, chip)
    )
    if stopped:
        return Scheduler(False, f"{stopped} switches it off")
    if asked or PROFILE in flags:
        return Scheduler(True, f"--{LHS if asked else PROFILE} switches it on")
    if version is None or chip is None or _AMD.search(chip):
        return Scheduler(None, "whether it runs unasked on this chip and release is not known")
    return _unasked(program, version, chip)


def _switched_off(flags: Mapping[str, str], *, obeyed: bool) -> str | None:
    if SCHEDULER in flags.get(DISABLED_PASSES, "").split(","):
        return f"--{DISABLED_PASSES}"
    return f"--{LHS}=false" if is_true(flags, LHS) is False and obeyed else None


def _unasked(program: Program, version: str, chip: str) -> Scheduler:
    if lhs_flag_needed(version, chip):
        return Scheduler(False, f"on {chip} jaxlib {version} runs it only if asked to")
    stopped = _unmodelled(program)
    if stopped:
        return Scheduler(False, f"XLA has no model of {stopped}, which leaves it off everywhere")
    return Scheduler(True, f"on {chip} jaxlib {version} runs it unasked")


def _unmodelled(program: Program) -> str | None:
    for it in program.instructions:
        found = collective(program, it) if is_start(it) or it.opcode in _UNMODELLED else None
        if found is not None and found.kind in _UNMODELLED:
            return f"{found.kind} ({it.name})"
        if '"device_type":"DEVICE_TYPE_HOST"' in it.backend_config.replace(" ", ""):
            return f"computation on the host ({it.name})"
    return None


PIPELINED: Final = ("all-gather", "all-reduce", "reduce-scatter")
"""Kinds that XLA can move to the iteration before, or behind, of their loop."""

_WORTH: Final = 0.1
"""Share of a collective that other work must be able to cover for it to be worth moving."""


class Cause(IntEnum):
    """The surest first."""

    ASKED = 1
    KERNEL = 2
    SCHEDULER_OFF = 3
    LEFT_ALONE = 4
    LOOP = 5
    NOTHING = 6
    UNTOLD = 7


@dataclass(frozen=True, slots=True)
class Synchronous:
    """The cause in words: `why` follows on "it is synchronous because"."""

    cause: Cause
    why: str

    @property
    def by_setting(self) -> bool:
        return self.cause in (Cause.ASKED, Cause.SCHEDULER_OFF)

    @property
    def can_change(self) -> bool:
        """Whether a setting or the scheduler could hide it with the program as it is."""
        return self.cause not in (Cause.NOTHING, Cause.KERNEL, Cause.UNTOLD)


def synchronous(case: Case, rows: list[dict[str, Any]]) -> Mapping[str, Synchronous]:
    """Which of the step's collectives are so, by name; `rows` tell their `movable_ms`."""
    if any(device.kind == "cpu" for device in case.timeline.devices):
        return {}  # XLA:CPU knows no others
    program = case.program
    if program is None:
        named = _without_done(case)
        return {row["op"]: _UNTOLD for row in rows if row["op"] in named}
    flags = given_flags(case) or {}
    scheduler = scheduler_of(case)
    found: dict[str, Synchronous] = {}
    for row in rows:
        it = program.instruction(row["op"])
        talk = collective(program, it) if it is not None else None
        if it is None or talk is None or talk.is_async or it.opcode == "fusion":
            continue
        if on_gpu(case):
            found[row["op"]] = _cause(program, it, row, scheduler, flags)
        else:
            found[row["op"]] = _by_surroundings(program, it, row, flags)
    return found


_UNTOLD: Final = Synchronous(
    Cause.UNTOLD, "the compiler left it in one piece; why, is not told without the program's HLO"
)


def _without_done(case: Case) -> set[str]:
    """Names of collectives whose instruction the profile tells, and that are in one piece."""
    ops = case.timeline.ops.filter(pl.col("lane") == Lane.COLLECTIVE)
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
    it: Instruction,
    row: dict[str, Any],
    scheduler: Scheduler,
    flags: Mapping[str, str],
) -> Synchronous:
    if _asked(row["kind"], flags):
        return Synchronous(Cause.ASKED, f"--{SYNCHRONOUS}={flags[SYNCHRONOUS]} asks for it")
    if '"kernel_strategy":"TRITON' in it.backend_config.replace(" ", ""):
        return Synchronous(Cause.KERNEL, "XLA runs it as a kernel of its own among the others")
    if scheduler.ran is False:
        why = f"the latency-hiding scheduler did not run: {scheduler.why}"
        return Synchronous(Cause.SCHEDULER_OFF, why)
    return _by_surroundings(program, it, row, flags)


def _by_surroundings(
    program: Program, it: Instruction, row: dict[str, Any], flags: Mapping[str, str]
) -> Synchronous:
    movable = row["movable_ms"]
    if movable is not None and movable > _WORTH * (row["transfer_ms"] or row["median_ms"]):
        why = f"the scheduler put nothing beside it, though {movable:,.3g} ms of work need it not"
        return Synchronous(Cause.LEFT_ALONE, why)
    if in_loop(program, it.computation):
        return Synchronous(Cause.LOOP, _in_loop(row, flags))
    if movable is None:
        return Synchronous(Cause.NOTHING, "nothing stands between its start and its done")
    return Synchronous(Cause.NOTHING, "all work before it feeds it, and all behind it needs it")


def _in_loop(row: dict[str, Any], flags: Mapping[str, str]) -> str:
    said = "the turn of its loop needs its result at once"
    if row["kind"] not in PIPELINED:
        return said
    asked = is_true(flags, pipelining_flag(row["kind"]))
    return f"{said}, pipelined or not" if asked else f"{said}, and it is not pipelined"


def pipelining_flag(kind: str) -> str:
    """The flag that moves collectives of a kind to another iteration of their loop."""
    return f"xla_gpu_enable_pipelined_{kind.replace('-', '_')}"


def _asked(kind: str, flags: Mapping[str, str]) -> bool:
    told = flags.get(SYNCHRONOUS, "").upper().replace("_", "").split(",")
    return kind.replace("-", "").upper() in told or "ALLCOLLECTIVES" in told
