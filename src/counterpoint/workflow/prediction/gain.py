"""The maximum gain from real PGLE: compiled with predicted costs, then simulated with the same.

The scheduler's costs are those that the simulator then uses, so none of its decisions is based on a
wrong one. A profile is optional: if the schedule with it is longer, the gain is zero. That happens
if memory is scarce: with true costs XLA starts long collectives earlier, so more buffers live at
once, and above its limit it prefers orders that free memory to orders that overlap.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from counterpoint.compile.compiler import compile_workload
from counterpoint.compile.inputs.workload import Workload
from counterpoint.core import Range, UsageError
from counterpoint.core.scratch import scratch_directory
from counterpoint.cost.model import CostModel
from counterpoint.flags.settings import Settings
from counterpoint.flags.versions import PROFILE, scheduler_on
from counterpoint.hlo.model.program import Program
from counterpoint.pgle.applying.apply import apply_on_tpus, compare_compiles
from counterpoint.pgle.applying.libtpu import INIT_ARGS, profile_argument
from counterpoint.pgle.compiler_log import VERBOSE_LOG
from counterpoint.pgle.lookups import xla_lookups
from counterpoint.pgle.profiles.files import check_place, write_profile
from counterpoint.pgle.profiles.profile import InstructionCost, Profile
from counterpoint.workflow.forecast.forecast import PricingContext, compile_request, forecast
from counterpoint.workflow.forecast.iteration import forecast_in_turn
from counterpoint.workflow.forecast.options import PredictionOptions
from counterpoint.workflow.forecast.ranking import (
    Forecast,
    difference,
    same_schedule,
)
from counterpoint.workflow.subject import PredictionSubject
from counterpoint.workflow.variant import Variant

# The format of latency_hiding_scheduler.cc of XLA.
_CROWDED: Final = re.compile(
    r"LatencyHidingScheduler current memory usage: (\d+) bytes\. Current limit: (\d+)"
)
NAME: Final = "with predicted PGLE"

_PREDICTED: Final = "PREDICTED, not measured"
_DECIMALS: Final = 3  # of a microsecond


@dataclass(frozen=True, slots=True)
class MemoryPressure:
    """The memory of the schedule, and the scheduler's limit, which it exceeds."""

    wanted_bytes: int
    limit_bytes: int


def crowding(log: str) -> MemoryPressure | None:
    """Return the logged memory of the schedule, if that is more than the scheduler's limit."""
    attempts = [MemoryPressure(int(wanted), int(limit)) for wanted, limit in _CROWDED.findall(log)]
    over = [attempt for attempt in attempts if attempt.wanted_bytes > attempt.limit_bytes]
    return max(over, key=lambda attempt: attempt.wanted_bytes) if over else None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Gain:
    """A step that was scheduled by a synthetic profile, and what it saves."""

    forecast: Forecast
    saves_s: float
    saves_range_s: Range
    costs: int
    used: bool
    reason: str  # why it was used, or was not
    changed: bool  # True if the schedule differs
    crowded: MemoryPressure | None = None  # if memory ruled out the schedule that the costs suggest
    path: Path | None = None  # the file of the profile, if it is saved
    path_of: str | None = None  # the only program of the step whose costs are in it


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Scheduled:
    """One program of the step, compiled with the costs of its own instructions."""

    forecast: Forecast
    used: bool = True
    reason: str = ""
    changed: bool = False
    crowded: MemoryPressure | None = None


def gain(
    subject: PredictionSubject,
    pricing: PricingContext,
    base: Forecast,
    question: PredictionOptions,
) -> Gain | None:
    """Compile the programs of the base again, with a profile of the model's prices.

    A run hands one profile to all of its programs; each takes the costs with its fingerprint.
    """
    if base.compiled is None or subject.workload is None:
        return None
    workloads = [part.workload for part in subject.cycle] or [subject.workload]
    on_tpus = pricing.target.tpu is not None
    parts, profiles = base.parts or (base,), list[Profile]()
    for number, part in enumerate(parts):
        about = f"{part.program.name} on {pricing.target}"
        model = pricing.of_part(number).model()
        profiles.append(synthetic_profile(part.program, model, about, copies=on_tpus))
    main = subject.main if subject.cycle else 0
    # libtpu's programs have no fingerprints that keep equal names of several apart.
    of_one = parts[main].program.name if on_tpus and base.parts else None
    if question.pgle_out is not None:
        names = of_one or ", ".join(part.program.name for part in parts)
        saved = _together([profiles[main]] if of_one else profiles, f"{names} on {pricing.target}")
        write_profile(saved, question.pgle_out, overwrite=question.overwrite)
    scheduled: list[_Scheduled] = []
    for number, (workload, part, profile) in enumerate(
        zip(workloads, parts, profiles, strict=True)
    ):
        own = pricing.of_part(number)
        with scratch_directory("pgle") as scratch:
            if not profile.costs:
                scheduled.append(_Scheduled(forecast=part))  # nothing that a scheduler could move
            elif on_tpus:
                place = scratch / "libtpu.pb"
                scheduled.append(_on_tpus(place, profile, workload, own, part, question))
            else:
                place = write_profile(profile, scratch / "predicted.pbtxt")
                scheduled.append(
                    _compiled_with(place, profile, workload, own, part, question.timeout_s)
                )
    whole = _of_step(scheduled, profiles, subject, pricing, base)
    return replace(whole, path=question.pgle_out, path_of=of_one)


