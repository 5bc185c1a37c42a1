"""A side of an upgrade: one step as one release of JAX lowers and compiles it."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Annotated, Final

from counterpoint.compile.compiler import CompiledProgram
from counterpoint.compile.pool import compile_all
from counterpoint.compile.task import TIMEOUT_S
from counterpoint.core import CounterpointError, InputError, UsageError
from counterpoint.core.field import Field
from counterpoint.flags.catalogue.lookup import release
from counterpoint.flags.lifecycle import unknown_hint
from counterpoint.flags.settings import Settings
from counterpoint.hardware.target import Target
from counterpoint.workflow.forecast.forecast import (
    CompileRequest,
    PricingContext,
    compile_request,
    forecast,
)
from counterpoint.workflow.forecast.iteration import (
    compile_seconds,
    forecast_in_turn,
    planned_bytes,
)
from counterpoint.workflow.forecast.options import CompileOptions
from counterpoint.workflow.forecast.ranking import Forecast
from counterpoint.workflow.prediction.prediction import check_devices
from counterpoint.workflow.subject import (
    PredictionSubject,
    find_subject,
    is_function,
    lower_subject,
    run_subject,
)
from counterpoint.workflow.upgrade.installation import Installation
from counterpoint.workflow.upgrade.packages import (
    NO_PACKAGES,
    CarriedPackages,
    packages_of_command,
    packages_of_function,
)
from counterpoint.workflow.variant import Variant

Say = Callable[[str], None]
Source = str | Path | Sequence[str]
"""A path, `file.py:function`, or the words of a command."""

_PYTHON: Final = re.compile(r"python(3(\.\d+)?)?")


@dataclass(frozen=True, kw_only=True)
class UpgradeOptions(CompileOptions):
    """What an upgrade is asked for, beside its workload, target and releases."""

    settings: Settings = field(default_factory=Settings)
    packages: Sequence[str] = ()  # requirements of the workload beside those that it imports
    program: str | None = None
    timeout_s: float = TIMEOUT_S
    tries: bool = True  # whether to try flags that may undo changes
    bisect: bool = False  # whether to look for the releases between that changed the step
    every: bool = False  # whether to try all releases between then


@dataclass(frozen=True, slots=True)
class LeftOutFlag:
    """A flag that is set and that a release does not accept: XLA ends the process there."""

    name: Annotated[str, Field("the flag")]
    value: Annotated[str, Field("its value")]
    why: Annotated[str, Field("why this release does not accept it")]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class UpgradeSide:
    """One step under one release; `name` is the release, or the commit of the workload."""

    name: str
    installation: Installation
    subject: PredictionSubject = field(repr=False)
    settings: Settings
    left_out: tuple[LeftOutFlag, ...] = ()
    forecast: Forecast

    @property
    def compile_s(self) -> float | None:
        """Seconds of the compiles when they were done; None if it was scheduled elsewhere."""
        return None if self.forecast.compiled is None else compile_seconds(self.forecast)

    @property
    def held_bytes(self) -> int | None:
        """Bytes that a step allocates on a device."""
        return planned_bytes(self.forecast, [part.alive_bytes for part in self.subject.cycle])


@dataclass(frozen=True, slots=True, kw_only=True)
class LoweredSide:
    """A step that a release has lowered, ready to be compiled by it."""

    name: str
    installation: Installation
    subject: PredictionSubject
    settings: Settings
    left_out: tuple[LeftOutFlag, ...] = ()

    def requests(self, target: Target, variant: Variant, timeout_s: float) -> list[CompileRequest]:
        """Return the compiles of its programs under these Settings, by its own release."""
        subject = self.subject
        if subject.workload is None:
            raise ValueError("a scheduled program is not compiled")
        workloads = [part.workload for part in subject.cycle] or [subject.workload]
        made = [compile_request(it, target, variant, timeout_s) for it in workloads]
        interpreter = self.installation.interpreter
        return [replace(it, task=replace(it.task, interpreter=interpreter)) for it in made]

    def forecast(
        self,
        pricing: PricingContext,
        requests: Sequence[CompileRequest],
        compiled: Sequence[CompiledProgram | CounterpointError],
    ) -> Forecast | CounterpointError:
        """Return the forecast of the step, or the error of its first program that has one."""
        parts: list[Forecast] = []
        for request, result in zip(requests, compiled, strict=True):
            if isinstance(result, CounterpointError):
                return result
            parts.append(forecast(pricing, request, result))
        subject = self.subject
        if not subject.cycle:
            return parts[0]
        alive = [part.alive_bytes for part in subject.cycle]
        return forecast_in_turn(pricing, parts, subject.order, subject.main, alive, subject.updates)


def carried_packages(source: Source, more: Sequence[str], cwd: Path) -> CarriedPackages:
    """Return the packages that the environment of each release needs for this workload."""
    if not isinstance(source, str | Path):
        return packages_of_command(source, cwd).having(more)
    if isinstance(source, str) and is_function(source):
        return packages_of_function(source, cwd).having(more)
    return NO_PACKAGES


def check_lowered(subject: PredictionSubject, target: Target) -> None:
    """Raise an error if a step is for other devices, or can't be compiled again."""
    check_devices(subject, target)
    if subject.workload is None:
        raise UsageError(
            f"{subject.origin} is already scheduled, so another release changes nothing",
            why="XLA can't compile a scheduled module again",
            next="pass the program before XLA's passes: StableHLO, file.py:make_step, or `-- CMD`",
        )


