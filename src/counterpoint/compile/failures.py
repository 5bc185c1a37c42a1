"""Errors for a worker that did not compile, with remedies."""

from __future__ import annotations

import re
import signal
import sys
from collections.abc import Iterator
from importlib import metadata
from typing import Final

from counterpoint.compile.inputs.workload import Workload
from counterpoint.compile.task import CompileTask
from counterpoint.compile.workers.child import CompileOutcome, FailureKind
from counterpoint.compile.workers.remedies import source_line
from counterpoint.core import CounterpointError, InputError, UsageError
from counterpoint.flags.lifecycle import unknown_hint
from counterpoint.hardware import Target
from counterpoint.hardware.targets import resize_advice

_LAST_LINES: Final = 8
_LONGEST: Final = 300
_FRAME: Final = re.compile(r"\s*@\s+0x|\*\*\* (Begin|End) stack trace")
_FATAL: Final = re.compile(r"F\d{4} |.*: F .*\] |Fatal ")
_HEADING: Final = re.compile(r"\AUnable to parse module assembly:\s*(error: )?")
_CUSTOM_PARTITIONER: Final = "custom_partitioner"


class CompileFailed(CounterpointError):
    """Raised if the compiler failed, which says nothing about the options under test."""

    exit_code = 3
    from_outside = False


class CompileEnded(CompileFailed):
    """Raised if it was ended before completion: by the timeout, or from outside."""

    from_outside = True


class CompileKilled(CompileEnded):
    """Raised if its process was killed, usually by the kernel because memory ran out."""


def refused(outcome: CompileOutcome, workload: Workload, target: Target) -> CounterpointError:
    """Return the error for a failure that a worker reported."""
    match outcome.failure:
        case FailureKind.NO_JAX | FailureKind.NO_PLUGIN:
            return no_compiler(outcome.detail)
        case FailureKind.NO_OPTION:
            return _no_option(outcome.option or "")
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
            f"compiling {workload.name} took more than {timeout_s:g} s and was ended",
            why=f"the compiler's last lines:\n       {lines}",
            next=f"--timeout {10 * timeout_s:g}",
        )
    if status == -signal.SIGKILL:
        return CompileKilled(
            f"the compiler was killed while compiling {workload.name}",
            why="somebody killed it, as a rule the kernel because memory ran out",
            next="compile fewer at once, or on a machine with more memory",
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
            next="give StableHLO that this or an older jaxlib wrote: run the program with"
            " JAX_DUMP_IR_TO=ir and give ir",
        )
    if outcome.failure is FailureKind.TARGET:
        return InputError(
            f"the configuration of target {target} can't be read",
            why=_first_line(outcome.detail),
            next="--target 8xH100",
        )
    wanted, available = outcome.detail.split()
    return UsageError(
        f"module {workload.name} is made for {wanted} devices, {target} has {available}",
        why="the number of devices is part of a program",
        next=resize_advice(target, int(wanted)),
    )


def _no_option(name: str) -> UsageError:
    version = _version("jaxlib")
    return UsageError(
        f"the compiler of jaxlib {version} has no option {name}",
        why=unknown_hint(name, version),
        next="leave it out, or compile with the jaxlib that the workload runs on",
    )


def _bad_value(outcome: CompileOutcome) -> UsageError:
    reason = _first_line(outcome.detail).removeprefix("INVALID_ARGUMENT: ")
    return UsageError(
        f"{outcome.option}: a value that it can't take",
        why=reason,
        next="give the full name as XLA spells it, e.g. PGLE_STRICTNESS_LEVEL_WARN"
        if "enum" in reason
        else "give it a value of that type",
    )


def _compiler_error(detail: str, workload: Workload) -> CounterpointError:
    if _CUSTOM_PARTITIONER in detail:
        return CompileFailed(
            f"module {workload.name} can't be compiled outside the process that lowered it",
            why=f"{_first_line(detail)}: a custom_partitioning of it is Python code",
            next="call that function within jax.shard_map, as cuDNN attention can be",
        )
    return CompileFailed(f"XLA can't compile {workload.name}", why=_with_line(detail, workload))


def _with_line(detail: str, workload: Workload) -> str:
    """Return the compiler's message, and the line of the program that it refers to."""
    message = _cut(_HEADING.sub("", detail).strip())
    place = source_line(detail, workload.program)
    return f"{message}\n  at: {place}" if place else message


