"""Applies a profile to a program for TPUs: in the names of libtpu's scheduler, proved by its dump.

libtpu looks up names that its program no longer has once it is compiled: after scheduling it fuses
collectives with products, and numbers them anew. What a profiler names is found in the scheduler's
own module by the channel of a collective, and by name, opcode and shape of anything else.

The dump has the time that the scheduler gave each instruction. That is the proof: libtpu logs
nothing about a profile, but nothing else differs between a compile without it and one with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from counterpoint.compile.compiler import CompiledProgram
from counterpoint.core.printable import counted_noun
from counterpoint.hlo.collectives import collective
from counterpoint.hlo.model.instruction import Instruction
from counterpoint.hlo.model.program import Program, launched, launches
from counterpoint.hlo.schedule import async_pairs, is_done, is_start
from counterpoint.pgle.compiler_log import CompilerLog, ModuleUse, ProfileUse
from counterpoint.pgle.lookups import base_name, costs_found
from counterpoint.pgle.profiles.profile import InstructionCost, Profile
from counterpoint.pgle.staleness import ProfileFit, Staleness

INIT_ARGS: Final = "LIBTPU_INIT_ARGS"
_FLAG: Final = "--xla_tpu_impure_latency_hiding_scheduler_profile_path"
_SAME: Final = 1e-3  # of a time: the dump's are sums, so their differences are rounded
_NEVER: Final = "none of its collectives is asynchronous, so there is none to move"
_SHOWN: Final = 3  # of each kind
_SAME_WORKLOAD: Final = 0.5  # share of names: below it, another model's names match by chance


def profile_argument(path: Path) -> str:
    """Return the word of LIBTPU_INIT_ARGS with which libtpu reads a profile."""
    return f"{_FLAG}={path}"


@dataclass(frozen=True, slots=True)
class TpuProfile:
    """The costs as the scheduler looks them up, and the file that gives it these times."""

    costs: Profile
    file: Profile


def tpu_profile(profile: Profile, compiled: Program, scheduled: CompiledProgram) -> TpuProfile:
    """Return the profile in the names of the scheduler's module, `scheduled`.

    `compiled` is the same program under the names that the profile has.

    libtpu 0.0.42 to 0.0.50 multiply the time of an asynchronous collective by the clock twice: the
    file has it divided by the clock once.
    """
    clock, seen = scheduled.clock, scheduled.program
    channels: dict[int | None, Instruction] = {
        instruction.channel_id: instruction
        for instruction in _asked(seen)
        if instruction.channel_id is not None and collective(seen, instruction) is not None
    }
    costs: dict[str, InstructionCost] = {}
    file: dict[str, InstructionCost] = {}
    # A clone comes first, so that the cost of the name itself counts where it has one.
    for cost in sorted(profile.costs, key=lambda cost: base_name(cost.name) == cost.name):
        instruction = (
            _scheduled(compiled, cost.name, seen, channels) if not cost.fingerprint else None
        )
        us = cost.us
        if (
            instruction is not None and instruction.name in clock.us and us
        ):  # a zero was not measured
            costs[instruction.name] = InstructionCost(instruction.name, us)
            given = us / clock.mhz if is_start(instruction) else us
            file[instruction.name] = InstructionCost(instruction.name, given)
    return TpuProfile(
        replace(profile, costs=tuple(costs.values()), latencies=()),
        Profile(tuple(file.values())),
    )


def _asked(program: Program) -> Iterator[Instruction]:
    """Yield everything that the scheduler looks up."""
    for computation in launched(program):
        for instruction in computation.instructions:
            if launches(instruction) and not is_done(instruction):
                yield instruction


def _scheduled(
    compiled: Program, name: str, seen: Program, channels: Mapping[int | None, Instruction]
) -> Instruction | None:
    """Return the scheduler's instruction for a name of the compiled program."""
    clones = (it for it in _asked(compiled) if base_name(it.name) == name)
    own = compiled.instruction(name) or next(clones, None)
    if own is None:
        return None
    if collective(compiled, own) is not None and own.channel_id in channels:
        return channels[own.channel_id]
    # What libtpu computes again after scheduling is renamed there.
    there = seen.instruction(name) or seen.instruction(base_name(name))
    if there is None or (there.opcode, str(there.shape)) != (
        own.opcode,
        str(own.shape),
    ):
        return None
    return there


