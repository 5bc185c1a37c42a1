"""Subject: what to predict, found in any kind of input.

Workload   a module before XLA's passes: compiled here, under any Settings
Program    one that is scheduled already: simulated as it is

A lowered program that was kept in a file (kept_program.py) is such an input, too.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import metadata
from pathlib import Path
from typing import Final

from counterpoint.compile.inputs.function_process import (
    lower_function,
    names_function,
    split_function,
)
from counterpoint.compile.inputs.scheduled import load_scheduled
from counterpoint.compile.inputs.workload import Workload, load_workload
from counterpoint.compile.interpreter import Interpreter
from counterpoint.core import InputError, UsageError
from counterpoint.core.notebook import as_typed
from counterpoint.flags.settings import Settings, valid_pairs
from counterpoint.flags.text import parse_xla_flags
from counterpoint.hardware.target import Target
from counterpoint.hlo.category import made_for_tpus
from counterpoint.hlo.model.program import Program
from counterpoint.lowering import compute_capability, lower_command
from counterpoint.pgle.applying.subject import locate_program as find_recorded
from counterpoint.timeline.formats import XPLANE
from counterpoint.trainers import TokensInStep, find_trainer, tokens_on
from counterpoint.workflow.kept_program import keep_program, kept_about
from counterpoint.workflow.recorded_step import recorded_step
from counterpoint.workflow.step_tokens import tokens_of_program

Say = Callable[[str], None]

_LOWER: Final = "counterpoint predict --target 8xH100 -- python train.py"
_NAMELESS: Final = "the given bytes"
_OTHERS: Final = "its kernels or its schedule are for those devices, and this needs one for GPUs"

_TPU: Final = ("tpu_custom_call", '"megacore_config"', '"scoped_memory_configs"', "xla_tpu_")
_CPU: Final = ("__onednn$", "__cpu$", '"outer_dimension_partitions"')
_NOT_HERE: Final = frozenset(
    {"xla_force_host_platform_device_count", "xla_dump_to", "xla_dump_hlo_pass_re"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleWorkload:
    """A program of an iteration, and the bytes of a device that the loop keeps alive beside it."""

    workload: Workload
    alive_bytes: int | None  # None: not measured
    updates: bool = False  # whether it applies gradients, or adds them up: the optimizer's


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictionSubject:
    """A Workload, or a Program that can't be compiled again.

    If an iteration of the training loop runs several programs, or one several times, `cycle` has
    them and `order` the runs of one iteration, as indices into it; `workload` is the main one.
    """

    name: str
    origin: str
    workload: Workload | None = None
    program: Program | None = None
    settings: Settings = field(default_factory=Settings)  # settings that the program applies itself
    others: tuple[str, ...] = ()  # other modules in the same place
    notes: tuple[str, ...] = ()
    tokens: TokensInStep | None = None
    cycle: tuple[CycleWorkload, ...] = ()
    order: tuple[int, ...] = ()
    main: int = 0
    """The number of the main program in the cycle."""

    @property
    def updates(self) -> frozenset[int]:
        """The numbers of the programs in the cycle that are the optimizer's."""
        return frozenset(number for number, part in enumerate(self.cycle) if part.updates)

    @property
    def devices(self) -> int:
        """The number of devices it is made for; 1 if unknown."""
        if self.program is not None:
            return self.program.num_partitions * self.program.num_replicas
        return self.workload.devices if self.workload is not None else 1

    @property
    def on_tpus(self) -> bool:
        """True if it is scheduled for TPUs, or has kernels that only they run."""
        if self.program is not None:
            return made_for_tpus(self.program)
        return _bears(self, _TPU, in_source=True)


def find_subject(
    source: Workload | Program | Path | str, program: str | None = None, *, tpus: bool = False
) -> PredictionSubject:
    """Find the step in a path, or the module of that name; with `tpus`, also one made for TPUs."""
    subject = _subject(source, program, tpus=tpus)
    return subject if tpus and subject.on_tpus else _checked(subject)


