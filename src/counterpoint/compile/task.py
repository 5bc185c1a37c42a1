"""CompileTask: one compile to do, and CompileOutput, what comes of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from counterpoint.compile.inputs.workload import Workload
from counterpoint.compile.interpreter import Interpreter
from counterpoint.compile.job import CompileOutcome
from counterpoint.core import UsageError
from counterpoint.flags.text import parse_xla_flags
from counterpoint.hardware.target import Target

TIMEOUT_S: Final = 900.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileTask:
    """A workload, its target, and the compiler's settings.

    `options` are XLA flags by name, without dashes. `environment` is added to a clean one: the
    caller's own XLA_FLAGS or JAX variables do not count unless given here. `interpreter` has the
    compiler; by default that is this process's own. `schedule_only` stops libtpu before it makes
    machine code, which takes it minutes: the program then has no estimates of cycles. With
    `scheduler_view` the module is the one that libtpu's scheduler saw, before later passes renamed
    and fused its instructions (libtpu_schedule.py).
    """

    workload: Workload
    target: Target
    options: Mapping[str, str] = field(default_factory=dict[str, str])
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    timeout_s: float = TIMEOUT_S
    interpreter: Interpreter | None = None
    schedule_only: bool = False
    scheduler_view: bool = False  # only with `schedule_only`

    @property
    def requested(self) -> Mapping[str, str]:
        """All options: those of the run that left the workload, overridden by `options`."""
        return {**self.workload.options, **self.options}

    @property
    def flags(self) -> Mapping[str, str]:
        """All options, and the flags in the worker's XLA_FLAGS."""
        try:
            flags = dict(parse_xla_flags(self.environment.get("XLA_FLAGS", "")))
        except UsageError:  # XLA will report it
            flags = {}
        return {**flags, **self.requested}

    @property
    def inherited(self) -> frozenset[str]:
        """Options not requested here: only the run that left the workload had them."""
        return frozenset(self.workload.options) - set(self.options)

    @property
    def has_kernels(self) -> bool:
        """True if the autotuner's choices on this very kind of device lie beside the program."""
        workload = self.workload
        return bool(workload.autotuned) and self.target.config == workload.config


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileOutput:
    """The scheduled module, the compiler's log, the outcome, and the accepted options."""

    module: bytes
    log: str
    outcome: CompileOutcome
    taken: Mapping[str, str]
