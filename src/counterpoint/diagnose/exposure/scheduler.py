"""Whether XLA's latency-hiding scheduler made the schedule, and what kept it from that.

It notes the name that it knew an instruction by, so one such note proves it. Without one the
settings tell: the scheduler's flag, disabled passes, and for which chips it runs unasked. Unasked
it needs a model of every collective and of all computation: XLA has none of collective-broadcast,
of ragged-all-to-all, and of what runs on the host; one of those leaves it off for the whole module.

Source: xla/service/gpu/gpu_hlo_schedule.cc, model/sol_latency_estimator.cc
(HasOnlySupportedCollectives), transforms/scheduling_instruction_annotator.cc.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from counterpoint.diagnose.case import Case
from counterpoint.diagnose.exposure.given import given_flags, is_true
from counterpoint.flags.version import (
    DISABLED_PASSES,
    LHS,
    PROFILE,
    SCHEDULER,
    false_is_obeyed,
    lhs_flag_needed,
)
from counterpoint.hlo import Program, collective, is_start

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
