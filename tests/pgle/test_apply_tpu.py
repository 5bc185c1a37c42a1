"""A profile in the names of libtpu's scheduler, on what libtpu 0.0.50.1 dumped for a v5e-4."""

from __future__ import annotations

import lzma
from collections.abc import Mapping
from pathlib import Path

import pytest

from counterpoint.compile.compiler import CompiledProgram, PlannedMemory
from counterpoint.hardware.targets import parse_target
from counterpoint.hlo.reader import read_program
from counterpoint.pgle.applying.libtpu import (
    compute_costs,
    fit_by_names,
    scheduler_log,
    tpu_profile,
)
from counterpoint.pgle.applying.movement import movement
from counterpoint.pgle.compiler_log import ProfileUse
from counterpoint.pgle.profiles.profile import InstructionCost, Profile
from counterpoint.pgle.staleness import ProfileFit
from layers_of_products import COSTS

DATA = Path(__file__).parent / "data"
CLOCK = 1500  # of v5e, in cycles per microsecond


def recorded(name: str) -> CompiledProgram:
    data = lzma.decompress((DATA / f"tpu_{name}.hlo.pb.xz").read_bytes())
    return CompiledProgram(
        program=read_program(data),
        hlo=data,
        log="",
        memory=PlannedMemory(),
        seconds=0,
        wall_s=0,
        versions={},
        target=parse_target("v5e-4", tpus=True),
        options={},
        schedule_only=True,
    )


def of(costs: Mapping[str, float]) -> Profile:
    return Profile(tuple(InstructionCost(name, us) for name, us in costs.items()))


def by_name(profile: Profile) -> dict[str, float]:
    return {cost.name: cost.us for cost in profile.costs}


@pytest.fixture(scope="module")
def compiled() -> CompiledProgram:
    return recorded("compiled")


@pytest.fixture(scope="module")
def without() -> CompiledProgram:
    return recorded("without")


@pytest.fixture(scope="module")
def within() -> CompiledProgram:
    return recorded("with")


def test_the_dump_is_a_scheduled_module_with_times(without: CompiledProgram) -> None:
    clock = without.clock
    assert without.program.is_scheduled
    assert clock.mhz == CLOCK
    entry = without.program.computations[without.program.entry]
    order = [one.name for one in entry.instructions if one.name in clock.us]
    starts = [clock.us[name][0] for name in order]
    assert starts == sorted(starts)
    assert clock.us["convolution_tanh_fusion"][1] == pytest.approx(87.04, abs=0.01)


def test_collectives_are_found_by_their_channel(
    compiled: CompiledProgram, without: CompiledProgram
) -> None:
    gathers = {name: 10.0 + at for at, name in enumerate(COSTS) if "tanh" not in name}
    given = tpu_profile(of(gathers), compiled.program, without)
    assert all(name.startswith("all-gather-start") for name in by_name(given.costs))
    for name, us in gathers.items():
        (theirs,) = (cost.name for cost in given.costs.costs if cost.us == us)
        mine, seen = compiled.program.instruction(name), without.program.instruction(theirs)
        assert mine is not None
        assert seen is not None
        assert mine.channel_id == seen.channel_id is not None


def test_libtpu_multiplies_a_collective_by_the_clock_once_too_often(
    compiled: CompiledProgram, without: CompiledProgram
) -> None:
    given = tpu_profile(of(COSTS), compiled.program, without)
    file = by_name(given.file)
    assert file["all-gather-start"] == 80.0 / CLOCK
    assert file["convolution_tanh_fusion"] == 7.0
    assert by_name(given.costs)["all-gather-start"] == 80.0


def test_a_name_that_stands_for_something_else_gets_no_cost(
    compiled: CompiledProgram, without: CompiledProgram
) -> None:
    # copy-start.1 came after the scheduler; fusion.9 has become part of a fused gather.
    # A cost of zero is no measurement.
    costs = {"copy-start.1": 5.0, "fusion.9": 5.0, "of-another-program": 5.0}
    costs["convolution_tanh_fusion"] = 0.0
    given = tpu_profile(of(costs), compiled.program, without)
    assert not given.costs.costs
    log, lines = scheduler_log(given.costs, without, without)
    assert log.use is ProfileUse.NOT_USED
    assert not lines


