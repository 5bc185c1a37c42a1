"""Situation: what is known of the base, the devices and the program that a space is made for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from functools import cached_property
from math import ceil
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

from counterpoint.core.frozen import frozen
from counterpoint.flags import LIST_TYPES, Channel, Settings, combine, inherited_settings
from counterpoint.flags.catalogue import Flag, Release, release, variables
from counterpoint.flags.combiner import DEFAULT
from counterpoint.flags.jaxlib import installed_version
from counterpoint.flags.recipe import Condition
from counterpoint.flags.recommendation import ProgramFacts, program_facts
from counterpoint.flags.thresholds import KindThresholds, ThresholdResult
from counterpoint.flags.values import refusal
from counterpoint.flags.versions import version_number
from counterpoint.hardware import Target
from counterpoint.hlo import Program
from counterpoint.hlo.loops import mean_trips
from counterpoint.hlo.model import launched
from counterpoint.tune.arm import Per
from counterpoint.tune.executors.executor import ProcessShape
from counterpoint.tune.space.dimensions import Pick

Platform: TypeAlias = Literal["gpu", "cpu", "tpu"]

_SPOKEN: Final = {"cpu": "a CPU", "tpu": "a TPU"}
_NONE: Mapping[str, str] = MappingProxyType({})


@frozen(kw_only=True)
class RunFacts:
    """The known facts about the runs.

    Args:
        shape: The process layout of the base; None if nothing is run.
        platform: The platform of the runs, if no target names it.
        inherited: The environment that the runs inherit.
    """

    shape: ProcessShape | None = None
    platform: Platform | None = None
    inherited: Mapping[str, str] = field(default_factory=lambda: _NONE)


@frozen(kw_only=True, slots=False)
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
            return "for GPUs, but none are known: name them with `target=`"
        return f"for GPUs, not for {_SPOKEN[self.platform]}"

    def unmet(self, condition: Condition) -> str | None:
        """Return why a condition does not hold here; None if it does."""
        why = condition.why_not(self.version, self.chip, self.hosts)
        if why is None:
            only = condition.unsettled(self.chip)
            why = f"{only}: name the chip with `target=`" if only else None
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
    running: RunFacts,
) -> SpaceContext:
    """Collect what is known; a target implies its platform."""
    meant = version or installed_version()
    found = release(meant)
    return SpaceContext(
        base=base,
        release=found,
        version=meant,
        sure=version is not None and found.exact,
        platform=running.platform or _platform(target),
        target=target,
        program=program,
        shape=running.shape,
        inherited=running.inherited,
    )


def _platform(target: Target | None) -> Platform | None:
    if target is None:
        return None
    return "tpu" if target.tpu is not None else "gpu"


_OF_ALIAS: Final = {True: "ON", False: "DEFAULT"}
"""The value that an old switch sets in the mode that replaced it."""

TWINS: Final = {"XLA_CLIENT_MEM_FRACTION": "XLA_PYTHON_CLIENT_MEM_FRACTION"}
"""Two names of one variable, which JAX rejects together."""


def fitted(settings: Settings, here: SpaceContext) -> Settings:
    """Adapt settings: fill in numbers, apply changes to lists, and use the base's own names."""
    xla = tuple((name, _fitted_value(name, value, here)) for name, value in settings.xla)
    names = {new: old for new, old in TWINS.items() if old in here.variables}
    names |= {old: new for new, old in TWINS.items() if new in here.variables}
    env = tuple((names.get(name, name), value) for name, value in settings.env)
    return Settings(xla, env, settings.options, settings.layout)


def _fitted_value(name: str, value: str, here: SpaceContext) -> str:
    if "{gpus_per_host}" in value and here.gpus_per_host is not None:
        value = value.replace("{gpus_per_host}", str(here.gpus_per_host))
    flag = here.release.flags.get(name)
    if flag is not None and flag.type == "enums" and value[:1] in ("+", "-"):
        return combine(name, given(name, here) or flag.default, value)
    return value


def given(name: str, here: SpaceContext) -> str | None:
    """Return the base's value of a flag or variable, under any alias; None if it has none."""
    if not name.startswith("xla"):
        return here.variables.get(name)
    flags = here.before.flags
    found = flags.get(name)
    for flag, value in flags.items():
        alias = here.release.flags.get(flag)
        if alias is not None and alias.alias_of == name:
            meant = alias.meaning(value)
            found = _OF_ALIAS[meant] if isinstance(meant, bool) else found
    return dict(here.base.options).get(name, found)


def is_said(settings: Settings, here: SpaceContext) -> bool:
    """Return True if the base sets any of these names."""
    return any(given(name, here) is not None for name, _ in (*settings.xla, *settings.env))


def refused(settings: Settings, here: SpaceContext) -> str | None:
    """Return why the release, or the base, rejects one of these; None if all are accepted."""
    return next(_refusals(settings, here), None)


