"""A job: the directory through which a worker gets a compile and returns its outcome.

A worker may die at any moment, so all that it has done so far lies in files:

    JOB/job.json      what to compile, and how: a CompileJob
    JOB/program       the module, as it was given
    JOB/log           output of the compiler
    JOB/outcome.json  the CompileOutcome, written last
    JOB/module.hlo.pb the scheduled module

This module and what it imports use only the standard library, since a worker reads and writes jobs
before JAX is imported.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

JOB: Final = "job.json"
PROGRAM: Final = "program"
LOG: Final = "log"
OUTCOME: Final = "outcome.json"
MODULE: Final = "module.hlo.pb"


class ProgramForm(StrEnum):
    """The form in which a program is stored."""

    MLIR = "mlir"  # StableHLO with shardings, text or bytecode
    HLO_PROTO = "hlo proto"
    HLO_TEXT = "hlo text"


class FailureKind(StrEnum):
    """The reason why a worker could not compile."""

    NO_JAX = "no jax"
    NO_PLUGIN = "no plugin"
    NO_LIBTPU = "no libtpu"
    NO_OPTION = "no option"
    BAD_VALUE = "bad value"
    UNREADABLE = "unreadable program"
    DEVICES = "devices"
    TARGET = "target"
    COMPILER = "compiler"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileJob:
    """What a worker is to compile, and how; the program lies beside it."""

    form: ProgramForm
    config: str
    domains: int  # sets of hosts that share NVLink: XLA's partitions; usually each host is one
    hosts_per_domain: int
    gpus_per_host: int
    options: dict[str, str]
    # For an HLO proto, which has them where a reader of StableHLO does not look.
    replicas: int | None = None
    partitions: int | None = None
    device_memory: int | None = None  # bytes to plan with; None: XLA's own assumption
    topology: str = ""  # of TPUs, as libtpu names it; then `config` and hosts do not count
    schedule_only: bool = False  # libtpu is stopped when it has scheduled: no machine code
    scheduler_view: bool = False  # the module as libtpu's scheduler saw it
    topology_options: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileOutcome:
    """The result of a job: either a module lies beside it, or `failure` says what went wrong."""

    failure: FailureKind | None = None
    detail: str = ""
    option: str | None = None
    seconds: float = 0.0
    devices: int = 0
    memory: dict[str, int] = field(default_factory=dict[str, int])
    versions: dict[str, str] = field(default_factory=dict[str, str])
    notes: list[str] = field(default_factory=list[str])
    resident_kib: int = 0  # the worker's peak memory so far


def write_job(directory: Path, job: CompileJob) -> None:
    (directory / JOB).write_text(json.dumps(asdict(job)), encoding="utf-8")


def read_job(directory: Path) -> CompileJob:
    fields: dict[str, Any] = json.loads((directory / JOB).read_text(encoding="utf-8"))
    form = ProgramForm(fields.pop("form"))
    return CompileJob(form=form, **fields)


def write_outcome(directory: Path, outcome: CompileOutcome) -> None:
    part = directory / f"{OUTCOME}.part"
    part.write_text(json.dumps(asdict(outcome)), encoding="utf-8")
    part.replace(directory / OUTCOME)


def read_outcome(directory: Path) -> CompileOutcome | None:
    """Return the outcome; None if the worker died before it wrote one."""
    try:
        fields: dict[str, Any] = json.loads((directory / OUTCOME).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return outcome_of(fields)


def outcome_of(fields: dict[str, Any]) -> CompileOutcome:
    """Return the outcome that was stored as these fields."""
    failure = fields.pop("failure")
    return CompileOutcome(failure=failure and FailureKind(failure), **fields)


class CompileRefused(Exception):
    """Raised in the worker if the program, the options or the machine don't allow the compile."""

    def __init__(self, failure: FailureKind, detail: str, option: str | None = None) -> None:
        super().__init__(detail)
        self.failure = failure
        self.detail = detail
        self.option = option
