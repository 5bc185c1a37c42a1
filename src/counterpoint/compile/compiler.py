"""Compile a Workload for a Target with the real XLA:GPU compiler, in a process that may crash."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from counterpoint.compile.child import run_worker
from counterpoint.compile.compiled import Compiled, Memory
from counterpoint.compile.failures import died, refused
from counterpoint.compile.job import (
    LOG,
    MODULE,
    OUTCOME,
    PROGRAM,
    Job,
    Outcome,
    read_outcome,
    write_job,
)
from counterpoint.compile.options import Channels, channels, rerouted
from counterpoint.compile.task import TIMEOUT_S
from counterpoint.compile.toolkit import write_toolkit
from counterpoint.compile.workload import Workload
from counterpoint.hardware.target import Target
from counterpoint.hlo import read_program

NO_AUTOTUNING: Final = "xla_gpu_autotune_level"
AUTOTUNED: Final = "xla_gpu_load_autotune_results_from"
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
) -> Compiled:
    """The workload's program as XLA schedules it for the target.

    `options` are XLA flags by name, without dashes. `environment` is added to a clean one: what the
    caller's own XLA_FLAGS or JAX variables say does not count unless given here.
    """
    asked = {**workload.options, **(options or {})}
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="counterpoint-compile-") as scratch:
        bench = _Bench(Path(scratch), workload, target, environment or {}, timeout_s)
        tuned = _tuned(bench, asked)
        first = channels({**tuned, **asked})
        sent, outcome, log = _compiled(
            bench, first, frozenset(workload.options) - set(options or {})
        )
        hlo = (bench.directory / MODULE).read_bytes()
    notes = [*outcome.notes, *_notes(sent, asked)]
    return Compiled(
        program=read_program(hlo),
        hlo=hlo,
        log=log,
        memory=Memory(**outcome.memory),
        seconds=outcome.seconds,
        wall_s=time.monotonic() - started,
        versions=outcome.versions,
        target=target,
        options={name: asked[name] for name in asked if name in {**sent.options, **sent.flags}},
        notes=tuple(notes),
    )


@dataclass(frozen=True, slots=True)
class _Bench:
    """Where and for whom a compile is tried."""

    directory: Path
    workload: Workload
    target: Target
    environment: Mapping[str, str]
    timeout_s: float


def _tuned(bench: _Bench, asked: Mapping[str, str]) -> dict[str, str]:
    """The kernels that an autotuner chose on this very kind of device; else XLA's first choice."""
    found = bench.workload.autotuned
    if not found or bench.target.config != bench.workload.config or NO_AUTOTUNING in asked:
        return {NO_AUTOTUNING: "0"}
    path = bench.directory / "autotune_results.pbtxt"
    path.write_bytes(found)
    return {AUTOTUNED: str(path)}


def _notes(sent: Channels, asked: Mapping[str, str]) -> Iterator[str]:
    taken = {**sent.options, **sent.flags}
    for name in asked:
        if name not in taken:
            yield f"left out: {name}={asked[name]}, which this jaxlib does not take"
    if taken.get(NO_AUTOTUNING) == "0":
        yield _NOT_TUNED
    elif AUTOTUNED in taken and AUTOTUNED not in asked:
        yield _TUNED


def _compiled(
    bench: _Bench, sent: Channels, inherited: frozenset[str]
) -> tuple[Channels, Outcome, str]:
    """Try until each option has found a way that takes it.

    What another jaxlib was given, and this one doesn't know, is left out: nobody asked for it here.
    """
    write_toolkit(bench.directory / "cuda")
    refusal: Outcome | None = None
    while True:
        outcome, status, log = _attempt(bench, sent)
        if outcome is None:
            # XLA ends a process whose XLA_FLAGS it can't read: then the first refusal stands.
            if refusal is None or _BAD_FLAG not in log:
                raise died(status, log, bench.workload, bench.timeout_s)
            outcome = refusal
        elif outcome.failure is None:
            return sent, outcome, log
        elif (again := rerouted(sent, outcome)) is not None:
            sent, refusal = again, outcome
            continue
        if outcome.option not in inherited:
            raise refused(outcome, bench.workload, bench.target)
        sent, refusal = sent.without(outcome.option), None


def _attempt(bench: _Bench, sent: Channels) -> tuple[Outcome | None, int | None, str]:
    directory, workload, target = bench.directory, bench.workload, bench.target
    (directory / OUTCOME).unlink(missing_ok=True)
    (directory / PROGRAM).write_bytes(workload.program)
    job = Job(
        form=workload.form,
        config=target.config,
        hosts=target.hosts,
        gpus_per_host=target.gpus_per_host,
        options={"xla_gpu_cuda_data_dir": str(directory / "cuda"), **sent.options},
        replicas=workload.replicas,
        partitions=workload.partitions,
    )
    write_job(directory, job)
    flags = " ".join(filter(None, (bench.environment.get("XLA_FLAGS"), sent.xla_flags)))
    variables = {**bench.environment, **({"XLA_FLAGS": flags} if flags else {})}
    status = run_worker(directory, variables, bench.timeout_s)
    log = (directory / LOG).read_text(encoding="utf-8", errors="replace")
    return read_outcome(directory), status, log
