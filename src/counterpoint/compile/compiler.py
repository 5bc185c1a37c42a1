"""Compiles a Task with the real XLA:GPU compiler, in a process that may crash."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from counterpoint.compile import cache
from counterpoint.compile.failures import died, limit_notes, log_notes, refused
from counterpoint.compile.inputs.workload import Workload
from counterpoint.compile.options import (
    AUTOTUNED,
    VARIABLES,
    Channels,
    channels,
    needs_own_process,
    planned_bytes,
    rerouted,
)
from counterpoint.compile.task import TIMEOUT_S, CompileOutput, CompileTask
from counterpoint.compile.workers.bench import CompileAttempt, WorkerSlot
from counterpoint.compile.workers.child import CompileJob, CompileOutcome
from counterpoint.compile.workers.remedies import find_workaround, workaround_notes
from counterpoint.hardware import Target
from counterpoint.hlo import Program, read_program


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedMemory:
    """Bytes on one device, as the compiler plans them. None if this jaxlib does not report them.

    Workspaces of cuDNN and cuBLASLt are unknown without a device, so these are slightly low.
    """

    temp: int | None = None
    argument: int | None = None
    output: int | None = None
    alias: int | None = None
    code: int | None = None
    peak: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledProgram:
    """One compile of one workload."""

    program: Program
    hlo: bytes = field(repr=False)  # HloModuleProto, scheduled
    log: str = field(repr=False)  # the compiler's output
    memory: PlannedMemory
    seconds: float  # the compile alone, when it was done
    wall_s: float  # including the start of the worker and of JAX, or the cache lookup
    versions: Mapping[str, str]
    target: Target
    options: Mapping[str, str]
    notes: tuple[str, ...] = ()
    from_cache: bool = False

    @property
    def fingerprint(self) -> str | None:
        """XLA's key of a profile: the module's fingerprint before it is scheduled."""
        return self.program.fingerprint


NO_AUTOTUNING: Final = "xla_gpu_autotune_level"
_BAD_FLAG: Final = "parse_flags_from_env"
_NOT_TUNED: Final = (
    "kernels are not autotuned, which takes the device: GEMMs may be other kernels than in a run"
)
_TUNED: Final = "kernels are those that the autotuner of the run chose"


def compile_workload(
    workload: Workload,
    target: Target,
    options: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
    timeout_s: float = TIMEOUT_S,
) -> CompiledProgram:
    """Compile the workload for the target as a single Task, as XLA schedules it there."""
    task = CompileTask(
        workload=workload,
        target=target,
        options=options or {},
        environment=environment or {},
        timeout_s=timeout_s,
    )
    found = cached_compile(task)
    if found is not None:
        return found
    with WorkerSlot() as bench:
        return compile_on(bench, task)


def cached_compile(task: CompileTask) -> CompiledProgram | None:
    """Return the cached compile, if everything that makes a difference is equal."""
    started = time.monotonic()
    recorded = cache.find(task)
    return _compiled(task, recorded, started, from_cache=True) if recorded else None


def compile_on(bench: WorkerSlot, task: CompileTask) -> CompiledProgram:
    """Compile it now, without looking in the cache."""
    started = time.monotonic()
    recorded = _compile(bench, task)
    cache.keep(task, recorded)
    return _compiled(task, recorded, started, from_cache=False)


def _compiled(
    task: CompileTask, recorded: CompileOutput, started: float, *, from_cache: bool
) -> CompiledProgram:
    outcome, options = recorded.outcome, task.asked
    program = read_program(recorded.module)
    return CompiledProgram(
        program=program,
        hlo=recorded.module,
        log=recorded.log,
        memory=PlannedMemory(**outcome.memory),
        seconds=outcome.seconds,
        wall_s=time.monotonic() - started,
        versions=outcome.versions,
        target=task.target,
        options={name: options[name] for name in options if name in recorded.taken},
        notes=(*outcome.notes, *_notes(task, recorded), *log_notes(recorded.log)),
        from_cache=from_cache,
    )


def _notes(task: CompileTask, recorded: CompileOutput) -> Iterator[str]:
    taken = recorded.taken
    for name, value in task.asked.items():
        if name not in taken:
            yield f"left out: {name}={value}, which this jaxlib does not take"
    if taken.get(NO_AUTOTUNING) == "0":
        yield _NOT_TUNED
    elif AUTOTUNED in taken and AUTOTUNED not in task.asked:
        yield _TUNED
    yield from workaround_notes(taken, task.flags)
    yield from limit_notes(task, recorded.outcome.versions.get("jaxlib", ""))


def _compile(bench: WorkerSlot, task: CompileTask) -> CompileOutput:
    """Try until each option is accepted by some channel, and work around known failures.

    Options that the run's jaxlib had and this one doesn't know are left out: nobody requested them
    here.
    """
    sent = channels({**_kernels(bench, task), **task.asked})
    refusal: CompileOutcome | None = None
    while True:
        attempt = _attempt(bench, task, sent)
        outcome = attempt.outcome
        message = attempt.log if outcome is None else outcome.detail
        if outcome is not None and outcome.failure is None:
            return CompileOutput(
                module=attempt.module, log=attempt.log, outcome=outcome, taken=sent.all
            )
        if (known := find_workaround(message, {**task.flags, **sent.all})) is not None:
            sent = sent.having(known.option, known.value)
            continue
        if outcome is None:
            # XLA ends a process whose XLA_FLAGS it can't parse: then the first refusal stands.
            if refusal is None or _BAD_FLAG not in attempt.log:
                raise died(attempt.status, attempt.log, task.workload, task.timeout_s)
            outcome = refusal
        elif (again := rerouted(sent, outcome)) is not None:
            sent, refusal = again, outcome
            continue
        if outcome.option not in task.inherited:
            raise refused(outcome, task.workload, task.target)
        sent, refusal = sent.without(outcome.option), None


def _kernels(bench: WorkerSlot, task: CompileTask) -> dict[str, str]:
    """Return the kernels autotuned on this kind of device; else options for XLA's first choice."""
    if not task.has_kernels or NO_AUTOTUNING in task.asked:
        return {NO_AUTOTUNING: "0"}
    path = bench.directory / "autotune_results.pbtxt"
    path.write_bytes(task.workload.autotuned or b"")
    return {AUTOTUNED: str(path)}


def _attempt(bench: WorkerSlot, task: CompileTask, sent: Channels) -> CompileAttempt:
    workload, target = task.workload, task.target
    job = CompileJob(
        form=workload.form,
        config=target.config,
        hosts=target.hosts,
        gpus_per_host=target.gpus_per_host,
        options={"xla_gpu_cuda_data_dir": str(bench.toolkit), **sent.options},
        replicas=workload.replicas,
        partitions=workload.partitions,
        device_memory=planned_bytes(target.config, task.environment),
    )
    flags = " ".join(filter(None, (task.environment.get("XLA_FLAGS"), sent.xla_flags)))
    # The job has the allocator's limit: these variables would only force a new worker.
    rest = {name: value for name, value in task.environment.items() if name not in VARIABLES}
    variables = {**rest, **({"XLA_FLAGS": flags} if flags else {})}
    return bench.attempt(
        job, workload.program, variables, task.timeout_s, alone=needs_own_process(sent.options)
    )