def require_file(source: Source, packages: Sequence[str]) -> None:
    """Raise an error if a function's file, Python's script, or the program itself is missing.

    Only a package that is added may bring a program that is not here.
    """
    file = ""
    if isinstance(source, str) and is_function(source):
        file = source.rpartition(":")[0]
    elif not isinstance(source, str | Path) and _PYTHON.fullmatch(Path(source[0]).name):
        file = next((word for word in source[1:] if not word.startswith("-") or word == "-m"), "")
    if file.endswith(".py") and not Path(file).is_file():
        raise InputError(
            f"{file}: no such file",
            why=f"it was looked for in {Path.cwd()}",
            next="name it by its path from there",
        )
    if isinstance(source, str | Path) or packages or _PYTHON.fullmatch(Path(source[0]).name):
        return
    if shutil.which(source[0]) is None:
        raise UsageError(
            f"{source[0]} was not found",
            why="it is neither on the PATH nor a program that may be started",
            next="give the command as a shell would start it: -- python train.py",
        )


def lower_side(  # noqa: PLR0913  the workload, and where and by what it is lowered
    source: Source,
    installation: Installation,
    target: Target,
    options: UpgradeOptions,
    *,
    name: str,
    directory: Path,
    cwd: Path | None = None,
    say: Say,
) -> LoweredSide:
    """Lower the workload by this release; StableHLO is lowered already."""
    try:
        subject = _subject(source, installation, target, options, directory, cwd, say)
    except CounterpointError as error:
        raise told_of(error, name, installation) from None
    check_lowered(subject, target)
    settings, left_out = _accepted(subject.settings.merged(options.settings), installation.jaxlib)
    return LoweredSide(
        name=name,
        installation=installation,
        subject=subject,
        settings=settings,
        left_out=left_out,
    )


def _subject(
    source: Source,
    installation: Installation,
    target: Target,
    options: UpgradeOptions,
    directory: Path,
    cwd: Path | None,
    say: Say,
) -> PredictionSubject:
    interpreter, devices = installation.interpreter, options.devices or target.devices
    if isinstance(source, str) and is_function(source):
        say(f"lowering {source} with jax {installation.jax}")
        return lower_subject(
            source,
            target=target,
            devices=devices,
            directory=directory,
            timeout_s=options.timeout_s,
            interpreter=interpreter,
            cwd=cwd,
        )
    if isinstance(source, str | Path):
        return find_subject(source, options.program, tpus=target.tpu is not None)
    say(f"lowering {' '.join(source)} with jax {installation.jax}")
    subject = run_subject(
        _with_python(source, interpreter.python),
        target=target,
        devices=devices,
        directory=directory,
        program=options.program,
        timeout_s=options.timeout_s,
        say=say,
        interpreter=interpreter,
        cwd=cwd,
    )
    return replace(subject, origin=shlex.join(source))  # as given, not with the release's Python


def _with_python(command: Sequence[str], python: Path) -> list[str]:
    """Return the command with the release's Python in place of the one that it names."""
    first, *rest = command
    return [str(python), *rest] if _PYTHON.fullmatch(Path(first).name) else [first, *rest]


def _accepted(settings: Settings, jaxlib: str) -> tuple[Settings, tuple[LeftOutFlag, ...]]:
    """Return the Settings without the flags that this release is known not to accept."""
    known = release(jaxlib)
    if not known.exact:
        return settings, ()  # the compiler will say it
    unknown = {
        name: value
        for name, value in (*settings.xla, *settings.options)
        if name.startswith("xla_") and name not in known.flags
    }
    if not unknown:
        return settings, ()
    kept = replace(
        settings,
        xla=tuple(pair for pair in settings.xla if pair[0] not in unknown),
        options=tuple(pair for pair in settings.options if pair[0] not in unknown),
    )
    gone = tuple(
        LeftOutFlag(name, value, unknown_hint(name, jaxlib)) for name, value in unknown.items()
    )
    return kept, gone


def compile_sides(
    sides: Sequence[LoweredSide], pricing: PricingContext, options: UpgradeOptions, say: Say
) -> tuple[UpgradeSide, ...]:
    """Compile and simulate each; the first error ends the others."""
    asked = [(side, Variant(side.name, side.settings)) for side in sides]
    results = compile_variants(asked, pricing, options, say)
    made: list[UpgradeSide] = []
    for side, result in zip(sides, results, strict=True):
        if isinstance(result, CounterpointError):
            raise told_of(result, side.name, side.installation)
        made.append(
            UpgradeSide(
                name=side.name,
                installation=side.installation,
                subject=side.subject,
                settings=side.settings,
                left_out=side.left_out,
                forecast=result,
            )
        )
    return tuple(made)


def told_of(error: CounterpointError, name: str, installation: Installation) -> CounterpointError:
    """Return the error with the release that it comes from, in place of its Python's path."""
    what = error.what.replace(str(installation.interpreter.python), "python")
    error.what = f"with {name}: {what}"
    return error


def compile_variants(
    asked: Sequence[tuple[LoweredSide, Variant]],
    pricing: PricingContext,
    options: UpgradeOptions,
    say: Say,
) -> list[Forecast | CounterpointError]:
    """Compile each side under its Variant, several at once, and simulate what comes out."""
    wanted = [side.requests(pricing.target, variant, options.timeout_s) for side, variant in asked]
    tasks = [request.task for requests in wanted for request in requests]
    results = dict(compile_all(tasks, options.jobs, say))
    in_order = iter([results[number] for number in range(len(tasks))])
    return [
        side.forecast(pricing, requests, [*islice(in_order, len(requests))])
        for (side, _), requests in zip(asked, wanted, strict=True)
    ]