def _subject(
    source: Workload | Program | Path | str, program: str | None, *, tpus: bool
) -> PredictionSubject:
    if isinstance(source, Program):
        return PredictionSubject(name=source.name, origin=source.name, program=source)
    if isinstance(source, Workload):
        return _of_workload(source)
    path = Path(source)
    require_source(path)
    if path.name.endswith(XPLANE.endings):
        return _recorded(path, program, tpus=tpus)
    if path.suffix == ".py":
        raise UsageError(
            f"{path}: it is ambiguous: name one of its functions, or run it as a command",
            next=f"{path}:make_step for a function, or `-- python {path}` for the program",
        )
    try:
        scheduled = load_scheduled(path, program)
        if scheduled is not None:
            return PredictionSubject(name=scheduled.name, origin=str(path), program=scheduled)
        return _of_files(path, program)
    except UsageError as error:  # for an unknown name
        error.rename("--module", "--program")
        raise
    except InputError as error:
        what = error.what.replace(_NAMELESS, str(path))
        what = what if str(path) in what else f"{path}: {what}"
        raise InputError(what, why=error.why, next=error.next or _LOWER) from None


def _of_files(path: Path, program: str | None) -> PredictionSubject:
    """Return the step: what the profile of a Run shows, else the program with the most FLOPs."""
    heaviest = load_workload(path, program)
    step = recorded_step(path) if program is None else None
    if step is None:
        return _of_workload(heaviest)
    by_flops = (heaviest.name, *heaviest.others)
    order, missing = step.without(by_flops)
    if not order:
        lost = f"the profile's step runs {', '.join(missing)}, which the Run did not keep"
        return replace(_of_workload(heaviest), notes=(lost,))
    notes: list[str] = []
    if missing:
        notes.append(
            f"the step takes longer: it also runs {', '.join(missing)}, which the Run did not keep"
        )
    notes += [
        f"the step runs several programs named {name}; the largest stands for each"
        for name in step.ambiguous
    ]
    functions = tuple(dict.fromkeys(order))
    main = min(functions, key=by_flops.index)
    workloads = {name: load_workload(path, name) for name in functions}
    subject = _of_workload(workloads[main])
    subject = replace(
        subject,
        notes=(*subject.notes, *notes),
        others=tuple(name for name in by_flops if name not in functions),
    )
    if len(order) == 1:
        return subject
    return replace(
        subject,
        origin=str(path),
        cycle=tuple(
            CycleWorkload(workload=workloads[name], alive_bytes=None) for name in functions
        ),
        order=tuple(functions.index(name) for name in order),
        main=functions.index(main),
    )


def require_source(source: Path | str) -> None:
    """Raise an error if the file or directory of a workload does not exist."""
    if isinstance(source, str) and is_function(source):
        split_function(source)
    elif not Path(source).exists():
        raise InputError(
            f"{source}: no such file or directory",
            why="a workload is a program: StableHLO, a dump, a Run, file.py:function, or a command",
            next=_LOWER,
        )


def _recorded(path: Path, module: str | None, *, tpus: bool) -> PredictionSubject:
    """Return the program that a profile embeds: scheduled already."""
    recorded = find_recorded(path, module)
    if recorded.platform == "cpu" or (recorded.platform == "tpu" and not tpus):
        raise InputError(
            f"{path}: {recorded.program.name} was made for {recorded.platform.upper()}s",
            why=_OTHERS,
            next=_LOWER,
        )
    return PredictionSubject(
        name=recorded.program.name,
        origin=str(path),
        program=recorded.program,
        others=recorded.others,
    )


def is_function(source: str) -> bool:
    """Return True if it names a function and not a file."""
    return not Path(source).exists() and names_function(source)


def lower_subject(
    source: str,
    *,
    target: Target,
    directory: Path,
    devices: int | None = None,
    timeout_s: float = 900.0,
    interpreter: Interpreter | None = None,
    cwd: Path | None = None,
) -> PredictionSubject:
    """Lower the function `file.py:function` for a target's devices, or for `devices` of its kind.

    `interpreter` and `cwd` are those of the process that calls it: by default of this one.
    """
    workload = lower_function(
        source,
        devices=devices or target.devices,
        directory=directory,
        timeout_s=timeout_s,
        tpus=target.tpu is not None,
        compute_capability=compute_capability(target),
        interpreter=interpreter,
        cwd=cwd,
    )
    subject = replace(_of_workload(workload), origin=source)
    return _checked(subject) if target.tpu is None else subject


