"""What differs around the step: the machine, the program, the settings, the versions.

Another chip, another number of devices, other shapes: then A and B are not the same experiment, and
a difference in time is no surprise. That is told apart from what one changes to make a step faster.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from counterpoint.core import Basis, CounterpointError
from counterpoint.diagnose.compare.side import Side
from counterpoint.flags import Settings, difference, sound
from counterpoint.flags.text import parse_xla_flags
from counterpoint.hlo import Program
from counterpoint.runs import Run
from counterpoint.runs.reports import flags_by_module, variables_of
from counterpoint.timeline import Timeline

_OURS: Final = ("xla_dump_", "xla_log_")
"""Flags that name a Run's own directories and speak of nothing else."""
_OWN: Final = (
    *("PYTHONPATH", "COUNTERPOINT_", "JAX_DUMP_IR_TO", "PYTHONUNBUFFERED", "PYTHONFAULTHANDLER"),
    *("SLURM_", "OMPI_", "PMI", "XLA_FLAGS"),
)
_OF_ITSELF: Final = ("profile_", "prediction_", "process_id", "EXPORT_")
"""What a profile says of its own making."""
_SHOWN: Final = 3


class About(StrEnum):
    """What a difference is in; the first makes another experiment of it."""

    EXPERIMENT = "experiment"
    PROGRAM = "program"
    SETTING = "setting"
    VERSION = "version"


@dataclass(frozen=True, slots=True)
class Differs:
    """One thing that is not the same; None where a side does not have it or does not tell."""

    about: About
    what: str
    a: str | None
    b: str | None


def differences(a: Side, b: Side) -> tuple[Differs, ...]:
    """All that differs, as far as it is known of both; what makes another experiment first."""
    found: list[Differs] = []
    if a.timeline is not None and b.timeline is not None:
        found += _machines(a.timeline, b.timeline)
        found += _programs(a.timeline, b.timeline)
    if a.run is not None and b.run is not None:
        found += _runs(a.run, b.run, _step_names(a, b))
    elif a.timeline is not None and b.timeline is not None:
        found += _circumstances(a.timeline, b.timeline)
    order = list(About)
    return tuple(sorted(found, key=lambda it: order.index(it.about)))


def _machines(a: Timeline, b: Timeline) -> Iterator[Differs]:
    told: tuple[tuple[str, str | None, str | None], ...] = (
        ("devices are", _kinds(a), _kinds(b)),
        ("chip", _chips(a), _chips(b)),
    )
    for what, mine, theirs in told:
        if mine != theirs and mine is not None and theirs is not None:
            yield Differs(About.EXPERIMENT, what, mine, theirs)
    if Basis.PREDICTED is a.basis is b.basis and a.hosts[0].name != b.hosts[0].name:
        yield Differs(About.EXPERIMENT, "simulated", a.hosts[0].name, b.hosts[0].name)
    if a.basis is b.basis and len(a.devices) != len(b.devices):
        counts = str(len(a.devices)), str(len(b.devices))
        yield Differs(About.EXPERIMENT, "devices in the profile", *counts)


def _circumstances(a: Timeline, b: Timeline) -> Iterator[Differs]:
    """As far as profiles note them."""
    for name, mine, theirs in _unequal(_told(a), _told(b)):
        about = About.SETTING if _is_variable(name) else About.VERSION
        yield Differs(about, name, mine, theirs)
    given = (_flags(it.environment.get("XLA_FLAGS", "")) for it in (a, b))
    for changed in difference(*map(_without_ours, given)):
        yield Differs(About.SETTING, changed.name, changed.before, changed.after)


def _told(timeline: Timeline) -> dict[str, str]:
    """What a profile tells of its circumstances, without what differs in every one."""
    told = timeline.environment.items()
    return {name: it for name, it in told if not name.startswith((*_OWN, *_OF_ITSELF))}


def _is_variable(name: str) -> bool:
    return name.isupper() and not name.endswith("_VERSION")


def _flags(text: str) -> dict[str, str]:
    """As XLA folds them; none where the text can't be read."""
    try:
        return Settings(sound(parse_xla_flags(text))).flags
    except CounterpointError:
        return {}


def _without_ours(flags: Mapping[str, str]) -> Settings:
    return Settings(tuple((name, it) for name, it in flags.items() if not name.startswith(_OURS)))


def _kinds(timeline: Timeline) -> str:
    return ", ".join(sorted({it.kind for it in timeline.devices}))


def _chips(timeline: Timeline) -> str | None:
    return ", ".join(sorted({it.chip for it in timeline.devices if it.chip})) or None


def step_hlo(timeline: Timeline) -> Program | None:
    """The HLO of the step's program."""
    index = timeline.step_program
    return None if index is None else timeline.programs[index].hlo()