def _refusals(settings: Settings, here: SpaceContext) -> Iterator[str]:
    for name, value in settings.xla:
        why = _flag_refusal(name, value, here)
        if why is not None:
            yield why
        elif name in dict(here.base.options) and not says(name, value, here):
            yield f"the base gives {name} as a compile option, which takes precedence"
    for name, value in settings.env:
        known = variables().get(name)
        if known is None:
            continue
        if (
            known.by_jaxlib
            and known.since
            and version_number(here.version) < version_number(known.since)
        ):
            yield f"{name} requires jaxlib {known.since} or later"
        elif not known.takes(value):
            yield f"{name} does not accept {value}"


def _flag_refusal(name: str, value: str, here: SpaceContext) -> str | None:
    version = here.release.version
    flag = here.release.flags.get(name)
    if flag is None or not flag.xla_flags:
        return f"jaxlib {version} does not know {name}"
    if flag.fatal:
        return f"{name} aborts the process in jaxlib {version}"
    if flag.no_op:
        return f"{name} does nothing in jaxlib {version}"
    why = refusal(flag, value, Channel.XLA_FLAGS)
    return None if why is None else f"jaxlib {version} does not accept {name}={value}"


def says_all(settings: Settings, here: SpaceContext) -> bool:
    """Return True if the base or the defaults have all of these values already."""
    pairs = (*settings.xla, *settings.env)
    return bool(pairs) and all(says(name, value, here) for name, value in pairs)


def says(name: str, value: str, here: SpaceContext) -> bool:
    """Return True if the value is in effect already.

    That is the value of the base or of the inherited environment, else the release's default. If
    none of them is known, no value is in effect.
    """
    now = given(name, here)
    flag = here.release.flags.get(name) if name.startswith("xla") else None
    if flag is not None:
        return _flag_says(flag, flag.default if now is None else now, value)
    variable = variables().get(name)
    if now is None:
        now = here.release.jax.get(name)
    if now is None and variable is not None:
        return variable.is_default(value)
    if now is None:
        return False
    if variable is not None and variable.meaning(value) is not None:
        return variable.meaning(value) == variable.meaning(now)
    return now.casefold() == value.casefold()


def _flag_says(flag: Flag, now: str, value: str) -> bool:
    if flag.type in LIST_TYPES:
        merged = combine(flag.name, now, value)
        return _entries(merged) == _entries(now)
    return flag.meaning(value) is not None and flag.meaning(value) == flag.meaning(now)


def _entries(text: str) -> frozenset[str]:
    return frozenset(entry.strip().upper() for entry in text.split(",") if entry.strip())


MOST: Final = 4
_KIB: Final = 1024
_SIZE: Final = re.compile(r"(\d+)\s*(B|KiB|MiB|GiB)?", re.IGNORECASE)
_UNITS: Final = {"": 1, "b": 1, "kib": _KIB, "mib": _KIB**2, "gib": _KIB**3}


def break_points(combining: KindThresholds, here: SpaceContext) -> Mapping[str, tuple[Pick, ...]]:
    """Return at most four thresholds that merge differently from the base, in ascending order.

    First come the least that merges all of a loop's body, and the default if the base has another
    value; then nothing merged, all merged, and those between.
    """
    current = given(combining.flag, here)
    now = int(current) if current is not None and current.strip().isdigit() else DEFAULT
    powers = [candidate.threshold for candidate in combining.candidates]
    wanted = [
        *([combining.choice] if combining.choice is not None else []),
        DEFAULT,
        *powers[-1:],
        0,
        *_outside_in(powers[:-1]),
    ]
    found: dict[tuple[int, int | None, int], int] = {}
    seen = {_outcome(now, combining)}
    for threshold in wanted:
        outcome = _outcome(threshold, combining)
        if outcome not in seen and len(found) < MOST:
            seen.add(outcome)
            found[outcome] = threshold
    return picks(combining.flag, sorted(found.values()))


def picks(flag: str, thresholds: Iterable[int]) -> Mapping[str, tuple[Pick, ...]]:
    """Make a choice of each threshold."""
    return MappingProxyType(
        {
            name_of(threshold): (Pick(settings=Settings(((flag, str(threshold)),))),)
            for threshold in thresholds
        }
    )


def name_of(threshold: int) -> str:
    """Format a threshold: `512 MiB`; `default`; exact bytes if it is not a round number."""
    if threshold == DEFAULT:
        return "default"
    for unit in ("GiB", "MiB", "KiB"):
        if threshold and threshold % _UNITS[unit.lower()] == 0:
            return f"{threshold // _UNITS[unit.lower()]} {unit}"
    return f"{threshold} B" if threshold else "0"


def size_of(text: str) -> int | None:
    """Parse `512 MiB`, `536870912` or `default` as bytes; None for anything else."""
    if text.strip().casefold() == "default":
        return DEFAULT
    match = _SIZE.fullmatch(text.strip())
    return int(match[1]) * _UNITS[(match[2] or "").lower()] if match else None


def _outcome(threshold: int, combining: KindThresholds) -> tuple[int, int | None, int]:
    step: ThresholdResult = combining.default if threshold == DEFAULT else combining.at(threshold)
    return step.collectives, step.launches, step.largest


def _outside_in(sorted_: list[int]) -> list[int]:
    """Return the middle first, then what is farther from it."""
    middle = len(sorted_) // 2
    return sorted(sorted_, key=lambda threshold: abs(sorted_.index(threshold) - middle))
