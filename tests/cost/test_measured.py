"""Measured costs, in the program they were measured on and in another compile of it."""

from __future__ import annotations

import pytest

from counterpoint.cost.measured import CostMatch, MeasuredCosts
from counterpoint.cost.model import PriceFamily, PriceSource
from counterpoint.hlo.model.instruction import Instruction
from counterpoint.hlo.model.program import Program
from prices import Build

NAMED = 'f32[8192,8192]{{1,0}} negate(%x), metadata={{op_name="jit(f)/{scope}/neg"}}'
GATHER = (
    "f32[65536,8192]{{1,0}} all-gather(%x), channel_id=1, replica_groups=[{groups}], "
    'use_global_device_ids=true, dimensions={{0}}, metadata={{op_name="jit(f)/layer/gather"}}'
)


def it(program: Program, name: str) -> Instruction:
    found = program.instruction(name)
    assert found
    return found


def test_in_the_same_module_names_decide(build: Build) -> None:
    program = build("%one = f32[8]{0} negate(%tiny)", "ROOT %two = f32[8]{0} negate(%one)")
    measured = MeasuredCosts(program, {"%one": 1e-6, "two": 3e-6}, "profile")
    found = measured.find(program, it(program, "two"))
    assert found is not None
    assert (found.seconds, found.match) == (3e-6, CostMatch.NAME)
    price = measured.price(program, it(program, "two"))
    assert price is not None
    assert (price.source, price.family) == (PriceSource.MEASURED, PriceFamily.MEMORY)


def test_costs_follow_their_scope_when_names_change(build: Build) -> None:
    before = build(
        f"%a1 = {NAMED.format(scope='first')}", f"ROOT %a2 = {NAMED.format(scope='second')}"
    )
    after = build(
        f"%other.7 = {NAMED.format(scope='second')}",
        f"ROOT %other.9 = {NAMED.format(scope='first')}",
    )
    measured = MeasuredCosts(before, {"a1": 1.0, "a2": 2.0}, "profile")
    found = [measured.find(after, it(after, name)) for name in ("other.7", "other.9")]
    assert [(one.seconds, one.match) for one in found if one] == [
        (2.0, CostMatch.KEY),
        (1.0, CostMatch.KEY),
    ]


def test_a_clone_costs_the_median_of_its_equals(build: Build) -> None:
    line = NAMED.format(scope="layer")
    before = build(f"%a1 = {line}", f"%a2 = {line}", f"ROOT %a3 = {line}")
    after = build(f"%a1 = {line}", f"%a2 = {line}", f"%a3 = {line}", f"ROOT %a4 = {line}")
    measured = MeasuredCosts(before, {"a1": 1.0, "a2": 2.0, "a3": 6.0}, "profile")
    found = measured.find(after, it(after, "a4"))
    assert found is not None
    assert (found.seconds, found.low, found.high, found.match) == (2.0, 1.0, 6.0, CostMatch.EQUALS)


def test_shapes_are_the_last_resort(build: Build) -> None:
    before = build(f"ROOT %one = {NAMED.format(scope='here')}")
    after = build(f"%two = {NAMED.format(scope='there')}", "ROOT %c = f32[8]{0} negate(%tiny)")
    measured = MeasuredCosts(before, {"one": 1.0}, "profile")
    found = measured.find(after, it(after, "two"))
    assert found is not None
    assert found.match is CostMatch.SHAPES
    assert measured.find(after, it(after, "c")) is None
    assert measured.matches(after) == {CostMatch.SHAPES: 1, None: 1}


def test_a_collective_among_others_is_not_the_same(build: Build) -> None:
    before = build(f"ROOT %one = {GATHER.format(groups='1,8]<=[8')}")
    after = build(f"ROOT %one = {GATHER.format(groups='2,4]<=[8')}")
    measured = MeasuredCosts(before, {"one": 1.0}, "profile")
    assert measured.find(after, it(after, "one")) is None


@pytest.mark.parametrize("cost", [float("nan"), float("inf"), -1.0])
def test_what_is_no_time_is_not_used(cost: float, build: Build) -> None:
    program = build("ROOT %one = f32[8]{0} negate(%tiny)")
    assert (
        MeasuredCosts(program, {"one": cost}, "profile").find(program, it(program, "one")) is None
    )


def test_what_was_not_recorded_costs_what_its_equals_do(build: Build) -> None:
    line = NAMED.format(scope="layer")
    program = build(f"%a1 = {line}", f"ROOT %a2 = {line}")
    found = MeasuredCosts(program, {"a1": 1.0}, "profile").find(program, it(program, "a2"))
    assert found is not None
    assert (found.seconds, found.match) == (1.0, CostMatch.EQUALS)
