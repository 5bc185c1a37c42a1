"""Loops: counts that XLA notes, counts that follow from the code, and those nobody knows."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from counterpoint.hlo import Program
from counterpoint.hlo.schedule import in_loop, loop_multiplier, trip_count

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
