"""Compile a Workload for a Target with the real XLA:GPU compiler, in a process that may crash."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from counterpoint.compile.child import run_worker
from counterpoint.compile.compiled import Compiled, Memory
from counterpoint.compile.failures import died, refused
from counterpoint.compile.job import (
    LOG,
    MODULE,
    PROGRAM,
    Job,
    Outcome,
    read_outcome,
    write_job,
)
from counterpoint.compile.options import Channels, channels, rerouted
from counterpoint.compile.toolkit import write_toolkit
from counterpoint.compile.workload import Workload
from counterpoint.hardware.target import Target
from counterpoint.program import read_program

TIMEOUT_S: Final = 900.0
NO_AUTOTUNING: Final = "xla_gpu_autotune_level"
_NO_AUTOTUNING: Final = (
    "kernels are not autotuned, which takes the device: GEMMs may be other kernels than in a run"
)


def compile_workload(
    workload: Workload,
    target: Target,
    options: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
    timeout_s: float = TIMEOUT_S,
) -> Compiled:
    """The workload's program as XLA schedules it for the target.

    `options` are XLA flags by name, without dashes. `environment` is added to a clean one: what the
    caller's own XLA_FLAGS or JAX variables say does not count unless given here.
    """
    asked = dict(options or {})
    sent = channels({NO_AUTOTUNING: "0", **asked})
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="counterpoint-compile-") as scratch:
        toolkit = write_toolkit(Path(scratch) / "cuda")
        given = {"xla_gpu_cuda_data_dir": str(toolkit)}
        for attempt in range(2 + len(asked)):
            directory = Path(scratch) / str(attempt)
            directory.mkdir()
            outcome, log = _attempt(
                directory, workload, target, _and(given, sent), environment or {}, timeout_s
            )
            if outcome.failure is None:
                break
            again = rerouted(sent, outcome)
            if again is None:
                raise refused(outcome, workload, target)
            sent = again
        hlo = (directory / MODULE).read_bytes()
    notes = [*outcome.notes]
    if sent.options.get(NO_AUTOTUNING) == "0":
        notes.append(_NO_AUTOTUNING)
    return Compiled(
        program=read_program(hlo),
        hlo=hlo,
        log=log,
        memory=Memory(**outcome.memory),
        seconds=outcome.seconds,
        wall_s=time.monotonic() - started,
        versions=outcome.versions,
        target=target,
        options=asked,
        notes=tuple(notes),
    )


def _and(given: Mapping[str, str], sent: Channels) -> Channels:
    return Channels({**given, **sent.options}, sent.flags)


def _attempt(
    directory: Path,
    workload: Workload,
    target: Target,
    sent: Channels,
    environment: Mapping[str, str],
    timeout_s: float,
) -> tuple[Outcome, str]:
    (directory / PROGRAM).write_bytes(workload.program)
    write_job(
        directory,
        Job(
            form=workload.form,
            config=target.config,
            hosts=target.hosts,
            gpus_per_host=target.gpus_per_host,
            options=dict(sent.options),
            replicas=workload.replicas,
            partitions=workload.partitions,
        ),
    )
    flags = " ".join(filter(None, (environment.get("XLA_FLAGS"), sent.xla_flags)))
    variables = {**environment, **({"XLA_FLAGS": flags} if flags else {})}
    status = run_worker(directory, variables, timeout_s)
    log = (directory / LOG).read_text(encoding="utf-8", errors="replace")
    outcome = read_outcome(directory)
    if outcome is None:
        raise died(status, log, workload, timeout_s)
    return outcome, log
