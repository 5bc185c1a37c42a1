"""Sides of an upgrade of hand-made programs: what a compile of each release would hand over."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from counterpoint.compile.compiler import CompiledProgram, PlannedMemory
from counterpoint.compile.interpreter import Interpreter
from counterpoint.core import InputError, Range
from counterpoint.flags.settings import Settings
from counterpoint.hardware.targets import parse_target
from counterpoint.hlo.model.program import Program
from counterpoint.hlo.reader import read_program
from counterpoint.simulate.simulation import simulate
from counterpoint.workflow import PredictionSubject, Variant
from counterpoint.workflow.forecast import memory_fit
from counterpoint.workflow.forecast.ranking import Forecast
from counterpoint.workflow.upgrade import FlagTry, ReleaseStep, Upgrade
from counterpoint.workflow.upgrade.installation import Installation
from counterpoint.workflow.upgrade.side import UpgradeSide
from counterpoint.workflow.upgrade.upgrade import compared
from hand_made import Told

TARGET = parse_target("8xH100")


def made(body: str) -> Program:
    """A program of these lines, which read `p`."""
    return with_text(f"\nENTRY main {{\n  p = f32[64,32] parameter(0)\n{body}\n}}\n")


def with_text(computations: str) -> Program:
    """A program that a Timeline can read again, as that of a compile."""
    text = f"HloModule made, is_scheduled=true, num_partitions=2\n{computations}"
    return replace(read_program(text), written=text.encode())


def op(
    name: str, opcode: str = "sine", reads: str = "p", *, scope: str = "", rest: str = ""
) -> str:
    about = f', metadata={{op_name="jit(step)/{scope or name}/{opcode}"}}'
    return f"  {name} = f32[64,32] {opcode}({reads}){rest}{about}"


def side(version: str, program: Program, told: Told, temp: int | None = None) -> UpgradeSide:
    """The step as this release compiles it, at the prices that are told, in so many bytes."""
    memory = None if temp is None else PlannedMemory(temp=temp, argument=0, output=0, alias=0)
    return UpgradeSide(
        name=f"jax {version}",
        installation=Installation(
            jax=version,
            jaxlib=version,
            python="3.12",
            interpreter=Interpreter(python=Path("/nowhere/bin/python")),
        ),
        subject=PredictionSubject(name="step", origin="step", program=program),
        settings=Settings(),
        forecast=Forecast(
            name=version,
            settings=Settings(),
            program=program,
            simulation=simulate(program, told, hlo=program.written),
            memory=memory_fit(memory, TARGET, {}),
            compiled=memory
            and CompiledProgram(
                program=program,
                hlo=b"",
                log="",
                memory=memory,
                seconds=1.0,
                wall_s=1.0,
                versions={},
                target=TARGET,
                options={},
            ),
        ),
    )


def slower_upgrade() -> Upgrade:
    """One op is slower with the later release; a flag undoes a part; a release between failed."""
    before, after = (
        side(version, made(op("ROOT wave", opcode)), Told({"wave": seconds}))
        for version, opcode, seconds in (("0.10.1", "sine", 0.010), ("0.10.2", "cosine", 0.011))
    )
    found = compared(before, after, TARGET)
    undoing = (("xla_gpu_enable_triton_gemm", "false"),)
    tries = (
        flag_try(found, undoing, 0.010),
        flag_try(found, (*undoing, ("xla_gpu_enable_pdl", "false")), 0.0105),
    )
    steps = (
        ReleaseStep(version="0.10.1", side=before),
        ReleaseStep(version="0.10.1.1", error=InputError("it can't compile it")),
        ReleaseStep(version="0.10.2", side=after),
    )
    return replace(found, tries=tries, steps=steps)


def flag_try(found: Upgrade, flags: tuple[tuple[str, str], ...], seconds: float) -> FlagTry:
    """A try with which the step takes so many seconds."""
    name = " ".join(f"--{name}={value}" for name, value in flags)
    after = found.after
    forecast = side("0", after.forecast.program, Told({"wave": seconds})).forecast
    saves = after.forecast.step_s - forecast.step_s
    return FlagTry(
        variant=Variant(name, after.settings),
        flags=flags,
        why="its default was false, and is true",
        forecast=forecast,
        saves_s=saves,
        reach_s=Range(saves, saves),
        undone=saves / (after.forecast.step_s - found.before.forecast.step_s),
    )
