"""Loops: counts that XLA notes, counts that follow from the code, and those nobody knows."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from counterpoint.hlo.loops import loop_multiplier, mean_trips, steering_loops, trip_count, trips_at
from counterpoint.hlo.model.program import Program
from counterpoint.hlo.schedule import in_loop

Build = Callable[..., Program]


def counting(compare: str, first: int, last: int, step: int, config: str = "") -> tuple[str, str]:
    before = f"""
%body (b: (s32[], f32[8])) -> (s32[], f32[8]) {{
  %b = (s32[], f32[8]) parameter(0)
  %i = s32[] get-tuple-element(%b), index=0
  %x = f32[8] get-tuple-element(%b), index=1
  %step = s32[] constant({step})
  %next = s32[] add(%i, %step)
  ROOT %out = (s32[], f32[8]) tuple(%next, %x)
}}
%fused_compare (k: s32[], limit: s32[]) -> pred[] {{
  %k = s32[] parameter(0)
  %limit = s32[] parameter(1)
  ROOT %less = pred[] compare(%k, %limit), direction={compare}
}}
%condition (c: (s32[], f32[8])) -> pred[] {{
  %c = (s32[], f32[8]) parameter(0)
  %j = s32[] get-tuple-element(%c), index=0
  %last = s32[] constant({last})
  ROOT %go = pred[] fusion(%j, %last), kind=kLoop, calls=%fused_compare
}}
"""
    entry = f"""
  %p = f32[8] parameter(0)
  %first = s32[] constant({first})
  %copied = s32[] copy(%first)
  %init = (s32[], f32[8]) tuple(%copied, %p)
  %loop = (s32[], f32[8]) while(%init), condition=%condition, body=%body{config}
  ROOT %r = f32[8] get-tuple-element(%loop), index=1
"""
    return entry, before


@pytest.mark.parametrize(
    ("compare", "first", "last", "step", "count"),
    [
        ("LT", 0, 7, 1, 7),
        ("LT", 0, 7, 3, 3),
        ("LE", 0, 6, 2, 4),
        ("LT", 5, 5, 1, 0),
        ("LT", -3, 3, 2, 3),
        ("LT", 0, 7, -1, None),
        ("LT", 0, 7, 0, None),
        ("GT", 7, 0, -1, 7),
        ("GE", 7, 0, -2, 4),
        ("GT", 0, 7, -1, 0),
        ("NE", 0, 7, 1, None),
        ("GT", 7, 0, 1, None),
    ],
)
def test_a_counted_loop_is_counted(
    module: Build, compare: str, first: int, last: int, step: int, count: int | None
) -> None:
    entry, before = counting(compare, first, last, step)
    program = module(entry, before)
    loop = program.instruction("loop")
    assert loop
    assert trip_count(program, loop) == count
    assert loop_multiplier(program, "body") == count
    assert in_loop(program, "body")
    assert not in_loop(program, "main")
    assert loop_multiplier(program, "main") == 1


@pytest.mark.parametrize(
    "config",
    [
        ', backend_config={"known_trip_count":{"n":"39"}}',
        r', backend_config="{\"known_trip_count\":{\"n\":\"39\"}}"',
    ],
)
def test_what_xla_notes_counts_first(module: Build, config: str) -> None:
    program = module(*counting("NE", 0, 7, 1, config))
    loop = program.instruction("loop")
    assert loop
    assert trip_count(program, loop) == 39


def test_loops_of_the_zoo(load: Callable[[str], Program]) -> None:
    program = load("gpu_zoo.hlo.pb.xz")
    counts = [trip_count(program, it) for it in program.instructions if it.opcode == "while"]
    # fori_loop(0, 7), and a loop until a sum is large enough; the threefry loop may be unrolled.
    assert 7 in counts
    assert None in counts


def test_double_buffering_halves_the_count(load: Callable[[str], Program]) -> None:
    plain, doubled = load("gpu_step.hlo.pb.xz"), load("gpu_pipelined.hlo.pb.xz")
    loops = [it for it in plain.instructions if it.opcode == "while"]
    assert [trip_count(plain, it) for it in loops] == [4, 4]
    counts = [trip_count(doubled, it) for it in doubled.instructions if it.opcode == "while"]
    assert counts
    assert all(count in (1, 2) for count in counts)


def test_only_loops_have_counts(gpu_step: Program) -> None:
    others = [it for it in gpu_step.instructions if it.opcode != "while"]
    assert all(trip_count(gpu_step, it) is None for it in others)


def nested(first: str, last: str, turns: int = 4) -> tuple[str, str]:
    """A loop in a loop of `turns` iterations; its start and bound are among what is there."""
    state = "(s32[], s32[], s32[], f32[8])"
    outer = "(s32[], s32[], f32[8])"
    before = f"""
