"""What profilers would have left of a program that GPUs ran: each instruction at a time of its own.

A collective takes 900 us, everything else 120; four steps on every GPU, one after the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

from nsys_export import Export, thread
from xspace_builder import MS, US, Plane, kernel, message, metadata, nvidia, xspace

from counterpoint.hlo.collectives import collective
from counterpoint.hlo.loops import trip_count
from counterpoint.hlo.model.instruction import Instruction
from counterpoint.hlo.model.program import Program, launches
from counterpoint.hlo.reader import read_program
from counterpoint.hlo.schedule import is_done

DEVICES, STEPS, STEP_MS = 8, 4, 400
COLLECTIVE_US, COMPUTE_US = 900, 120


def launched(program: Program) -> Iterator[tuple[Instruction, str | None]]:
    """What is launched, in order, loops unrolled; with the kind of a collective."""
    return _in_order(program, program.computations[program.entry].instructions)


def _in_order(
    program: Program, instructions: tuple[Instruction, ...]
) -> Iterator[tuple[Instruction, str | None]]:
    for it in instructions:
        if it.opcode == "while":
            body = program.computations[it.calls[0]].instructions
            for _ in range(trip_count(program, it) or 1):
                yield from _in_order(program, body)
        elif launches(it) and not is_done(it):
            talk = collective(program, it)
            yield it, talk.kind if talk else None


def as_xspace(module: bytes) -> bytes:
    """As JAX's profiler leaves it; `module` is the HLO module's proto."""
    program = read_program(module)
    name = (program.name, 7)
    gpus = [nvidia(ordinal) for ordinal in range(DEVICES)]
    for gpu in gpus:
        for step in range(STEPS):
            _execute(gpu, program, name, step * STEP_MS * MS)
    return xspace(*gpus, metadata({name: message((1, module))}))


def _execute(gpu: Plane, program: Program, name: tuple[str, int], start_ps: int) -> None:
    now = start_ps
    for it, kind in launched(program):
        us = COLLECTIVE_US if kind else COMPUTE_US
        stream = "Stream #21(Collective)" if kind else "Stream #20(Compute)"
        label = f"ncclDevKernel_{kind}" if kind else it.name.replace(".", "_")
        kernel(gpu, stream, label, now, us * US, op=it.name, module=name)
        now += us * US


def as_nsys_export(program: Program, path: Path) -> None:
    """As `nsys export --type sqlite` leaves it, of one GPU."""
    numbers = count(1)
    with Export(path) as export:
        export.insert("TARGET_INFO_GPU", id=0, name="NVIDIA H100 80GB HBM3")
        export.insert("TARGET_INFO_CUDA_DEVICE", gpuId=0, cudaId=0, pid=100)
        for step in range(STEPS):
            now = step * STEP_MS * 1_000_000
            export.module(thread(1), now, now + STEP_MS * 900_000, program.name, 7)
            for it, kind in launched(program):
                number, ns = next(numbers), 1000 * (COLLECTIVE_US if kind else COMPUTE_US)
                export.thunk(thread(1), now, now + 50, it.name)
                export.call(thread(1), now + 10, number)
                name = f"ncclDevKernel_{kind}" if kind else it.name
                export.kernel(0, 9 if kind else 7, now + 100, now + 100 + ns, name, number)
                now += ns + 200
