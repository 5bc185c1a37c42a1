"""SpaceContext: what is known of the base, the devices and the program that a space is made for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import ceil
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

from counterpoint.flags.catalogue.flag import Release
from counterpoint.flags.catalogue.lookup import release
from counterpoint.flags.catalogue.variable import variables
from counterpoint.flags.jaxlib import installed_version
from counterpoint.flags.recipe import Condition
from counterpoint.flags.recommendation import ProgramFacts, program_facts
from counterpoint.flags.settings import Settings, inherited_settings
from counterpoint.hardware.target import Target
from counterpoint.hlo.loops import mean_trips
from counterpoint.hlo.model.program import Program, launched
from counterpoint.tune.arm import Per
from counterpoint.tune.executors.executor import ProcessShape

Platform: TypeAlias = Literal["gpu", "cpu", "tpu"]

_PLATFORM_NAMES: Final = {"cpu": "a CPU", "tpu": "a TPU"}
_NONE: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """The known facts about the runs.

    Args:
        shape: The process layout of the base; None if nothing is run.
        platform: The platform of the runs, if no target names it.
        inherited: The environment that the runs inherit.
        command: The command that is run.
    """

    shape: ProcessShape | None = None
    platform: Platform | None = None
    inherited: Mapping[str, str] = field(default_factory=lambda: _NONE)
    command: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class SpaceContext:
    """Everything that decides which choices are valid.

    `platform` is None if it is unknown, `shape` if nothing is run. `sure` is true if the version is
    the workload's and is in the catalogue; otherwise it is a guess. `inherited` is the environment
    that the command inherits; the base is applied after it.
    """

    base: Settings
    release: Release
    version: str | None = None
    sure: bool = False
    platform: Platform | None = None
    target: Target | None = None
    program: Program | None = None
    shape: ProcessShape | None = None
    inherited: Mapping[str, str] = field(default_factory=lambda: _NONE)
    command: tuple[str, ...] = ()

    @property
    def chip(self) -> str | None:
        """The chip, as `hardware` names it."""
        if self.target is not None:
            return self.target.gpu
        return "TPU" if self.platform == "tpu" else None

    @property
    def hosts(self) -> int | None:
        """The number of hosts, from the target or from what is run."""
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
        """The process layout of the base; None if it is given as a number, or if nothing is run."""
        if self.shape is None or self.shape.ranks_per_node is not None:
            return None
        return self.shape.per

    @cached_property
    def facts(self) -> ProgramFacts | None:
        """The properties of the program that settings could change."""
        return program_facts(self.program, self.version) if self.program else None

    @cached_property
    def trips(self) -> int | None:
        """The trip count of the busiest loop; None unless the counts of all loops are known."""
        program = self.program
        if program is None:
            return None
        counts = [
            mean_trips(program, instruction)
            for computation in launched(program)
            for instruction in computation.instructions
            if instruction.opcode == "while"
        ]
        known = [count for count in counts if count is not None]
        return ceil(max(known)) if known and len(known) == len(counts) else None

    @cached_property
    def before(self) -> Settings:
        """The settings in effect without any change: inherited known variables, then the base."""
        env = tuple((name, value) for name, value in self.inherited.items() if name in variables())
        inherited = inherited_settings(self.inherited)
        return Settings(inherited.xla, env).merged(self.base)

    @cached_property
    def variables(self) -> Mapping[str, str]:
        """The known variables that are in effect without any change."""
        return self.before.variables

    def no_gpu(self) -> str | None:
        """Return why settings for GPUs do not apply; None if there are GPUs."""
        if self.platform == "gpu":
            return None
        if self.platform is None:
            return "for GPUs, but none are known: name them with --target"
        return f"for GPUs, not for {_PLATFORM_NAMES[self.platform]}"

    def unmet(self, condition: Condition) -> str | None:
        """Return why a condition does not hold here; None if it does."""
        why = condition.why_not(self.version, self.chip, self.hosts)
        if why is None:
            only = condition.unsettled(self.chip)
            why = f"{only}: name the chip with --target" if only else None
        if why and condition.needed and self.facts is not None and self.facts.beyond_model:
            return None  # such a program keeps the scheduler from starting by default
        return why

    def is_default(self, condition: Condition) -> bool:
        """Return whether a condition does not hold because XLA does the same by default."""
        return condition.is_default(self.version, self.chip, self.hosts)


def space_context(
    base: Settings,
    *,
    version: str | None,
    target: Target | None,
    program: Program | None,
    run_facts: RunFacts,
) -> SpaceContext:
    """Collect what is known; a target implies its platform."""
    meant = version or installed_version()
    found = release(meant)
    return SpaceContext(
        base=base,
        release=found,
        version=meant,
        sure=version is not None and found.exact,
        platform=run_facts.platform or _platform(target),
        target=target,
        program=program,
        shape=run_facts.shape,
        inherited=run_facts.inherited,
        command=run_facts.command,
    )


def _platform(target: Target | None) -> Platform | None:
    if target is None:
        return None
    return "tpu" if target.tpu is not None else "gpu"
