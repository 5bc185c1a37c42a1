"""Compiles a CompileTask with the real compiler, XLA:GPU or libtpu, in a worker process."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from counterpoint.compile import cache
from counterpoint.compile.allocator import MEMORY_VARIABLES, planned_bytes
from counterpoint.compile.channels import (
    AUTOTUNED,
    KERNELS,
    Channels,
    channels,
    needs_own_process,
    rerouted,
)
from counterpoint.compile.failures import died, refused
from counterpoint.compile.inputs.workload import Workload
from counterpoint.compile.job import CompileJob, CompileOutcome, FailureKind
from counterpoint.compile.libtpu_schedule import SchedulerClock, scheduler_clock
from counterpoint.compile.notes import limit_notes, log_notes, stand_in_notes
from counterpoint.compile.task import TIMEOUT_S, CompileOutput, CompileTask
from counterpoint.compile.workarounds import find_workaround, workaround_notes
from counterpoint.compile.worker_slot import CompileAttempt, WorkerSlot
from counterpoint.hardware.target import Target
from counterpoint.hlo.model.program import Program, launched
from counterpoint.hlo.proto_reader import module_bytes
from counterpoint.hlo.reader import read_program


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedMemory:
    """Bytes on one device, as the compiler plans them; None if this jaxlib does not report them.

    Workspaces of cuDNN and cuBLASLt are unknown without a device, so these are slightly low.

    `peak` is XLA's figure of a GPU: of the fullest memory space alone, the host's among them, and
    without the gaps between temporaries. A run allocates more: all of them at once, as one block
    (`allocated`). For TPUs it is what libtpu's figures add up to.
    """

    temp: int | None = None
    argument: int | None = None
    output: int | None = None
    alias: int | None = None
    code: int | None = None
    peak: int | None = None
    constants: int = 0  # arrays in the program itself
    host_temp: int | None = None
    host_argument: int | None = None
    host_output: int | None = None
    host_alias: int | None = None
    buffers: int | None = None  # all that is known of a peak where only a schedule was compiled

    @property
    def allocated(self) -> int | None:
        """What a step on a GPU takes of the device's memory, whatever space of it XLA uses."""
        held = _held(self.argument, self.output, self.alias, self.temp)
        return None if held is None else held + self.constants

    @property
    def on_host(self) -> int | None:
        """The same of pinned memory of the host, for each device."""
        return _held(self.host_argument, self.host_output, self.host_alias, self.host_temp)


def _held(
    argument: int | None, output: int | None, alias: int | None, temp: int | None
) -> int | None:
    if argument is None or output is None or alias is None or temp is None:
        return None
    return argument + output - alias + temp