def run_subject(  # noqa: PLR0913  as of `lower_command`
    command: Sequence[str],
    *,
    target: Target,
    directory: Path,
    devices: int | None = None,
    program: str | None = None,
    timeout_s: float = 900.0,
    keep: Path | None = None,
    say: Say = lambda _: None,
    interpreter: Interpreter | None = None,
    cwd: Path | None = None,
) -> PredictionSubject:
    """Lower what a command jits on virtual devices, with the flags that it sets for itself.

    There are as many as the target has, or `devices` of its kind. `keep` is a file that gets the
    lowered program, to be given as a workload later. `interpreter`, whose `python` comes first on
    the command's PATH, compiles it, too.
    """
    lowered = lower_command(
        command,
        devices=devices or target.devices,
        target=target,
        directory=directory,
        program=program,
        timeout_s=timeout_s,
        on_progress=say,
        environment=None if interpreter is None else interpreter.environment(os.environ),
        cwd=cwd,
    )
    workload = load_workload(lowered.directory, lowered.name)
    subject = _of_workload(workload)
    described = replace(
        subject,
        origin=" ".join(as_typed(command)),
        settings=_own_settings(lowered.xla_flags, lowered.variables),
        others=lowered.others,
        notes=(*lowered.notes, *_version_notes(lowered.jax, interpreter)),
        tokens=subject.tokens or _tokens(command, subject.name, devices or target.devices),
        cycle=tuple(
            CycleWorkload(
                workload=load_workload(function.directory, function.name),
                alive_bytes=function.alive_bytes,
                updates=function.updates,
            )
            for function in lowered.cycle
        ),
        order=lowered.order,
        main=lowered.main,
    )
    if target.tpu is None:
        _checked(described)
    if keep is not None:
        kept = described.notes
        if described.cycle:
            kept = (f"an iteration runs other programs, too: this is {described.name} alone", *kept)
        keep_program(keep, workload.program, described.origin, described.settings, kept)
    return described


def _tokens(command: Sequence[str], module: str, devices: int) -> TokensInStep | None:
    """Return the tokens of a trainer's step, where its options tell batch and sequence."""
    trainer = find_trainer(command)
    if trainer is None or module.removeprefix("jit_") not in trainer.step.functions:
        return None
    return tokens_on(trainer, command, Path.cwd(), devices)


def _version_notes(lowered: str, interpreter: Interpreter | None) -> Iterator[str]:
    """Yield a note on differing JAX versions: another release may optimize differently."""
    if interpreter is not None:
        installed = interpreter.versions.get("jax")
    else:
        try:
            installed = metadata.version("jax")
        except metadata.PackageNotFoundError:
            return
    if installed != lowered:
        yield f"the program's jax {lowered} lowered it; it is compiled by jax {installed}"


def _own_settings(xla_flags: str, variables: Mapping[str, str]) -> Settings:
    flags = parse_xla_flags(xla_flags, where="XLA_FLAGS of the program") if xla_flags else ()
    xla = tuple((name, value) for name, value in flags if name not in _NOT_HERE)
    env = valid_pairs((name, value) for name, value in variables.items() if name != "XLA_FLAGS")
    return Settings(xla, env)


def _of_workload(workload: Workload) -> PredictionSubject:
    subject = PredictionSubject(
        name=workload.name,
        origin=workload.origin,
        workload=workload,
        others=workload.others,
        tokens=tokens_of_program(workload),
    )
    about = kept_about(workload.program)
    if about is None:
        return subject
    origin, settings, notes = about
    made = f"{workload.origin} was kept from {origin}"
    return replace(subject, settings=settings, notes=(made, *notes))


def _checked(subject: PredictionSubject) -> PredictionSubject:
    """Reject what was made for other devices than GPUs."""
    for marks, kind in ((_TPU, "TPUs"), (_CPU, "CPUs")):
        if _bears(subject, marks, in_source=kind == "TPUs"):
            raise InputError(
                f"{subject.origin}: {subject.name} was made for {kind}", why=_OTHERS, next=_LOWER
            )
    return subject


def _bears(subject: PredictionSubject, marks: Sequence[str], *, in_source: bool) -> bool:
    if subject.program is not None:
        return any(
            mark in text
            for instruction in subject.program.instructions
            if instruction.custom_call_target or instruction.backend_config
            for text in (instruction.custom_call_target, instruction.backend_config)
            for mark in marks
        )
    # Before XLA's passes only a kernel written for a TPU shows that.
    data = subject.workload.program if in_source and subject.workload is not None else b""
    return b"tpu_custom_call" in data
