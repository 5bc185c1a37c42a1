"""The maximum gain from real PGLE: compiled with predicted costs, then simulated with the same.

The scheduler's costs are those that the simulator then uses, so none of its decisions is based on a
wrong one. A profile is optional: if the schedule with it is longer, the gain is zero. That happens
if memory is scarce: with true costs XLA starts long collectives earlier, so more buffers live at
once, and above its limit it prefers orders that free memory to orders that overlap.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Final

from counterpoint.compile import compile_workload
from counterpoint.compile.inputs import Workload
from counterpoint.core import Range, UsageError
from counterpoint.core.frozen import frozen
from counterpoint.core.scratch import scratch_directory
from counterpoint.cost import CostModel
from counterpoint.flags import Settings
from counterpoint.flags.versions import PROFILE, scheduler_on
from counterpoint.hlo import Program
from counterpoint.pgle import VERBOSE_LOG, xla_lookups
from counterpoint.pgle.applying import (
    INIT_ARGS,
    apply_on_tpus,
    compare_compiles,
    profile_argument,
)
from counterpoint.pgle.profiles import InstructionCost, Profile, check_place, write_profile
from counterpoint.workflow.forecast.forecast import PricingContext, compile_request, forecast
from counterpoint.workflow.forecast.options import PredictionOptions
from counterpoint.workflow.forecast.ranking import (
    Forecast,
    difference,
    same_schedule,
)
from counterpoint.workflow.variant import Variant

# The format of latency_hiding_scheduler.cc of XLA.
_CROWDED: Final = re.compile(
    r"LatencyHidingScheduler current memory usage: (\d+) bytes\. Current limit: (\d+)"
)
NAME: Final = "with predicted PGLE"

_DECIMALS: Final = 3  # of a microsecond


@frozen
class MemoryPressure:
    """The memory of the schedule, and the scheduler's limit, which it exceeds."""

    wanted_bytes: int
    limit_bytes: int


def crowding(log: str) -> MemoryPressure | None:
    """Return the logged memory of the schedule, if that is more than the scheduler's limit."""
    found = [MemoryPressure(int(wanted), int(limit)) for wanted, limit in _CROWDED.findall(log)]
    over = [attempt for attempt in found if attempt.wanted_bytes > attempt.limit_bytes]
    return max(over, key=lambda attempt: attempt.wanted_bytes) if over else None


@frozen(kw_only=True, eq=False)
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


def gain(
    workload: Workload, pricing: PricingContext, base: Forecast, question: PredictionOptions
) -> Gain | None:
    """Compile the base again, with a profile of the model's prices of its instructions."""
    if base.compiled is None:
        return None
    about = f"{base.program.name} on {pricing.target}"
    on_tpus = pricing.target.tpu is not None
    profile = synthetic_profile(base.program, pricing.model(), about, copies=on_tpus)
    out, timeout_s = question.pgle_out, question.timeout_s
    if out is not None:
        write_profile(profile, out, overwrite=question.overwrite)
    with scratch_directory("pgle") as scratch:
        if on_tpus:
            return _on_tpus(scratch / "libtpu.pb", profile, workload, pricing, base, question)
        place = write_profile(profile, scratch / "predicted.pbtxt")
        return _compiled_with(place, profile, workload, pricing, base, out, timeout_s)


def _on_tpus(
    place: Path,
    profile: Profile,
    workload: Workload,
    pricing: PricingContext,
    base: Forecast,
    question: PredictionOptions,
) -> Gain:
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
    return Gain(
        forecast=simulated,
        saves_s=base.step_s - simulated.step_s,
        saves_range_s=difference(base.simulation, simulated.simulation),
        costs=len(profile.costs),
        used=applied.used,
        reason=applied.reason,
        changed=not same_schedule(base.program, simulated.program),
        path=question.pgle_out,
    )


def check_gain_place(out: Path, *, overwrite: bool) -> None:
    """Reject a path that can't be written to, before any work is done."""
    try:
        check_place(out, overwrite=overwrite)
    except UsageError as error:
        error.rename({"out": "pgle_out"})  # `out` is the Timeline's here
        error.next = error.next or f"mkdir -p {shlex.quote(str(out.parent))}"
        raise


def _compiled_with(
    place: Path,
    profile: Profile,
    workload: Workload,
    pricing: PricingContext,
    base: Forecast,
    out: Path | None,
    timeout_s: float,
) -> Gain:
    # A profile turns the scheduler on where it would be off: so it is turned on here, too.
    flags = {**dict(scheduler_on()), **base.settings.flags, PROFILE: str(place)}
    variant = Variant(NAME, replace(base.settings, xla=tuple(flags.items())))
    wanted = compile_request(workload, pricing.target, variant, timeout_s)
    compiled = compile_workload(
        workload, pricing.target, wanted.task.options, dict(VERBOSE_LOG), timeout_s=timeout_s
    )
    simulated = forecast(pricing, wanted, compiled)
    applied = compare_compiles(place, profile, base.compiled or compiled, compiled)
    saves = difference(base.simulation, simulated.simulation)
    return Gain(
        forecast=simulated,
        saves_s=base.step_s - simulated.step_s,
        saves_range_s=saves,
        costs=len(profile.costs),
        used=applied.used,
        reason=applied.reason,
        changed=not same_schedule(base.program, simulated.program),
        crowded=crowding(compiled.log),
        path=out,
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
        "costs": f"PREDICTED, not measured: {about}",
        f"module {program.fingerprint}" if program.fingerprint else "module": program.name,
    }
    return Profile(tuple(costs.values()), origin=origin)
