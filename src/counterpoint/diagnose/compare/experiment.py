"""Differences in the machine, the program, the settings and the versions of two sides.

If the chip, the number of devices or the shapes differ, A and B are different experiments, and a
difference in time is expected. This is kept apart from changes made to speed up a step.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final

from counterpoint.core import Basis, CounterpointError
from counterpoint.core.field import Field
from counterpoint.core.printable import some
from counterpoint.diagnose.compare.side import Side, names_in_step
from counterpoint.diagnose.step_programs import programs_in_step
from counterpoint.flags.settings import Settings, difference, valid_pairs
from counterpoint.flags.text import parse_xla_flags
from counterpoint.hardware.chip import chip_label
from counterpoint.hlo.model.program import Program
from counterpoint.runs.reports import flags_by_module, passed_variables, variables_of
from counterpoint.runs.run import Run
from counterpoint.timeline.model import Timeline

_OURS: Final = ("xla_dump_", "xla_log_")
"""Flags that name a Run's own directories and affect nothing else."""
_OWN: Final = (
    *("PYTHONPATH", "COUNTERPOINT_", "JAX_DUMP_IR_TO", "PYTHONUNBUFFERED", "PYTHONFAULTHANDLER"),
    *("SLURM_", "OMPI_", "PMI", "XLA_FLAGS"),
)
_OF_ITSELF: Final = ("profile_", "process_id", "EXPORT_")
"""Prefixes of entries that describe how the profile itself was made."""
_SHOWN: Final = 3
_LOCATION: Final = re.compile(
    r'^#loc.*\n| loc\((?:"[^"]*"(?:\([^()]*\))?|callsite\([^()]*\)|[^()"]*)\)', re.MULTILINE
)
_LOWERED: Final = re.compile(r"^jax_ir\d+_|(?:_compile)?\.mlir$")


class DifferenceKind(StrEnum):
    """The subject of a difference; the first one makes it another experiment."""

    EXPERIMENT = "experiment"
    PROGRAM = "program"
    SETTING = "setting"
    VERSION = "version"


@dataclass(frozen=True, slots=True)
class SideDifference:
    """One difference; None if a side lacks it or does not record it."""

    about: Annotated[DifferenceKind, Field("`experiment`, `program`, `setting` or `version`")]
    what: Annotated[str, Field("what differs")]
    a: Annotated[str | None, Field("of A; null if not set")]
    b: Annotated[str | None, Field("of B; null if not set")]


def differences(a: Side, b: Side) -> tuple[SideDifference, ...]:
    """Return all differences known on both sides; first those that make it another experiment."""
    entries: list[SideDifference] = []
    if a.timeline is not None and b.timeline is not None:
        entries += _machines(a.timeline, b.timeline)
        entries += _programs(a.timeline, b.timeline)
    if a.run is not None and b.run is not None:
        entries += _runs(a.run, b.run, _step_names(a, b))
    elif a.timeline is not None and b.timeline is not None:
        entries += _circumstances(a.timeline, b.timeline)
    order = list(DifferenceKind)
    return tuple(sorted(entries, key=lambda entry: order.index(entry.about)))


def _machines(a: Timeline, b: Timeline) -> Iterator[SideDifference]:
    facts: tuple[tuple[str, str | None, str | None], ...] = (
        ("device kind", _kinds(a), _kinds(b)),
        ("chip", _chips(a), _chips(b)),
    )
    for what, of_a, of_b in facts:
        if of_a != of_b and of_a is not None and of_b is not None:
            yield SideDifference(DifferenceKind.EXPERIMENT, what, of_a, of_b)
    simulated = [timeline.target or timeline.hosts[0].name for timeline in (a, b)]
    if Basis.PREDICTED is a.basis is b.basis and simulated[0] != simulated[1]:
        yield SideDifference(DifferenceKind.EXPERIMENT, "simulated", *simulated)
    if a.basis is b.basis and len(a.devices) != len(b.devices):
        counts = str(len(a.devices)), str(len(b.devices))
        yield SideDifference(DifferenceKind.EXPERIMENT, "devices in the profile", *counts)


