"""Where collectives stand in two schedules of one program, counted by hand."""

from __future__ import annotations

import pytest

from counterpoint.hlo.model.program import Program
from counterpoint.hlo.text_reader import program_from_text
from counterpoint.pgle.applying.movement import CollectiveMove, movement
from counterpoint.report.pgle.movement import movement_section

HEAD = """HloModule jit_step, is_scheduled=true, num_partitions=2

%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %sum = f32[] add(%a, %b)
}
"""
GATHER = (
    "%all-gather-start = (f32[4]{0}, f32[8]{0}) all-gather-start(%p), channel_id=1,"
    " replica_groups={{0,1}}, dimensions={0}, use_global_device_ids=true"
)
SYNC = GATHER + ', backend_config={"collective_backend_config":{"is_sync":true}}'
GATHERED = "%all-gather-done = f32[8]{0} all-gather-done(%all-gather-start)"
REDUCE = (
    "%all-reduce-start = f32[4]{0} all-reduce-start(%p), channel_id=2, replica_groups={{0,1}},"
    " use_global_device_ids=true, to_apply=%add"
)
REDUCED = "%all-reduce-done = f32[4]{0} all-reduce-done(%all-reduce-start)"
NEGATE = "%negate = f32[4]{0} negate(%p)"
ABS = "%abs = f32[4]{0} abs(%p)"
EXP = "%exp = f32[4]{0} exponential(%p)"
ROOT = (
    "ROOT %out = (f32[8]{0}, f32[4]{0}, f32[4]{0}, f32[4]{0}, f32[4]{0}) tuple(%all-gather-done,"
    " %all-reduce-done, %negate, %abs, %exp)"
)
COSTS = {
    "negate": 10.0,
    "abs": 20.0,
    "exp": 40.0,
    "all-gather-start": 50.0,
    "all-reduce-start": 15.0,
}


def program(*lines: str) -> Program:
    result = "(f32[8]{0}, f32[4]{0}, f32[4]{0}, f32[4]{0}, f32[4]{0})"
    body = "".join(f"  {line}\n" for line in ("%p = f32[4]{0} parameter(0)", *lines, ROOT))
    return program_from_text(f"{HEAD}\nENTRY %main (p: f32[4]) -> {result} {{\n{body}}}\n")


BEFORE = program(NEGATE, GATHER, GATHERED, REDUCE, ABS, EXP, REDUCED)
AFTER = program(GATHER, NEGATE, ABS, GATHERED, EXP, REDUCE, REDUCED)


def moved(
    before: Program, after: Program, costs: dict[str, float] = COSTS
) -> dict[str, CollectiveMove]:
    return {it.name: it for it in movement(before, after, costs).moves}


def test_starts_and_what_stands_within_are_counted_in_compute() -> None:
    gather = moved(BEFORE, AFTER)["all-gather-start"]
    assert (gather.before.before_us, gather.after.before_us) == (10.0, 0.0)
    assert gather.start_shift_us == -10.0
    assert (gather.before.within_us, gather.before.within) == (0.0, 0)
    assert (gather.after.within_us, gather.after.within) == (30.0, 2)
    assert (gather.after.cost_us, gather.bytes, gather.kind) == (50.0, 32, "all-gather")
    assert (gather.hidden_shift_us, gather.executions) == (30.0, 1)
    reduce = moved(BEFORE, AFTER)["all-reduce-start"]
    assert (reduce.before.within_us, reduce.after.within_us) == (60.0, 0.0)
    assert reduce.before.hidden_us == 15.0  # no unexpected argument


LATER_END = program(NEGATE, GATHER, ABS, GATHERED, EXP, REDUCE, REDUCED)
"""The gather starts where it did, and ends later."""


@pytest.mark.parametrize(
    ("after", "told"),
    [
        (AFTER, "2 of 2 collectives moved, 1 newly"),
        (LATER_END, "2 of 2 collectives moved, 1 of them only at their end, 1 newly"),
    ],
    ids=["start", "end"],
)
def test_as_many_start_as_before_as_the_table_says(after: Program, told: str) -> None:
    section = movement_section(movement(BEFORE, after, COSTS), 10)
    assert section.summary.startswith(told)
    assert str(section.blocks).count("as before") == told.count("only at their end")


def test_what_is_newly_and_what_is_no_longer_overlapped_is_named() -> None:
    found = movement(BEFORE, AFTER, COSTS)
    assert [it.name for it in found.newly_overlapped] == ["all-gather-start"]
    assert [it.name for it in found.no_longer_overlapped] == ["all-reduce-start"]
    assert found.transfers_us == 65.0
    assert (found.hidden_before_us, found.hidden_after_us) == (15.0, 30.0)
    assert [it.name for it in found.moves] == ["all-gather-start", "all-reduce-start"]
    assert found.reordered