def fit_by_names(profile: Profile, compiled: Program) -> Staleness:
    """Return whether the names are of this program: libtpu's have no fingerprint."""
    names = {cost.name for cost in profile.costs}
    known = sum(compiled.instruction(name) is not None for name in names)
    what = f"of {counted_noun(len(names), 'name')} in it, this program has {known:,}"
    if known < _SAME_WORKLOAD * len(names):
        return Staleness(ProfileFit.FOREIGN, what)
    return Staleness(ProfileFit.UNTOLD, f"libtpu's programs have no fingerprint; {what}")


def compute_costs(costs: Profile, scheduled: CompiledProgram) -> Mapping[str, float]:
    """Return the costs, and the scheduler's own time of all compute that has none."""
    communication = {
        instruction.name
        for instruction in _asked(scheduled.program)
        if is_start(instruction) or collective(scheduled.program, instruction) is not None
    }
    own = {name: end - start for name, (start, end) in scheduled.clock.us.items()}
    others = {name: us for name, us in own.items() if name not in communication}
    return {**others, **costs_found(costs.costs, None)}


def scheduler_log(
    asked: Profile, before: CompiledProgram, after: CompiledProgram
) -> tuple[CompilerLog, list[str]]:
    """Return what the scheduler's times say about the profile, and them line by line.

    `before` was compiled without it. Where the dumps are equal, a cost proves nothing.
    """
    times, program = after.clock.us, after.program
    dones = async_pairs(program)
    given = {cost.name: _given(times, cost.name, dones) for cost in asked.costs}
    obeyed = frozenset(
        cost.name
        for cost in asked.costs
        if _is_obeyed(cost.us, given[cost.name], at_least=cost.name in dones)
    )
    used = times != before.clock.us
    alone = [it.name for it in _asked(program) if collective(program, it) and it.name not in times]
    longest = sorted(asked.costs, key=lambda cost: -cost.us)
    shown = [cost for cost in longest if cost.name in dones][:_SHOWN]
    shown += [cost for cost in longest if cost.name not in dones][:_SHOWN]
    lines = [
        f"{cost.name}: {cost.us:,.3f} us in the profile; in the schedule"
        f" {_told(given[cost.name])}{' from its start to its done' * (cost.name in dones)}"
        for cost in shown
        if times
    ]
    missed = [cost.name for cost in asked.costs if cost.name not in obeyed]
    if not times:
        reason = f"libtpu's latency hiding scheduler leaves this program alone: {_NEVER}"
    elif not asked.costs:
        reason = "none of its names stands for anything that libtpu's scheduler sees"
    elif not used:
        reason = "the scheduler's dump is the same with the profile and without it"
    else:
        part = f"{len(obeyed):,} of {len(asked.costs):,} costs"
        reason = f"the dump of libtpu's scheduler differs with it, and has the times of {part}"
        if alone:
            reason += f"; it leaves {counted_noun(len(alone), 'collective')} in loops as they are"
    use = ProfileUse.USED if used else ProfileUse.NOT_USED
    module = ModuleUse(
        module=program.name,
        use=use,
        reason=reason,
        guided=True,
        source="libtpu",
        found=len(obeyed),
        missing=len(missed),
        missing_names=tuple(missed),
        looked_up=obeyed,
        missed=frozenset(missed),
    )
    return CompilerLog(use, reason, (module,)), lines


def _given(
    times: Mapping[str, tuple[float, float]], name: str, dones: Mapping[str, str]
) -> float | None:
    """Return the time that the scheduler gave: of a start, up to its done."""
    own, done = times.get(name), times.get(dones.get(name, name))
    if own is None or done is None:
        return None
    return (done[0] if name in dones else own[1]) - own[0]


def _is_obeyed(asked: float, given: float | None, *, at_least: bool) -> bool:
    """Return whether it is the profile's time; a collective may get more beside longer work."""
    if given is None:
        return False
    slack = _SAME * max(asked, 1.0)
    return given >= asked - slack and (at_least or given <= asked + slack)


def _told(us: float | None) -> str:
    return "nothing" if us is None else f"{us:,.3f} us"