def _constant_bytes(program: Program) -> int:
    """Return the bytes of the arrays that the program contains; fusions read them as operands."""
    return sum(
        it.shape.bytes
        for computation in launched(program)
        for it in computation.instructions
        if it.opcode == "constant"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledProgram:
    """The result of one compile: the scheduled program, its memory, and how it was compiled."""

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
    schedule_only: bool = False
    buffers: bytes = field(default=b"", repr=False)  # HloProto: the module and where its arrays lie

    @property
    def fingerprint(self) -> str | None:
        """XLA's key of a profile: the module's fingerprint before it is scheduled."""
        return self.program.fingerprint

    @property
    def clock(self) -> SchedulerClock:
        """The times that libtpu's scheduler gave instructions, if this is what it saw."""
        return scheduler_clock(self.hlo)


NO_AUTOTUNING: Final = "xla_gpu_autotune_level"
_BAD_FLAG: Final = "parse_flags_from_env"
_NOT_TUNED: Final = (
    "kernels are not autotuned, because that needs the device: GEMMs may use"
    " other kernels than in a run"
)
_SCHEDULE_ONLY: Final = (
    "libtpu was stopped after scheduling: it estimates cycles only with the machine code, so all"
    " prices are formulas"
)
_TUNED: Final = "the kernels are those that the run's autotuner chose"


def compile_workload(
    workload: Workload,
    target: Target,
    options: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
    timeout_s: float = TIMEOUT_S,
    *,
    schedule_only: bool = False,
    scheduler_view: bool = False,
) -> CompiledProgram:
    """Compile the workload for the target, or return the result of an equal compile."""
    task = CompileTask(
        workload=workload,
        target=target,
        options=options or {},
        environment=environment or {},
        timeout_s=timeout_s,
        schedule_only=schedule_only,
        scheduler_view=scheduler_view,
    )
    cached = cached_compile(task)
    if cached is not None:
        return cached
    with WorkerSlot() as slot:
        return compile_on(slot, task)


def cached_compile(task: CompileTask) -> CompiledProgram | None:
    """Return the result of an equal compile from the cache; None if it holds none."""
    started = time.monotonic()
    output = cache.find(task)
    return _compiled(task, output, started, from_cache=True) if output else None


def compile_on(slot: WorkerSlot, task: CompileTask) -> CompiledProgram:
    """Compile the task now, whatever the cache holds, and store the result there."""
    started = time.monotonic()
    output = _compile(slot, task)
    cache.keep(task, output)
    return _compiled(task, output, started, from_cache=False)


def _compiled(
    task: CompileTask, output: CompileOutput, started: float, *, from_cache: bool
) -> CompiledProgram:
    outcome, options = output.outcome, task.requested
    program = read_program(output.module)
    return CompiledProgram(
        program=program,
        hlo=module_bytes(output.module),
        buffers=output.module,
        log=output.log,
        memory=PlannedMemory(**outcome.memory, constants=_constant_bytes(program)),
        seconds=outcome.seconds,
        wall_s=time.monotonic() - started,
        versions=outcome.versions,
        target=task.target,
        options={name: options[name] for name in options if name in output.taken},
        notes=(*outcome.notes, *_notes(task, output, program), *log_notes(output.log)),
        from_cache=from_cache,
        schedule_only=task.schedule_only,
    )


def _notes(task: CompileTask, output: CompileOutput, program: Program) -> Iterator[str]:
    taken = output.taken
    for name, value in task.requested.items():
        if name not in taken:
            yield f"left out: {name}={value}, which this jaxlib does not accept"
    if taken.get(NO_AUTOTUNING) == "0":
        yield _NOT_TUNED
    elif AUTOTUNED in taken and AUTOTUNED not in task.requested:
        yield _TUNED
    if task.schedule_only:
        yield _SCHEDULE_ONLY
    yield from workaround_notes(taken, task.flags)
    jaxlib = output.outcome.versions.get("jaxlib", "")
    yield from limit_notes(task, jaxlib)
    if task.target.tpu is None:
        yield from stand_in_notes(program, task.target, jaxlib)


def _compile(slot: WorkerSlot, task: CompileTask) -> CompileOutput:
    """Try until some channel accepts each option, and work around known failures.

    Options that only the run's jaxlib knew are left out, because nobody requested them here.
    """
    sent = channels({**_autotuned(slot, task), **task.requested})
    refusal: CompileOutcome | None = None
    kernels = slot.kernels(task.interpreter)
    while True:
        attempt = _attempt(slot, task, sent, kernels)
        outcome = attempt.outcome
        message = attempt.log if outcome is None else outcome.detail
        if outcome is not None and outcome.failure is None:
            return CompileOutput(
                module=attempt.module, log=attempt.log, outcome=outcome, taken=sent.all
            )
        if (workaround := find_workaround(message, {**task.flags, **sent.all})) is not None:
            sent = sent.having(workaround.option, workaround.value)
            continue
        if kernels is not None and _may_fail_by_kernels(attempt):
            kernels = None
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
            raise refused(outcome, task.workload, task.target, task.interpreter)
        sent, refusal = sent.without(outcome.option), None


def _may_fail_by_kernels(attempt: CompileAttempt) -> bool:
    """Return whether the compile may succeed without the kernels of earlier ones."""
    outcome = attempt.outcome
    if outcome is None:  # killed from outside, or by the timeout: trying again may take as long
        return attempt.status is not None and attempt.status != -signal.SIGKILL
    return outcome.failure is FailureKind.COMPILER or outcome.option == KERNELS


def _autotuned(slot: WorkerSlot, task: CompileTask) -> dict[str, str]:
    """Return the kernels autotuned on this kind of device; else options for XLA's first choice."""
    if task.target.tpu is not None:
        return {}
    if not task.has_kernels or NO_AUTOTUNING in task.requested:
        return {NO_AUTOTUNING: "0"}
    path = slot.directory / "autotune_results.pbtxt"
    path.write_bytes(task.workload.autotuned or b"")
    return {AUTOTUNED: str(path)}


def _attempt(
    slot: WorkerSlot, task: CompileTask, sent: Channels, kernels: Path | None
) -> CompileAttempt:
    workload, target = task.workload, task.target
    tpu = target.tpu
    ours = {"xla_gpu_cuda_data_dir": str(slot.toolkit)} if tpu is None else {}
    if kernels is not None and tpu is None:
        ours[KERNELS] = str(kernels)
    job = CompileJob(
        form=workload.form,
        config=target.config,
        domains=target.domains,
        hosts_per_domain=target.hosts // target.domains,
        gpus_per_host=target.gpus_per_host,
        options={**ours, **sent.options},
        replicas=workload.replicas,
        partitions=workload.partitions,
        device_memory=planned_bytes(target.config, task.environment),
        topology="" if tpu is None else tpu.topology,
        topology_options={} if tpu is None else tpu.topology_options,
        schedule_only=task.schedule_only,
        scheduler_view=task.scheduler_view,
    )
    flags = " ".join(filter(None, (task.environment.get("XLA_FLAGS"), sent.xla_flags)))
    # The job has the allocator's limit: these variables would only force a new worker.
    rest = {name: value for name, value in task.environment.items() if name not in MEMORY_VARIABLES}
    variables = {**rest, **({"XLA_FLAGS": flags} if flags else {})}
    return slot.attempt(
        job,
        workload.program,
        variables,
        task.timeout_s,
        alone=task.schedule_only or needs_own_process(sent.options),
        interpreter=task.interpreter,
    )