def _circumstances(a: Timeline, b: Timeline) -> Iterator[SideDifference]:
    """Compare what profiles record of their environment."""
    for name, of_a, of_b in _unequal(_environment(a), _environment(b)):
        about = DifferenceKind.SETTING if _is_variable(name) else DifferenceKind.VERSION
        yield SideDifference(about, name, of_a, of_b)
    given = (_flags(timeline.environment.get("XLA_FLAGS", "")) for timeline in (a, b))
    for changed in difference(*map(_without_ours, given)):
        yield SideDifference(DifferenceKind.SETTING, changed.name, changed.before, changed.after)


def _environment(timeline: Timeline) -> dict[str, str]:
    """Return what a profile records of its environment, without what differs in every profile."""
    entries = timeline.environment.items()
    return {name: value for name, value in entries if not name.startswith((*_OWN, *_OF_ITSELF))}


def _is_variable(name: str) -> bool:
    return name.isupper() and not name.endswith("_VERSION")


def _flags(text: str) -> dict[str, str]:
    """Return flags as XLA merges them; empty if the text cannot be parsed."""
    try:
        return Settings(valid_pairs(parse_xla_flags(text))).flags
    except CounterpointError:
        return {}


def _without_ours(flags: Mapping[str, str]) -> Settings:
    return Settings(
        tuple((name, value) for name, value in flags.items() if not name.startswith(_OURS))
    )


def _kinds(timeline: Timeline) -> str:
    return ", ".join(sorted({device.kind for device in timeline.devices}))


def _chips(timeline: Timeline) -> str | None:
    named = {chip_label(it.chip, it.kind) for it in timeline.devices if it.chip}
    return " and ".join(sorted(named)) or None


def step_hlo(timeline: Timeline) -> Program | None:
    """Return the HLO of the step's program."""
    index = timeline.step_program
    return None if index is None else timeline.programs[index].hlo()


def _programs(a: Timeline, b: Timeline) -> Iterator[SideDifference]:
    program_a, program_b = step_hlo(a), step_hlo(b)
    if program_a is None or program_b is None:
        return
    for what, of_a, of_b in (
        ("partitions", program_a.num_partitions, program_b.num_partitions),
        ("replicas", program_a.num_replicas, program_b.num_replicas),
    ):
        if of_a != of_b:
            yield SideDifference(DifferenceKind.EXPERIMENT, what, str(of_a), str(of_b))
    inputs = _inputs(program_a), _inputs(program_b)
    if inputs[0] != inputs[1]:
        gone, new = inputs[0] - inputs[1], inputs[1] - inputs[0]
        yield SideDifference(
            DifferenceKind.EXPERIMENT, "inputs of a device", _some(gone), _some(new)
        )
    runs = _step_runs(a) or {program_a.name: 1}, _step_runs(b) or {program_b.name: 1}
    if runs[0] != runs[1]:
        several = max(map(len, runs)) > 1
        yield SideDifference(
            DifferenceKind.PROGRAM,
            "programs of a step" if several else "step's program",
            *map(_counted, runs),
        )
    prints = program_a.fingerprint, program_b.fingerprint
    if None not in prints and prints[0] != prints[1]:
        yield SideDifference(DifferenceKind.PROGRAM, "fingerprint", *prints)


def _step_runs(timeline: Timeline) -> dict[str, int]:
    """Return how often a step runs each of its main programs, by name."""
    parts = programs_in_step(timeline)
    return {name: parts[program].runs for name, program in names_in_step(timeline).items()}


def _counted(runs: Mapping[str, int]) -> str:
    return ", ".join(f"{count} x {name}" if count > 1 else name for name, count in runs.items())


def _inputs(program: Program) -> Counter[str]:
    """Count the shapes of the step's parameters on one device."""
    entry = program.computations[program.entry].instructions
    return Counter(
        str(instruction.shape) for instruction in entry if instruction.opcode == "parameter"
    )


def _some(counted: Counter[str]) -> str:
    listed = [f"{count} x {what}" for what, count in counted.most_common(_SHOWN)]
    more = len(counted) - len(listed)
    return ", ".join(listed) + (f" and {more} more" if more > 0 else "") or "no others"


def _step_names(a: Side, b: Side) -> tuple[str, ...]:
    """Return the names of the step's program, where profiles contain it."""
    timelines = (side.timeline for side in (a, b))
    programs = (None if timeline is None else step_hlo(timeline) for timeline in timelines)
    return tuple(program.name for program in programs if program is not None)


