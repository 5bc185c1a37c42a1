"""What a run of a sharded step leaves to compile from, and compiles of it that tests share."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from counterpoint.compile.compiler import CompiledProgram
from counterpoint.compile.inputs.workload import Workload, load_workload
from counterpoint.compile.pool import Pool
from counterpoint.compile.task import TIMEOUT_S, CompileTask
from counterpoint.core.errors import CounterpointError
from counterpoint.hardware.target import Target
from counterpoint.hardware.targets import parse_target
from counterpoint.hlo.model.program import Program
from counterpoint.pgle.compiler_log import VERBOSE_LOG
from counterpoint.pgle.lookups import xla_lookups
from counterpoint.pgle.profiles.profile import InstructionCost, Profile

SCRIPT: Final = Path(__file__).parent / "compile" / "lowered_step.py"
H100: Final = parse_target("8xH100")


def lower_step(directory: Path, layers: int = 4) -> Path:
    """Run the step on eight virtual CPU devices; JAX leaves `ir`, XLA leaves `xla`."""
    flags = (
        "--xla_force_host_platform_device_count=8",
        f"--xla_dump_to={directory / 'xla'}",
        "--xla_dump_hlo_as_proto",
        "--xla_dump_hlo_as_text",
    )
    subprocess.run(
        [sys.executable, str(SCRIPT), str(layers)],
        env={
            **os.environ,
            "JAX_PLATFORMS": "cpu",
            "JAX_DUMP_IR_TO": str(directory / "ir"),
            "XLA_FLAGS": " ".join(flags),
        },
        check=True,
        timeout=300,
    )
    return directory


class Lowered:
    """The directory, and compiles from it: each is made once, and all by one worker."""

    def __init__(self, directory: Path, pool: Pool) -> None:
        self.directory = directory
        self._pool = pool
        self._compiled: dict[tuple[object, ...], CompiledProgram] = {}

    @property
    def ir(self) -> Path:
        return self.directory / "ir"

    @property
    def xla(self) -> Path:
        return self.directory / "xla"

    @property
    def mlir(self) -> Path:
        (found,) = self.ir.glob("*_jit_step_compile.mlir")
        return found

    def compile(
        self, options: Mapping[str, str] | None = None, path: Path | None = None
    ) -> CompiledProgram:
        """The step, compiled for eight H100s as loud as a proof needs it."""
        key = (path or self.ir, *sorted((options or {}).items()))
        if key not in self._compiled:
            self._compiled[key] = self.ask(load_workload(path or self.ir), H100, options)
        return self._compiled[key]

    def ask(
        self, workload: Workload, target: Target, options: Mapping[str, str] | None = None
    ) -> CompiledProgram:
        """Another program or target, compiled by the same worker."""
        task = CompileTask(
            workload=workload, target=target, options=options or {}, environment=VERBOSE_LOG
        )
        self._pool.ask(0, task)
        answer = self._pool.take(TIMEOUT_S)
        assert answer is not None
        if isinstance(answer[1], CounterpointError):
            raise answer[1]
        return answer[1]


def costs_of(program: Program, fingerprint: str | None = None) -> Profile:
    """Known costs: transfers are long, and compute is short."""
    costs = {it.names[0]: 500.0 if it.collective else 30.0 for it in xla_lookups(program)}
    # XLA 0.12 asks for the end of an async fusion, too.
    costs |= {it.name: 1.0 for it in program.instructions if it.opcode == "fusion-done"}
    return Profile(
        tuple(InstructionCost(name, us, fingerprint) for name, us in costs.items()),
        origin={f"module {program.fingerprint}": program.name},
    )