CLONED = """\
HloModule jit_step, is_scheduled=true

%fused (q: SHAPE) -> SHAPE {
  %q = SHAPE parameter(0)
  ROOT %tanh = SHAPE tanh(%q)
}

ENTRY %main (p: SHAPE) -> SHAPE {
  %p = SHAPE parameter(0)
  ROOT %convolution_tanh_fusion.remat = SHAPE fusion(%p), kind=kLoop, calls=%fused
}
"""


def test_the_cost_of_a_clone_reaches_what_it_was_cloned_from(without: CompiledProgram) -> None:
    seen = without.program.instruction("convolution_tanh_fusion")
    assert seen is not None
    cloned = read_program(CLONED.replace("SHAPE", str(seen.shape)).encode())
    for name in ("convolution_tanh_fusion.remat", "convolution_tanh_fusion"):
        given = tpu_profile(of({name: 9.0}), cloned, without)
        assert by_name(given.costs) == {"convolution_tanh_fusion": 9.0}


def test_the_times_of_the_scheduler_prove_the_use(
    compiled: CompiledProgram, without: CompiledProgram, within: CompiledProgram
) -> None:
    asked = tpu_profile(of(COSTS), compiled.program, without).costs
    log, lines = scheduler_log(asked, without, within)
    assert log.use is ProfileUse.USED
    assert log.modules[0].found == len(COSTS)
    (line,) = (it for it in lines if it.startswith("convolution_tanh_fusion:"))
    assert line.count(" 7.000 us") == 2, "in the profile and in the schedule"
    ignored, _ = scheduler_log(asked, without, without)
    assert ignored.use is ProfileUse.NOT_USED
    assert ignored.modules[0].found == 0


def test_costs_of_collectives_alone_are_proved_too(
    compiled: CompiledProgram, without: CompiledProgram, within: CompiledProgram
) -> None:
    costs = {name: us for name, us in COSTS.items() if "tanh" not in name}
    asked = tpu_profile(of(costs), compiled.program, without).costs
    assert scheduler_log(asked, without, within)[0].use is ProfileUse.USED
    # Shorter than what hides them: the schedule has more than these times, but not because of them.
    short = tpu_profile(of(dict.fromkeys(costs, 0.5)), compiled.program, without).costs
    assert scheduler_log(short, without, without)[0].use is ProfileUse.NOT_USED


def test_longer_gathers_start_earlier(
    compiled: CompiledProgram, without: CompiledProgram, within: CompiledProgram
) -> None:
    asked = tpu_profile(of(COSTS), compiled.program, without).costs
    found = movement(without.program, within.program, compute_costs(asked, without))
    assert found.reordered
    assert found.moved
    assert not found.gone
    assert not found.new
    # A product without a cost counts as long as libtpu thinks, not as nothing.
    assert found.hidden_before_us == pytest.approx(3 * 18.95, abs=0.1)


def test_a_profile_of_another_program_is_foreign(compiled: CompiledProgram) -> None:
    own, other = of(COSTS), of({"fusion.9": 1.0, "of": 1.0, "another": 1.0})
    assert fit_by_names(own, compiled.program).fit is ProfileFit.UNTOLD
    assert fit_by_names(other, compiled.program).fit is ProfileFit.FOREIGN


def test_a_program_that_the_scheduler_leaves_alone_has_no_times(compiled: CompiledProgram) -> None:
    # Without a dump, the worker sends the finished module.
    log, lines = scheduler_log(of({"convolution_tanh_fusion": 7.0}), compiled, compiled)
    assert log.use is ProfileUse.NOT_USED
    assert "none to move" in log.reason
    assert not lines