def _runs(a: Run, b: Run, step: tuple[str, ...]) -> Iterator[SideDifference]:
    if a.world_size != b.world_size:
        yield SideDifference(
            DifferenceKind.EXPERIMENT, "ranks", str(a.world_size), str(b.world_size)
        )
    devices = _count(a), _count(b)
    if devices[0] != devices[1] and None not in devices:
        yield SideDifference(
            DifferenceKind.EXPERIMENT, "devices of the run", str(devices[0]), str(devices[1])
        )
    if a.command != b.command:
        yield SideDifference(
            DifferenceKind.PROGRAM, "command", " ".join(a.command), " ".join(b.command)
        )
    if (modules := _other_modules(a, b)) is not None:
        yield modules
    for changed in difference(*_settings_of(a, b, step)):
        yield SideDifference(DifferenceKind.SETTING, changed.name, changed.before, changed.after)
    for name, of_a, of_b in _unequal(a.versions, b.versions):
        yield SideDifference(DifferenceKind.VERSION, name, of_a, of_b)


def same_modules(a: Run | None, b: Run | None) -> int | None:
    """Return how many modules JAX passed to XLA, if they are the same on both sides; else None."""
    if a is None or b is None:
        return None
    modules = _modules(a), _modules(b)
    return sum(modules[0].values()) or None if modules[0] == modules[1] else None


def _other_modules(a: Run, b: Run) -> SideDifference | None:
    modules = _modules(a), _modules(b)
    if modules[0] == modules[1] or not all(modules):
        return None
    gone, new = modules[0] - modules[1], modules[1] - modules[0]
    return SideDifference(
        DifferenceKind.PROGRAM,
        "modules passed to XLA",
        some([*gone], _SHOWN) or "no others",
        some([*new], _SHOWN) or "no others",
    )


def _modules(run: Run) -> Counter[str]:
    """Count the modules that the first rank passed to XLA, by name and hash, without locations."""
    modules: Counter[str] = Counter()
    for path in run.ranks[0].lowered if run.ranks else ():
        if path.is_relative_to(
            run.path.absolute()
        ):  # a directory of the user's has those of other runs, too
            with suppress(OSError):
                text = _LOCATION.sub("", path.read_text(encoding="utf-8", errors="replace"))
                content_hash = hashlib.blake2b(text.encode(), digest_size=4).hexdigest()
                modules[f"{_LOWERED.sub('', path.name)} {content_hash}"] += 1
    return modules


def _count(run: Run) -> int | None:
    counts = [
        len(process.devices) for rank in run.ranks for process in rank.processes if process.devices
    ]
    return max(counts, default=None)


def _settings_of(a: Run, b: Run, step: tuple[str, ...]) -> tuple[Settings, Settings]:
    """Return settings as the compiler reports them, including inherited ones; else as given.

    JAX compiles its helpers with options of its own, so the same module is compared on both sides:
    the step's, or else the common module that took longest to compile.
    """
    flags_of_modules = [flags_by_module(run.ranks[0]) if run.ranks else {} for run in (a, b)]
    flags_of = [
        {_unnumbered(module): flags for module, flags in by.items()} for by in flags_of_modules
    ]
    named = [(step[0], step[-1])] if step else []
    pairs = [*named, *((name, name) for name in (*_compiled(a), *sorted(flags_of[0])))]
    candidates = ((flags_of[0].get(in_a), flags_of[1].get(in_b)) for in_a, in_b in pairs)
    of_a, of_b = next((pair for pair in candidates if None not in pair), (None, None))
    return _settings(a, of_a or {}), _settings(b, of_b or {})


def _compiled(run: Run) -> list[str]:
    """Return the modules whose HLO was saved, longest compilation first."""
    names = [file.name for file in run.ranks[0].hlo] if run.ranks else []
    return [_unnumbered(".".join(name.split(".")[:2])) for name in names]


def _unnumbered(module: str) -> str:
    """Return `jit_step` for `module_0008.jit_step`: numbers differ between runs."""
    return module.partition(".")[2] or module


def _settings(run: Run, flags: Mapping[str, str]) -> Settings:
    variables = passed_variables(run) | variables_of(run)
    if not flags:
        flags = _flags(variables.get("XLA_FLAGS", "")) or dict(run.settings.xla)
    return Settings(
        _without_ours(flags).xla,
        valid_pairs(
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
