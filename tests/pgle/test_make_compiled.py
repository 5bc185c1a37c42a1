"""The names under which costs are written are those that XLA's compiler asks for."""

from __future__ import annotations

from pathlib import Path

import pytest

from counterpoint.hlo.model.program import launched, launches
from counterpoint.hlo.schedule import is_done
from counterpoint.pgle.compiler_log import ProfileUse, read_compiler_log
from counterpoint.pgle.making.make import make_profile
from counterpoint.pgle.profiles.files import write_profile
from counterpoint.timeline.hosts.assemble import assemble
from counterpoint.timeline.model import EmbeddedProgram
from recordings import Span, recording
from xla_compiler import CHECKER_FLAG, Compilation, Compiler

STRICT = {CHECKER_FLAG: "PGLE_STRICTNESS_LEVEL_ERROR"}  # one name missing, and nothing is compiled
RUNS = 3
DEVICES = 2


def recorded_ops(compilation: Compilation) -> list[str]:
    """What a profiler names kernels by: an async wrapper goes by what it wraps."""
    program = compilation.program
    inside = {start: wrapped for wrapped, start in program.wrapped.items()}
    return [
        inside.get(it.name, it.name)
        for computation in launched(program)
        for it in computation.instructions
        if launches(it) and not is_done(it) and it.opcode not in ("while", "conditional", "call")
    ]


@pytest.mark.parametrize("name", ["step.pbtxt", "step.pb", "profiles"])
def test_xla_misses_no_name_of_a_profile_of_all_that_ran(
    compiler: Compiler, tmp_path: Path, name: str
) -> None:
    plain = compiler.compile("step")
    ops = recorded_ops(plain)
    assert len(ops) > 20
    spans = [
        Span(op, 1_000_000 * run + 1000 * at, 100 + at, device, line=device, run=run)
        for device in range(DEVICES)
        for run in range(RUNS)
        for at, op in enumerate(ops)
    ]
    hlo = EmbeddedProgram("jit_step", plain.hlo.read_bytes)
    timeline = assemble([recording(spans, programs={"jit_step": hlo})], ["made.xplane.pb"])
    made = make_profile(timeline, about={"jaxlib": "x"})
    assert {cost.fingerprint for cost in made.profile.costs} == {plain.program.fingerprint}

    path = write_profile(made.profile, tmp_path / name)
    compilation = compiler.with_profile("step", path, **STRICT)

    assert compilation.error is None
    log = read_compiler_log(compilation.log)
    assert log.use is ProfileUse.USED
    assert "Missing" not in compilation.log


def test_one_name_less_is_missed(compiler: Compiler, tmp_path: Path) -> None:
    plain = compiler.compile("step")
    ops = [op for op in recorded_ops(plain) if "all-gather" not in op]
    spans = [Span(op, 1000 * at, 100) for at, op in enumerate(ops)]
    hlo = EmbeddedProgram("jit_step", plain.hlo.read_bytes)
    made = make_profile(assemble([recording(spans, programs={"jit_step": hlo})], ["made"]))
    path = write_profile(made.profile, tmp_path / "less.pbtxt")
    assert "missing instructions" in (compiler.with_profile("step", path, **STRICT).error or "")