def test_the_same_schedule_has_moved_nothing() -> None:
    found = movement(BEFORE, BEFORE, COSTS)
    assert not found.reordered
    assert found.moved == ()
    assert len(found.moves) == 2


def test_what_no_reader_would_see_has_not_moved() -> None:
    """Another order, by which nothing changes that is shown: tenths of a microsecond."""
    tiny = {**COSTS, "negate": 0.04}
    first, second = (
        program(NEGATE, GATHER, ABS, GATHERED, REDUCE, EXP, REDUCED),
        program(GATHER, NEGATE, ABS, GATHERED, REDUCE, EXP, REDUCED),
    )
    assert movement(first, second, tiny).reordered
    assert movement(first, second, tiny).moved == ()
    assert [it.name for it in movement(first, second, COSTS).moved] == ["all-gather-start"]


def test_there_and_back_is_the_opposite() -> None:
    there, back = moved(BEFORE, AFTER), moved(AFTER, BEFORE)
    for name, move in there.items():
        assert back[name].start_shift_us == -move.start_shift_us
        assert back[name].hidden_shift_us == -move.hidden_shift_us


def test_a_collective_that_became_synchronous_hides_nothing() -> None:
    sync = program(SYNC, NEGATE, ABS, GATHERED, EXP, REDUCE, REDUCED)
    gather = moved(AFTER, sync)["all-gather-start"]
    assert gather.after.sync
    assert not gather.before.sync
    assert (gather.before.hidden_us, gather.after.hidden_us) == (30.0, 0.0)
    found = movement(AFTER, sync, COSTS)
    assert found.reordered
    assert [it.name for it in found.no_longer_overlapped] == ["all-gather-start"]


def test_a_collective_of_another_name_is_known_by_what_it_does() -> None:
    renamed = program(
        *(
            line.replace("all-gather-start", "all-gather-start.7")
            .replace("all-gather-start.7(", "all-gather-start(")
            .replace("(all-gather-start)", "(all-gather-start.7)")
            .replace("done(%all-gather-start)", "done(%all-gather-start.7)")
            for line in (GATHER, NEGATE, ABS, GATHERED, EXP, REDUCE, REDUCED)
        )
    )
    found = movement(BEFORE, renamed, COSTS)
    gather = next(it for it in found.moves if it.kind == "all-gather")
    assert (gather.name_before, gather.name) == ("all-gather-start", "all-gather-start.7")
    assert found.gone == found.new == ()


def test_what_one_schedule_alone_has_is_listed() -> None:
    without = program(
        NEGATE,
        "%all-gather-done = f32[8]{0} pad(%p, %p), padding=0_4",
        REDUCE,
        ABS,
        EXP,
        REDUCED,
    )
    found = movement(BEFORE, without, COSTS)
    assert found.gone == ("all-gather-start",)
    assert [it.name for it in found.moves] == ["all-reduce-start"]
    assert movement(without, BEFORE, COSTS).new == ("all-gather-start",)


def test_without_a_cost_what_stands_within_bounds_what_is_hidden() -> None:
    gather = moved(BEFORE, AFTER, {"negate": 10.0, "abs": 20.0})["all-gather-start"]
    assert gather.after.cost_us is None
    assert gather.after.hidden_us == 30.0


LOOP = """HloModule jit_loop, is_scheduled=true, num_partitions=2

%body (s: (s32[], f32[4])) -> (s32[], f32[4]) {
  %s = (s32[], f32[4]{0}) parameter(0)
  %i = s32[] get-tuple-element(%s), index=0
  %x = f32[4]{0} get-tuple-element(%s), index=1
  %one = s32[] constant(1)
  %next = s32[] add(%i, %one)
  %work = f32[4]{0} negate(%x)
  ROOT %t = (s32[], f32[4]{0}) tuple(%next, %work)
}

%cond (s.1: (s32[], f32[4])) -> pred[] {
  %s.1 = (s32[], f32[4]{0}) parameter(0)
  %i.1 = s32[] get-tuple-element(%s.1), index=0
  %n = s32[] constant(6)
  ROOT %less = pred[] compare(%i.1, %n), direction=LT
}

ENTRY %main (p: f32[4]) -> f32[8] {
  %p = f32[4]{0} parameter(0)
  GATHER
  %zero = s32[] constant(0)
  %init = (s32[], f32[4]{0}) tuple(%zero, %p)
  %while = (s32[], f32[4]{0}) while(%init), condition=%cond, body=%body, \
backend_config={"known_trip_count":{"n":"6"}}
  ROOT %all-gather-done = f32[8]{0} all-gather-done(%all-gather-start)
}
"""


def test_a_loop_costs_what_it_contains_as_often_as_it_runs() -> None:
    loop = program_from_text(LOOP.replace("GATHER", GATHER))
    gather = moved(loop, loop, {"work": 7.0, "next": 0.5})["all-gather-start"]
    assert gather.after.within_us == pytest.approx(6 * 7.5)
