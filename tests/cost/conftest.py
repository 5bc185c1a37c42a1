"""Programs and machines for the tests of prices."""

from __future__ import annotations

from pathlib import Path

import pytest

from counterpoint.cost.compute.machine import ComputeDevice, machine_of
from counterpoint.cost.compute.pricing import price_compute
from counterpoint.cost.model import Price
from counterpoint.hardware.targets import parse_target
from counterpoint.hlo.model.program import Program
from counterpoint.hlo.reader import read_program
from counterpoint.hlo.text_reader import program_from_text
from prices import Build, PriceLine, known_scalars

_HLO = Path(__file__).parents[1] / "hlo" / "data"
_PARAMETERS = """\
  %a = bf16[4096,4096]{1,0} parameter(0)
  %b = bf16[4096,4096]{1,0} parameter(1)
  %x = f32[8192,8192]{1,0} parameter(2)
  %row = f32[1,8192]{1,0} parameter(3)
  %i = s32[] parameter(4)
  %q = bf16[2,4096,16,128]{3,2,1,0} parameter(5)
  %wide = f32[4096,4096]{1,0} parameter(6)
  %f8 = f8e4m3fn[4096,4096]{1,0} parameter(7)
  %tiny = f32[8]{0} parameter(8)
"""
_BEFORE = """\
%add (l: f32[], r: f32[]) -> f32[] {
  %l = f32[] parameter(0)
  %r = f32[] parameter(1)
  ROOT %sum = f32[] add(%l, %r)
}
"""


@pytest.fixture(scope="session")
def build() -> Build:
    """A Program whose entry has some parameters and the given lines."""

    def made(*lines: str, before: str = "") -> Program:
        body = "\n".join(f"  {line}" for line in lines)
        return program_from_text(
            "HloModule test, is_scheduled=true, num_partitions=8\n\n"
            f"{_BEFORE}{before}\nENTRY %main (p: f32[8]) -> f32[8] {{\n{_PARAMETERS}{body}\n}}\n"
        )

    return made


@pytest.fixture(scope="session")
def h100() -> ComputeDevice:
    return machine_of(parse_target("8xH100"), known_scalars())


@pytest.fixture(scope="session")
def price(build: Build) -> PriceLine:
    """The price of one line, `%it = LINE`, on a machine."""

    def asked(line: str, machine: ComputeDevice, before: str = "") -> Price:
        program = build(f"ROOT %it = {line}", before=before)
        found = program.instruction("it")
        assert found is not None
        return price_compute(program, found, machine)

    return asked


@pytest.fixture(scope="session")
def gpu_step() -> Program:
    """A training step as XLA compiled it."""
    return read_program(Path(__file__).parent.parent / "hlo" / "data" / "gpu_step.hlo.pb.xz")


@pytest.fixture(scope="session")
def tpu_step() -> Program:
    """A step that libtpu scheduled for eight v5e (tests/hlo/make_tpu_fixtures.py)."""
    return read_program(_HLO / "tpu_step.hlo.pb.xz")


@pytest.fixture(scope="session")
def tpu_slices() -> Program:
    """The same for two slices of four, in each of which the weights are sharded."""
    return read_program(_HLO / "tpu_slices.hlo.pb.xz")