def _programs(a: Timeline, b: Timeline) -> Iterator[Differs]:
    mine, theirs = step_hlo(a), step_hlo(b)
    if mine is None or theirs is None:
        return
    for what, of_a, of_b in (
        ("partitions", mine.num_partitions, theirs.num_partitions),
        ("replicas", mine.num_replicas, theirs.num_replicas),
    ):
        if of_a != of_b:
            yield Differs(About.EXPERIMENT, what, str(of_a), str(of_b))
    inputs = _inputs(mine), _inputs(theirs)
    if inputs[0] != inputs[1]:
        gone, new = inputs[0] - inputs[1], inputs[1] - inputs[0]
        yield Differs(About.EXPERIMENT, "inputs of a device", _some(gone), _some(new))
    if mine.name != theirs.name:
        yield Differs(About.PROGRAM, "step's program", mine.name, theirs.name)
    prints = mine.fingerprint, theirs.fingerprint
    if None not in prints and prints[0] != prints[1]:
        yield Differs(About.PROGRAM, "fingerprint", *prints)


def _inputs(program: Program) -> Counter[str]:
    """Shapes of the step's parameters, as one device has them."""
    entry = program.computations[program.entry].instructions
    return Counter(str(it.shape) for it in entry if it.opcode == "parameter")


def _some(shapes: Counter[str]) -> str:
    listed = [f"{count} x {shape}" for shape, count in shapes.most_common(_SHOWN)]
    more = len(shapes) - len(listed)
    return ", ".join(listed) + (f" and {more} more" if more > 0 else "") or "none more"


def _step_names(a: Side, b: Side) -> tuple[str, ...]:
    """What the step's program is called, where profiles tell it."""
    timelines = (side.timeline for side in (a, b))
    made = (None if it is None else step_hlo(it) for it in timelines)
    return tuple(it.name for it in made if it is not None)


def _runs(a: Run, b: Run, step: tuple[str, ...]) -> Iterator[Differs]:
    if a.world_size != b.world_size:
        yield Differs(About.EXPERIMENT, "ranks", str(a.world_size), str(b.world_size))
    devices = _count(a), _count(b)
    if devices[0] != devices[1] and None not in devices:
        yield Differs(About.EXPERIMENT, "devices of the run", str(devices[0]), str(devices[1]))
    if a.command != b.command:
        yield Differs(About.PROGRAM, "command", " ".join(a.command), " ".join(b.command))
    for changed in difference(*_settings_of(a, b, step)):
        yield Differs(About.SETTING, changed.name, changed.before, changed.after)
    for name, mine, theirs in _unequal(a.versions, b.versions):
        yield Differs(About.VERSION, name, mine, theirs)


def _count(run: Run) -> int | None:
    counts = [len(it.devices) for rank in run.ranks for it in rank.processes if it.devices]
    return max(counts, default=None)


def _settings_of(a: Run, b: Run, step: tuple[str, ...]) -> tuple[Settings, Settings]:
    """As the compiler reports them, which knows what was inherited; else as they were given.

    JAX compiles its helpers with options of its own, so the same module is asked on both sides: the
    step's, or else the one that took longest to compile of those that both have.
    """
    found = [flags_by_module(run.ranks[0]) if run.ranks else {} for run in (a, b)]
    told = [{_unnumbered(it): flags for it, flags in by.items()} for by in found]
    named = [(step[0], step[-1])] if step else []
    pairs = [*named, *((it, it) for it in (*_compiled(a), *sorted(told[0])))]
    asked = ((told[0].get(mine), told[1].get(theirs)) for mine, theirs in pairs)
    of_a, of_b = next((it for it in asked if None not in it), (None, None))
    return _settings(a, of_a or {}), _settings(b, of_b or {})


def _compiled(run: Run) -> list[str]:
    """Modules of which the HLO was kept, the dearest first."""
    names = [it.name for it in run.ranks[0].hlo] if run.ranks else []
    return [_unnumbered(".".join(it.split(".")[:2])) for it in names]


def _unnumbered(module: str) -> str:
    """`module_0008.jit_step` is `jit_step` in any run."""
    return module.partition(".")[2] or module


def _settings(run: Run, flags: Mapping[str, str]) -> Settings:
    variables = variables_of(run)
    if not flags:
        flags = _flags(variables.get("XLA_FLAGS", "")) or dict(run.settings.xla)
    return Settings(
        _without_ours(flags).xla,
        sound(
            (name, value)
            for name, value in {**variables, **dict(run.settings.env)}.items()
            if not name.startswith(_OWN)
        ),
    )


def _unequal(
    a: Mapping[str, str], b: Mapping[str, str]
) -> Iterator[tuple[str, str | None, str | None]]:
    for name in sorted(a.keys() | b.keys()):
        if a.get(name) != b.get(name):
            yield name, a.get(name), b.get(name)