%inner (b: {state}) -> {state} {{
  %b = {state} parameter(0)
  %j = s32[] get-tuple-element(%b), index=0
  %bound = s32[] get-tuple-element(%b), index=1
  %other = s32[] get-tuple-element(%b), index=2
  %x = f32[8] get-tuple-element(%b), index=3
  %one = s32[] constant(1)
  %next = s32[] add(%j, %one)
  ROOT %out = {state} tuple(%next, %bound, %other, %x)
}}
%inner.condition (c: {state}) -> pred[] {{
  %c = {state} parameter(0)
  %j.c = s32[] get-tuple-element(%c), index=0
  %bound.c = s32[] get-tuple-element(%c), index=1
  ROOT %less = pred[] compare(%j.c, %bound.c), direction=LT
}}
%up (p.up: s32[], q.up: s32[]) -> (s32[], s32[]) {{
  %p.up = s32[] parameter(0)
  %q.up = s32[] parameter(1)
  %one.up = s32[] constant(1)
  %sum.up = s32[] add(%p.up, %one.up)
  %least.up = s32[] minimum(%sum.up, %q.up)
  ROOT %both = (s32[], s32[]) tuple(%sum.up, %least.up)
}}
%outer (o: {outer}) -> {outer} {{
  %o = {outer} parameter(0)
  %i = s32[] get-tuple-element(%o), index=0
  %blocks = s32[] get-tuple-element(%o), index=1
  %y = f32[8] get-tuple-element(%o), index=2
  %zero = s32[] constant(0)
  %half = s32[] constant(2)
  %raised = (s32[], s32[]) fusion(%i, %blocks), kind=kLoop, calls=%up
  %then = s32[] get-tuple-element(%raised), index=0
  %diagonal = s32[] get-tuple-element(%raised), index=1
  %asked = s32[] custom-call(%y), custom_call_target="ask"
  %late = pred[] compare(%i, %half), direction=GE
  %chosen = s32[] select(%late, %blocks, %zero)
  %start = s32[] copy({first})
  %init.inner = {state} tuple(%start, {last}, %i, %y)
  %inside = {state} while(%init.inner), condition=%inner.condition, body=%inner
  %z = f32[8] get-tuple-element(%inside), index=3
  ROOT %on = {outer} tuple(%then, %blocks, %z)
}}
%outer.condition (d: {outer}) -> pred[] {{
  %d = {outer} parameter(0)
  %i.d = s32[] get-tuple-element(%d), index=0
  %last.d = s32[] constant({turns})
  ROOT %goes = pred[] compare(%i.d, %last.d), direction=LT
}}
%given (g: s32[], h: f32[8]) -> f32[8] {{
  %g = s32[] parameter(0)
  %h = f32[8] parameter(1)
  %from = s32[] constant(0)
  %init = {outer} tuple(%from, %g, %h)
  %loops = {outer} while(%init), condition=%outer.condition, body=%outer
  ROOT %after = f32[8] get-tuple-element(%loops), index=2
}}
"""
    entry = """
  %p = f32[8] parameter(0)
  %blocks.all = s32[] constant(3)
  ROOT %r = f32[8] call(%blocks.all, %p), to_apply=%given
"""
    return entry, before


@pytest.mark.parametrize(
    ("first", "last", "each"),
    [
        ("%zero", "%blocks", [3, 3, 3, 3]),  # given at the call, and passed on by the outer loop
        ("%zero", "%diagonal", [1, 2, 3, 3]),
        ("%i", "%blocks", [3, 2, 1, 0]),
        ("%i", "%diagonal", [1, 1, 1, 0]),
        ("%zero", "%chosen", [0, 0, 3, 3]),
    ],
)
def test_a_count_follows_from_outer_loops_and_calls(
    module: Build, first: str, last: str, each: list[int]
) -> None:
    program = module(*nested(first, last))
    inner, outer = program.instruction("inside"), program.instruction("loops")
    assert inner
    assert outer
    assert trip_count(program, outer) == 4
    assert [trips_at(program, inner, {"loops": turn}) for turn in range(4)] == each
    assert trip_count(program, inner) == (3 if each == [3] * 4 else None)
    assert steering_loops(program, inner) == (() if each == [3] * 4 else (outer,))
    assert mean_trips(program, inner) == sum(each) / 4
    assert loop_multiplier(program, "inner") == sum(each)
    assert loop_multiplier(program, "outer") == 4


@pytest.mark.parametrize("last", ["%asked", "%other.than"])
def test_what_data_decides_is_unknown(module: Build, last: str) -> None:
    entry, before = nested("%zero", "%asked")
    if last == "%other.than":  # it also changes its own bound
        before = before.replace("tuple(%next, %bound, %other", "tuple(%next, %next, %other")
        before = before.replace("tuple(%start, %asked", "tuple(%start, %blocks")
    program = module(entry, before)
    inner = program.instruction("inside")
    assert inner
    assert trip_count(program, inner) is None
    assert mean_trips(program, inner) is None
    assert loop_multiplier(program, "inner") is None


def test_a_loop_that_turns_too_often_to_be_written_out_has_no_sum(module: Build) -> None:
    program = module(*nested("%zero", "%diagonal", turns=10**9))
    inner = program.instruction("inside")
    assert inner
    assert trips_at(program, inner, {"loops": 10**8}) == 3
    assert loop_multiplier(program, "inner") is None
