"""Situation: what is known of the base, the devices and the program that a space is made for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

from counterpoint.flags import Settings, inherited_settings
from counterpoint.flags.advice.condition import Condition
from counterpoint.flags.advice.program_facts import ProgramFacts, program_facts
from counterpoint.flags.catalogue import Release, release
from counterpoint.flags.catalogue.variable import variables
from counterpoint.flags.source import installed_jaxlib
from counterpoint.hardware import Target
from counterpoint.hlo import Program, launched, trip_count
from counterpoint.tune.arm import Per
from counterpoint.tune.executors.executor import Shape

Platform: TypeAlias = Literal["gpu", "cpu", "tpu"]

_SPOKEN: Final = {"cpu": "a CPU", "tpu": "a TPU"}
_NONE: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """What is known of the runs.

    Args:
        shape: How the base's processes are dealt out; None where nothing is run.
        platform: What they run on, where no target says it.
        inherited: The environment that they get anyhow.
    """

    shape: Shape | None = None
    platform: Platform | None = None
    inherited: Mapping[str, str] = field(default_factory=lambda: _NONE)


@dataclass(frozen=True, kw_only=True)
class Situation:
    """`platform` None: nobody knows what it runs on. `shape` None: nothing is run.

    `sure`: the version is the workload's, and the catalogue has it; else it is a guess.
    `inherited` is the environment that the command gets anyhow; the base goes before it.
    """

    base: Settings
    release: Release
    version: str | None = None
    sure: bool = False
    platform: Platform | None = None
    target: Target | None = None
    program: Program | None = None
    shape: Shape | None = None
    inherited: Mapping[str, str] = field(default_factory=lambda: _NONE)

    @property
    def chip(self) -> str | None:
        """As hardware names it."""
        return "TPU" if self.platform == "tpu" else self.target.gpu if self.target else None

    @property
    def hosts(self) -> int | None:
        """From the target, else from what is run."""
        if self.target is not None:
            return self.target.hosts
        return self.shape.nodes if self.shape is not None else None

    @property
    def devices(self) -> int | None:
        return self.target.devices if self.target else None

    @property
    def gpus_per_host(self) -> int | None:
        return self.target.gpus_per_host if self.target else None

    @property
    def per(self) -> Per | None:
        """How the base's processes are dealt out; None where that is said outright, or not run."""
        if self.shape is None or self.shape.ranks_per_node is not None:
            return None
        return self.shape.per

    @cached_property
    def facts(self) -> ProgramFacts | None:
        """What the program has that settings could change."""
        return program_facts(self.program, self.version) if self.program else None

    @cached_property
    def trips(self) -> int | None:
        """How often its busiest loop runs; None where that is not known of all of them."""
        program = self.program
        if program is None:
            return None
        counts = [
            trip_count(program, it)
            for computation in launched(program)
            for it in computation.instructions
            if it.opcode == "while"
        ]
        known = [it for it in counts if it is not None]
        return max(known, default=None) if len(known) == len(counts) else None

    @cached_property
    def before(self) -> Settings:
        """What holds without any change: what is inherited and known, and the base behind it."""
        env = tuple((name, it) for name, it in self.inherited.items() if name in variables())
        inherited = inherited_settings(self.inherited)
        return Settings(inherited.xla, env).merged(self.base)

    @cached_property
    def variables(self) -> Mapping[str, str]:
        """The variables that hold without any change, those that are known."""
        return self.before.variables

    def no_gpu(self) -> str | None:
        """Why what is for GPUs is for nothing; None where there are some."""
        if self.platform == "gpu":
            return None
        if self.platform is None:
            return "for GPUs, and none is known here: --target 8xH100 names them"
        return f"for GPUs, not for {_SPOKEN[self.platform]}"

    def unmet(self, condition: Condition) -> str | None:
        """Why a condition does not hold here; None where it does."""
        why = condition.why_not(self.version, self.chip, self.hosts)
        if why is None:
            only = condition.unsettled(self.chip)
            why = f"{only}: --target says which chip it is" if only else None
        if why and condition.needed and self.facts is not None and self.facts.beyond_model:
            return None  # such a program keeps the scheduler from starting unasked
        return why


def situation_of(
    base: Settings,
    *,
    version: str | None,
    target: Target | None,
    program: Program | None,
    running: Running,
) -> Situation:
    """What is known; GPUs that are named are GPUs."""
    meant = version or installed_jaxlib()
    found = release(meant)
    return Situation(
        base=base,
        release=found,
        version=meant,
        sure=version is not None and found.exact,
        platform=running.platform or ("gpu" if target is not None else None),
        target=target,
        program=program,
        shape=running.shape,
        inherited=running.inherited,
    )