def _of_step(
    scheduled: Sequence[_Scheduled],
    profiles: Sequence[Profile],
    subject: PredictionSubject,
    pricing: PricingContext,
    base: Forecast,
) -> Gain:
    simulated = scheduled[0].forecast
    if base.parts:
        alive = [
            None if one.forecast is part else it.alive_bytes  # the memory of a part includes it
            for one, part, it in zip(scheduled, base.parts, subject.cycle, strict=True)
        ]
        again = [one.forecast for one in scheduled]
        simulated = forecast_in_turn(
            pricing, again, base.order, subject.main, alive, subject.updates
        )
    unused = {one.reason: one.forecast.program.name for one in scheduled if not one.used}
    reasons = (f"{name}: {why}" if base.parts else why for why, name in unused.items())
    crowded = [one.crowded for one in scheduled if one.crowded is not None]
    return Gain(
        forecast=simulated,
        saves_s=base.step_s - simulated.step_s,
        saves_range_s=difference(base.simulation, simulated.simulation),
        costs=sum(len(profile.costs) for profile in profiles),
        used=not unused,
        reason="; ".join(reasons) or scheduled[0].reason,
        changed=any(one.changed for one in scheduled),
        crowded=max(crowded, key=lambda it: it.wanted_bytes, default=None),
    )


def _together(profiles: Sequence[Profile], about: str) -> Profile:
    """Return one profile with the costs of all programs of a step."""
    origin: dict[str, str] = {}
    for profile in profiles:
        origin |= profile.origin
    costs = (cost for profile in profiles for cost in profile.costs)
    return Profile(tuple(costs), origin={**origin, "costs": f"{_PREDICTED}: {about}"})


def _on_tpus(
    place: Path,
    profile: Profile,
    workload: Workload,
    pricing: PricingContext,
    base: Forecast,
    question: PredictionOptions,
) -> _Scheduled:
    """Give the profile to libtpu, in the names that its scheduler looks up."""
    variant, timeout_s = Variant(NAME, base.settings), question.timeout_s
    task = compile_request(workload, pricing.target, variant, timeout_s, schedule_only=True).task
    applied = apply_on_tpus(task, place, profile)
    simulated = base
    if applied.used and applied.for_libtpu is not None:
        word = profile_argument(write_profile(applied.for_libtpu, place))
        given = " ".join(filter(None, [base.settings.variables.get(INIT_ARGS), word]))
        variant = Variant(NAME, base.settings.merged(Settings((), ((INIT_ARGS, given),))))
        only = question.schedule_only
        wanted = compile_request(workload, pricing.target, variant, timeout_s, schedule_only=only)
        task = wanted.task
        compiled = compile_workload(
            workload, task.target, task.options, task.environment, timeout_s, schedule_only=only
        )
        simulated = forecast(pricing, wanted, compiled)
    return _Scheduled(
        forecast=simulated,
        used=applied.used,
        reason=applied.reason,
        changed=not same_schedule(base.program, simulated.program),
    )


def check_gain_place(out: Path, *, overwrite: bool) -> None:
    """Reject a path that can't be written to, before any work is done."""
    try:
        check_place(out, overwrite=overwrite)
    except UsageError as error:
        error.rename("-o", "--pgle-out")  # -o is the Timeline's here
        error.next = error.next or f"mkdir -p {shlex.quote(str(out.parent))}"
        raise


def _compiled_with(
    place: Path,
    profile: Profile,
    workload: Workload,
    pricing: PricingContext,
    base: Forecast,
    timeout_s: float,
) -> _Scheduled:
    # A profile turns the scheduler on where it would be off: so it is turned on here, too.
    flags = {**dict(scheduler_on()), **base.settings.flags, PROFILE: str(place)}
    variant = Variant(NAME, replace(base.settings, xla=tuple(flags.items())))
    wanted = compile_request(workload, pricing.target, variant, timeout_s)
    compiled = compile_workload(
        workload, pricing.target, wanted.task.options, dict(VERBOSE_LOG), timeout_s=timeout_s
    )
    simulated = forecast(pricing, wanted, compiled)
    applied = compare_compiles(place, profile, base.compiled or compiled, compiled)
    return _Scheduled(
        forecast=simulated,
        used=applied.used,
        reason=applied.reason,
        changed=not same_schedule(base.program, simulated.program),
        crowded=crowding(compiled.log),
    )


def synthetic_profile(
    program: Program, model: CostModel, about: str, *, copies: bool = False
) -> Profile:
    """Price each instruction by the model, under the names that XLA looks up.

    With `copies`, these as well: XLA takes their costs, but counts none as missing.
    """
    costs: dict[str, InstructionCost] = {}
    for lookup in xla_lookups(program):
        seconds = model.price(program, lookup.instruction).seconds
        for name in lookup.names:
            costs[name] = InstructionCost(
                name, round(seconds * 1e6, _DECIMALS), program.fingerprint
            )
    for instruction in program.instructions if copies else ():
        if instruction.opcode == "copy":
            us = round(model.price(program, instruction).seconds * 1e6, _DECIMALS)
            costs[instruction.name] = InstructionCost(instruction.name, us, program.fingerprint)
    # XLA 0.12 looks up the end of an asynchronous fusion, too.
    for instruction in program.instructions:
        if instruction.opcode == "fusion-done":
            costs.setdefault(
                instruction.name, InstructionCost(instruction.name, 0.0, program.fingerprint)
            )
    origin = {
        "made by": "counterpoint predict --pgle",
        "costs": f"{_PREDICTED}: {about}",
        f"module {program.fingerprint}" if program.fingerprint else "module": program.name,
    }
    return Profile(tuple(costs.values()), origin=origin)
