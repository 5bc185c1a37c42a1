"""What goes to a worker and what comes back: a directory, since a worker may die at any moment.

    JOB/job.json      what to compile, and how
    JOB/program       the module, as it was given
    JOB/log           what the compiler prints
    JOB/outcome.json  how it went, written last
    JOB/module.hlo.pb the scheduled module

Standard library only: a worker reads and writes it before and after JAX is there.
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


class Form(StrEnum):
    """How a program is written down."""

    MLIR = "mlir"  # StableHLO with shardings, text or bytecode
    HLO_PROTO = "hlo proto"
    HLO_TEXT = "hlo text"


class Failure(StrEnum):
    """What kept a worker from compiling."""

    NO_JAX = "no jax"
    NO_PLUGIN = "no plugin"
    NO_OPTION = "no option"
    BAD_VALUE = "bad value"
    UNREADABLE = "unreadable program"
    DEVICES = "devices"
    TARGET = "target"
    COMPILER = "compiler"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What a worker compiles."""

    form: Form
    config: str
    hosts: int
    gpus_per_host: int
    options: dict[str, str]
    # Of an HLO proto, which has them where a reader of StableHLO does not look.
    replicas: int | None = None
    partitions: int | None = None
    device_memory: int | None = None  # bytes to plan with; None: XLA's own assumption


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How it went: either a module lies beside it, or `failure` says what happened."""

    failure: Failure | None = None
    detail: str = ""
    option: str | None = None
    seconds: float = 0.0
    devices: int = 0
    memory: dict[str, int] = field(default_factory=dict[str, int])
    versions: dict[str, str] = field(default_factory=dict[str, str])
    notes: list[str] = field(default_factory=list[str])
    resident_kib: int = 0  # the most memory that the worker had so far


def write_job(directory: Path, job: Job) -> None:
    (directory / JOB).write_text(json.dumps(asdict(job)), encoding="utf-8")


def read_job(directory: Path) -> Job:
    fields: dict[str, Any] = json.loads((directory / JOB).read_text(encoding="utf-8"))
    form = Form(fields.pop("form"))
    return Job(form=form, **fields)


def write_outcome(directory: Path, outcome: Outcome) -> None:
    part = directory / f"{OUTCOME}.part"
    part.write_text(json.dumps(asdict(outcome)), encoding="utf-8")
    part.replace(directory / OUTCOME)


def read_outcome(directory: Path) -> Outcome | None:
    """The outcome; None where the worker died before it wrote one."""
    try:
        fields: dict[str, Any] = json.loads((directory / OUTCOME).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return outcome_of(fields)


def outcome_of(fields: dict[str, Any]) -> Outcome:
    """The Outcome that was written down as these fields."""
    failure = fields.pop("failure")
    return Outcome(failure=failure and Failure(failure), **fields)
