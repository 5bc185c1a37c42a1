"""Names that match and stand for other operations: only the fingerprint tells."""

from __future__ import annotations

from pathlib import Path

import pytest

from counterpoint.hlo.model.program import Program
from counterpoint.hlo.reader import read_program
from counterpoint.pgle.checking.check import check_profile
from counterpoint.pgle.checking.verdict import judge
from counterpoint.pgle.lookups import xla_lookups
from counterpoint.pgle.profiles.profile import InstructionCost, Profile
from counterpoint.pgle.staleness import (
    ProfileFit,
    names_in_common,
    reused_names,
    source_fingerprints,
    staleness,
)
from xla_compiler import Compiler, Option

PROGRAMS = Path(__file__).parent.parent / "hlo" / "data"
OTHER = "0" * 32

# facts of the compiler: what changes the program that is scheduled, and what does not
HARMLESS: dict[str, dict[str, Option]] = {
    "scheduler": {"xla_gpu_enable_latency_hiding_scheduler": True},
    "memory limit": {"xla_gpu_memory_limit_slop_factor": 90},
    "command buffers": {"xla_gpu_enable_command_buffer": ""},
}
HARMFUL: dict[str, dict[str, Option]] = {
    "synchronous collectives": {"xla_gpu_disable_async_collectives": "ALLCOLLECTIVES"},
    "combine threshold": {"xla_gpu_all_gather_combine_threshold_bytes": 1 << 10},
    "autotune level": {"xla_gpu_autotune_level": 4},
}


@pytest.fixture(scope="session")
def step() -> Program:
    return read_program(PROGRAMS / "gpu_step.hlo.pb.xz")


def bare(program: Program, **origin: str) -> Profile:
    """As a profile is whose names bear no fingerprint."""
    return Profile(
        tuple(InstructionCost(it.names[0], 10.0) for it in xla_lookups(program)), origin=origin
    )


def of(program: Program) -> dict[str, str]:
    return {f"module {program.fingerprint}": program.name}


@pytest.mark.parametrize("flags", HARMLESS)
def test_flags_of_the_scheduler_leave_a_profile_valid(compiler: Compiler, flags: str) -> None:
    made = compiler.compile("step").program
    used = compiler.compile("step", **HARMLESS[flags]).program
    profile = bare(made, **of(made))
    assert staleness(profile, used).fit is ProfileFit.FITS
    assert reused_names(made, used) == ()


@pytest.mark.parametrize("flags", HARMFUL)
def test_flags_that_change_the_program_make_a_profile_stale(compiler: Compiler, flags: str) -> None:
    made = compiler.compile("step").program
    compilation = compiler.compile("step", **HARMFUL[flags])
    if compilation.error and "autotun" in compilation.error.lower():
        pytest.skip("this jaxlib can't autotune without a device")
    used = compilation.program
    profile = bare(made, **of(made))
    assert names_in_common(profile, used) > 0.5
    found = staleness(profile, used)
    assert found.fit is ProfileFit.STALE
    assert made.fingerprint is not None
    assert made.fingerprint in found.reason
    assert not judge(check_profile(profile, used), min_coverage=0).passed


def test_another_combine_threshold_gives_names_to_other_operations(compiler: Compiler) -> None:
    made = compiler.compile("step").program
    used = compiler.compile("step", **HARMFUL["combine threshold"]).program
    assert any("all-gather" in name for name in reused_names(made, used))


def test_made_of_this_program_fits_by_its_names_or_by_its_head(step: Program) -> None:
    by_name = Profile((InstructionCost("a", 1.0, step.fingerprint),))
    assert staleness(by_name, step).fit is ProfileFit.FITS
    by_head = bare(step, **of(step))
    assert staleness(by_head, step).fit is ProfileFit.FITS
    assert source_fingerprints(by_head) == (step.fingerprint,)


def test_bare_names_without_a_word_cannot_be_told(step: Program) -> None:
    found = staleness(bare(step), step)
    assert found.fit is ProfileFit.UNTOLD
    judgment = judge(check_profile(bare(step), step))
    assert judgment.passed
    assert any("is unknown whether" in it for it in judgment.remarks)


def test_another_jaxlib_makes_bare_names_stale(step: Program) -> None:
    found = staleness(bare(step, jaxlib="0.9.2"), step, {"jaxlib": "0.10.2"})
    assert found.fit is ProfileFit.STALE
    assert found.differences == ("jaxlib: 0.9.2 when made, 0.10.2 now",)


def test_another_jaxlib_is_told_but_does_not_outweigh_the_fingerprint(step: Program) -> None:
    profile = bare(step, **of(step), jaxlib="0.9.2")
    found = staleness(profile, step, {"jaxlib": "0.10.2"})
    assert found.fit is ProfileFit.FITS
    assert found.differences


def test_names_of_another_model_are_foreign_and_not_stale(step: Program) -> None:
    profile = Profile((InstructionCost("fusion.1", 1.0),), origin={f"module {OTHER}": "jit_other"})
    assert staleness(profile, step).fit is ProfileFit.FOREIGN


def test_a_directory_of_modules_fits_when_one_of_them_is_this(step: Program) -> None:
    profile = Profile(
        (InstructionCost("a", 1.0, OTHER), InstructionCost("b", 1.0, step.fingerprint))
    )
    assert staleness(profile, step).fit is ProfileFit.FITS


def test_a_program_without_a_fingerprint_cannot_be_told() -> None:
    program = read_program(PROGRAMS / "cpu_step.hlo.pb.xz")
    assert program.fingerprint is None
    assert staleness(Profile((InstructionCost("a", 1.0, OTHER),)), program).fit is ProfileFit.UNTOLD
