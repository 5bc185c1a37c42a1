"""The errors of a compile that failed, with remedies: by what its worker reported, or its log."""

from __future__ import annotations

import re
import signal
from typing import Final

from counterpoint.compile.inputs.workload import Workload
from counterpoint.compile.interpreter import (
    Interpreter,
    first_line,
    installed_version,
    no_compiler,
    no_libtpu,
    shortened,
    version_in,
)
from counterpoint.compile.job import CompileOutcome, FailureKind
from counterpoint.compile.source_line import source_line
from counterpoint.core import CounterpointError, InputError, UsageError
from counterpoint.flags.lifecycle import reads_libtpu, unknown_hint
from counterpoint.hardware.target import Target
from counterpoint.hardware.targets import resize_advice

_LAST_LINES: Final = 8
_FRAME: Final = re.compile(r"\s*@\s+0x|\*\*\* (Begin|End) stack trace")
_FATAL: Final = re.compile(r"F\d{4} |.*: F .*\] |Fatal ")
_HEADING: Final = re.compile(r"\AUnable to parse module assembly:\s*(error: )?")
_TOO_LARGE: Final = re.compile(r"memory on HBM.*?\(([\d.]+[KMGT])\).*?\(([\d.]+[KMGT])\)")
_UNKNOWN_TO_LIBTPU: Final = re.compile(r"^ERROR: Unknown command line flag '(\w+)'", re.MULTILINE)
_UNFIT_VALUE: Final = re.compile(r"Failed to parse '([^']*)' into flag (\w+)")
_CUSTOM_PARTITIONER: Final = "custom_partitioner"


class CompileFailed(CounterpointError):
    """Raised if the compiler failed; this says nothing about the options under test."""

    exit_code = 3
    from_outside = False


class CompileEnded(CompileFailed):
    """Raised if a compile was ended before it was complete: by the timeout, or from outside."""

    from_outside = True


class CompileKilled(CompileEnded):
    """Raised if the worker was killed, usually by the kernel because memory ran out."""


def refused(
    outcome: CompileOutcome,
    workload: Workload,
    target: Target,
    interpreter: Interpreter | None = None,
) -> CounterpointError:
    """Return the error for a failure that a worker reported."""
    match outcome.failure:
        case FailureKind.NO_JAX | FailureKind.NO_PLUGIN:
            return no_compiler(outcome.detail)
        case FailureKind.NO_LIBTPU:
            return no_libtpu()
        case FailureKind.NO_OPTION:
            return _no_option(outcome.option or "", target, version_in(interpreter, "jaxlib"))
        case FailureKind.BAD_VALUE:
            return _bad_value(outcome)
        case FailureKind.UNREADABLE | FailureKind.DEVICES | FailureKind.TARGET:
            return _misfit(outcome, workload, target)
        case _:
            return _compiler_error(outcome.detail, workload)


def died(status: int | None, log: str, workload: Workload, timeout_s: float) -> CounterpointError:
    """Return the error for a worker that reported nothing."""
    lines = "\n       ".join(_shown(log)) or "(it printed nothing)"
    if status is None:
        return CompileEnded(
            f"compiling {workload.name} took more than {timeout_s:g} s and was stopped",
            why=f"the compiler's last lines:\n       {lines}",
            next=f"use --timeout {10 * timeout_s:g}",
        )
    if unknown := _UNKNOWN_TO_LIBTPU.search(log):
        return UsageError(
            f"LIBTPU_INIT_ARGS: libtpu {installed_version('libtpu')} has no flag {unknown[1]}",
            why="libtpu ends its process on an unknown name",
            next="omit it",
        )
    if status == -signal.SIGKILL:
        return CompileKilled(
            f"the compiler was killed while compiling {workload.name}",
            why="it was killed, usually by the kernel because memory ran out",
            next="compile fewer at once, or use a machine with more memory",
        )
    how = f"by {signal.Signals(-status).name}" if status < 0 else f"with exit code {status}"
    return CompileFailed(
        f"the compiler died {how} while compiling {workload.name}",
        why=f"its last lines:\n       {lines}",
    )