def no_compiler(detail: str) -> UsageError:
    """Return the error if JAX or its compiler for CUDA is missing."""
    jax = _version("jax")
    if jax is None:
        return UsageError(
            "compiling needs JAX with the compiler for CUDA, and neither is installed",
            why=f"{sys.executable}: {detail}",
            next=f"{sys.executable} -m pip install 'counterpoint[compiler]'",
        )
    return UsageError(
        f"jax {jax} is here, but not its compiler for CUDA",
        why=_first_line(detail),
        next=f"{sys.executable} -m pip install 'counterpoint[compiler]'"
        f" jax-cuda13-pjrt=={jax} jax-cuda13-plugin=={jax}",
    )


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _shown(log: str) -> list[str]:
    """Return the line with the reason, if any, and the last lines, without stack frames."""
    lines = [line for line in log.splitlines() if line.strip() and not _FRAME.match(line)]
    last = lines[-_LAST_LINES:]
    fatal = next((line for line in lines if _FATAL.match(line)), None)
    shown = last if fatal is None or fatal in last else [fatal, *last[1:]]
    return [_cut(line) for line in shown]


def _first_line(text: str) -> str:
    return _cut(text.strip().partition("\n")[0])


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


_MEMORY: Final = re.compile(
    r"Can't reduce memory use below (?P<wanted>\S+) .*?only reduced to (?P<got>\S+)"
)
_REPLICATED: Final = re.compile(r"Involuntary full rematerialization\.(?P<rest>[^\n]*)")
_OP_NAME: Final = re.compile(r'op_name="([^"]+)"')
_INSTRUCTION: Final = re.compile(r"HLO operation:? ?(?:%?([\w.-]+))")


def log_notes(log: str) -> Iterator[str]:
    """Yield one note per kind of warning, with the worst or the first of them.

    The lines are warnings from XLA's hlo_rematerialization.cc and spmd_partitioner.cc, printed at
    its default log level.
    """
    tight = list(_MEMORY.finditer(log))
    if tight:
        wanted, got = tight[-1]["wanted"], tight[-1]["got"]
        yield (
            f"XLA could not bring the program's temporaries below {wanted}: {got} are left after"
            " recomputing what it could, so it may run out of memory"
        )
    replicated = list(_REPLICATED.finditer(log))
    if replicated:
        yield (
            f"{len(replicated)} tensors are gathered whole on every device, since XLA found no"
            f" other way between two shardings; the first: {_what(replicated[0]['rest'])}"
        )


def _what(line: str) -> str:
    scope = _OP_NAME.search(line)
    name = _INSTRUCTION.search(line)
    return scope[1] if scope else name[1] if name else line.strip()[:120]


_TOLD_OF_HOSTS: Final = (0, 12)
_USUAL_HOST: Final = 8
_ESTIMATOR: Final = "xla_gpu_analytical_latency_estimator_options"
_WINDOWED: Final = "xla_gpu_threshold_for_windowed_einsum_mib"
_NEVER: Final = 100_000
"""XLA's default threshold of a windowed einsum, in MiB: never reached."""


def limit_notes(task: CompileTask, jaxlib: str) -> Iterator[str]:
    """Yield notes on differences from a compile on the device, for this task.

    Before jaxlib 0.12 a compile without the device is not told how GPUs are arranged on hosts (its
    `slice_size` stays 0): the same program comes out for 8x8 and for 64, XLA's own estimator uses
    its defaults, and a windowed einsum, which has at most as many steps as the slice has GPUs, is
    impossible.
    """
    target, options = task.target, task.flags
    if _release_numbers(jaxlib) < _TOLD_OF_HOSTS:
        if _number(options.get(_WINDOWED)) < _NEVER:
            yield (
                f"{_WINDOWED} does nothing here: before jaxlib 0.12 XLA is not told without the"
                " device how many GPUs share NVLink. A run may have windowed einsums"
            )
        if target.hosts > 1 and target.gpus_per_host != _USUAL_HOST and _ESTIMATOR not in options:
            yield (
                f"XLA before 0.12 is not told without the device that a host has"
                f" {target.gpus_per_host} GPUs: its scheduler's own estimates are those of its"
                " defaults, and the order of collectives may differ from a run's"
            )
    if "matrix_unit_description" not in target.config:
        yield (
            "the target's description says nothing of matrix units: XLA's own estimates of GEMMs,"
            " which order the schedule, are about 10 times off"
        )


def _number(text: str | None) -> float:
    try:
        return float(text) if text is not None else float("inf")
    except ValueError:
        return float("inf")


def _release_numbers(text: str) -> tuple[int, ...]:
    parts = text.split(".")[:2]
    return tuple(int(part) for part in parts) if all(part.isdigit() for part in parts) else ()