def _misfit(outcome: CompileOutcome, workload: Workload, target: Target) -> CounterpointError:
    if outcome.failure is FailureKind.UNREADABLE:
        return InputError(
            f"{workload.origin}: module {workload.name} can't be read",
            why=_with_line(outcome.detail, workload),
            next="pass StableHLO that this or an older jaxlib wrote: run the program with"
            " JAX_DUMP_IR_TO=ir and pass ir",
        )
    if outcome.failure is FailureKind.TARGET:
        return InputError(
            f"the configuration of target {target} can't be read",
            why=first_line(outcome.detail),
            next="use --target 8xH100",
        )
    wanted, available = outcome.detail.split()
    return UsageError(
        f"module {workload.name} is made for {wanted} device{'s' if wanted != '1' else ''}, but"
        f" {target} has {available}",
        why="the number of devices is part of a program",
        next=resize_advice(target, int(wanted)),
    )


def _no_option(name: str, target: Target, version: str | None) -> UsageError:
    if target.tpu is not None and reads_libtpu(name):
        return UsageError(
            f"libtpu {installed_version('libtpu')} has no compile option {name}",
            why="other flags of libtpu are read only as it starts",
            next="omit it, or, if libtpu has a flag of that name, pass"
            f" --env LIBTPU_INIT_ARGS=--{name}=...",
        )
    if reads_libtpu(name):
        return UsageError(
            f"the compiler of jaxlib {version} has no option {name}",
            why=f"libtpu, the compiler for TPUs, reads it, and {target} has GPUs",
            next="omit it",
        )
    return UsageError(
        f"the compiler of jaxlib {version} has no option {name}",
        why=unknown_hint(name, version),
        next="omit it, or compile with the jaxlib that the workload runs on",
    )


def _bad_value(outcome: CompileOutcome) -> UsageError:
    reason = first_line(outcome.detail).removeprefix("INVALID_ARGUMENT: ")
    return UsageError(
        f"{outcome.option}: invalid value",
        why=reason,
        next="use the full name as XLA spells it, e.g. PGLE_STRICTNESS_LEVEL_WARN"
        if "enum" in reason
        else "use a value of that type",
    )


def _compiler_error(detail: str, workload: Workload) -> CounterpointError:
    if _CUSTOM_PARTITIONER in detail:
        return CompileFailed(
            f"module {workload.name} can't be compiled outside the process that lowered it",
            why=f"{first_line(detail)}: its custom_partitioning is Python code",
            next="call that function within jax.shard_map",
        )
    if match := _UNFIT_VALUE.search(detail):
        return UsageError(
            f"{match[2]}: invalid value {match[1]!r}",
            why=f"libtpu {installed_version('libtpu')} can't parse it",
            next="use a value of that flag's type",
        )
    if match := _TOO_LARGE.search(detail):
        return CompileFailed(
            f"{workload.name} does not fit into the memory of a TPU",
            why=f"libtpu needs {match[1]}iB, and has {match[2]}iB",
            next="more chips, a smaller batch, or more rematerialization",
        )
    return CompileFailed(f"XLA can't compile {workload.name}", why=_with_line(detail, workload))


def _with_line(detail: str, workload: Workload) -> str:
    """Return the compiler's message, and the line of the program that it refers to."""
    message = shortened(_HEADING.sub("", detail).strip())
    place = source_line(detail, workload.program)
    return f"{message}\n  at: {place}" if place else message


def _shown(log: str) -> list[str]:
    """Return the line with the reason, if any, and the last lines, without stack frames."""
    lines = [line for line in log.splitlines() if line.strip() and not _FRAME.match(line)]
    last = lines[-_LAST_LINES:]
    fatal = next((line for line in lines if _FATAL.match(line)), None)
    shown = last if fatal is None or fatal in last else [fatal, *last[1:]]
    return [shortened(line) for line in shown]
