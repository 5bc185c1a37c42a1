"""Loops: as if every turn were written out, at the price of a few."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType

import pytest
from hypothesis import given
from hypothesis import strategies as st

import counterpoint
from counterpoint.cost.model import Contention
from counterpoint.simulate.simulation import Simulation, simulate
from hand_made import S, Told, compute, done, entry, loop, program, run_loop, start

seconds = st.floats(0.01, 10)
TURN = (start("gather"), compute("a"), compute("b"), done("gather"), compute("c"))


def unrolled(trips: int) -> str:
    turns = [
        line.replace("gather.done", f"gather{k}.done")
        .replace("(gather)", f"(gather{k})")
        .replace("  gather =", f"  gather{k} =")
        .replace("  a =", f"  a{k} =")
        .replace("  b =", f"  b{k} =")
        .replace("  c =", f"  c{k} =")
        for k in range(trips)
        for line in TURN
    ]
    return entry(*turns)


@given(st.integers(0, 6), seconds, seconds, seconds, seconds)
def test_a_loop_takes_what_its_turns_take_written_out(
    trips: int, gather: float, a: float, b: float, c: float
) -> None:
    contention = Contention(compute=0.1, collective=0.2)
    costs = {"gather": gather, "a": a, "b": b, "c": c, "result": 0.5}
    looped = simulate(program(loop(*TURN) + entry(run_loop(trips))), Told(costs, contention))
    written = {f"{name}{k}": cost for name, cost in costs.items() for k in range(trips)}
    flat = simulate(program(unrolled(trips)), Told({**written, "result": 0.5}, contention))
    assert looped.step_s == pytest.approx(flat.step_s)
    assert looped.exposed_s == pytest.approx(flat.exposed_s, abs=1e-9)
    one, other = looped.timeline.spans, flat.timeline.spans
    assert len(one) == len(other)
    for column in ("start_ps", "dur_ps"):
        assert ((one[column].sort() - other[column].sort()).abs() <= 5).all()


def pipelined(trips: int) -> str:
    """Each turn waits for what the one before sent, and sends for the next."""
    sent = "(f32[8], f32[8], u32[], u32[])"
    to = "source_target_pairs={{0,1}}"
    known = f'backend_config={{"known_trip_count":{{"n":"{trips}"}}}}'
    return f"""
body {{
  state = (s32[], {sent}, {S}) parameter(0)
  i = s32[] get-tuple-element(state), index=0
  sent = {sent} get-tuple-element(state), index=1
  q = {S} get-tuple-element(state), index=2
  next.sent = {sent} collective-permute-start(q), {to}
  a = {S} sine(q)
  got = {S} collective-permute-done(sent)
  ROOT next = (s32[], {sent}, {S}) tuple(i, next.sent, a)
}}

body.condition {{
  asked = (s32[], {sent}, {S}) parameter(0)
  ROOT goes_on = pred[] custom-call(asked), custom_call_target="ask"
}}

ENTRY main {{
  p = {S} parameter(0)
  zero = s32[] constant(0)
  first = {sent} collective-permute-start(p), {to}
  init = (s32[], {sent}, {S}) tuple(zero, first, p)
  turns = (s32[], {sent}, {S}) while(init), condition=body.condition, body=body, {known}
  left = {sent} get-tuple-element(turns), index=1
  ROOT last = {S} collective-permute-done(left)
}}
"""


def by_hand(trips: int, permute: float, a: float) -> float:
    now, stream, pending = 0.0, permute, permute
    for _ in range(trips):
        stream = max(stream, now) + permute
        now = max(now + a, pending)
        pending = stream
    return max(now, pending)


@given(st.integers(1, 40), seconds, seconds)
def test_what_one_turn_sends_may_arrive_in_the_next(trips: int, permute: float, a: float) -> None:
    made = program(pipelined(trips))
    model = Told({"first": permute, "next.sent": permute, "a": a})
    simulation = simulate(made, model)
    assert simulation.step_s == pytest.approx(by_hand(trips, permute, a))
    timeline = simulation.timeline
    work = timeline.frame().group_by("op").len().collect()
    assert dict(work.rows()) == {"first": 1, "next.sent": trips, "a": trips}
    on_stream = timeline.spans.filter(line=1)
    ends = on_stream["start_ps"] + on_stream["dur_ps"]
    assert (on_stream["start_ps"][1:] - ends[:-1] >= -5).all()


def test_loops_in_loops_are_multiplied() -> None:
    inner = loop(compute("a"), start("gather"), done("gather"), name="inner")
    outer = loop(compute("b"), run_loop(5, "inner"), name="outer").replace("(p)", "(q)")
    outer = outer.replace("zero.inner, p)", "zero.inner, q)")
    made = program(inner + outer + entry(run_loop(7, "outer")))
    simulation = simulate(made, Told({"result": 0}))
    assert simulation.step_s == pytest.approx(7 * (1 + 5 * 2))
    counts = simulation.timeline.frame().group_by("op").len().collect()
    assert dict(counts.rows()) == {"a": 35, "gather": 35, "b": 7}


def simulated(trips: int) -> tuple[Simulation, int]:
    """A simulated loop, and how many calls of our functions it took, each of bounded work."""
    package = str(Path(counterpoint.__file__).parent)
    calls = 0

    def count(frame: FrameType, event: str, _: object) -> None:
        nonlocal calls
        calls += event == "call" and frame.f_code.co_filename.startswith(package)

    made = program(loop(*TURN) + entry(run_loop(trips)))
    model = Told({**dict.fromkeys(("gather", "a", "b", "c"), 1e-3), "result": 0})
    before = sys.getprofile()
    sys.setprofile(count)
    try:
        return simulate(made, model), calls
    finally:
        sys.setprofile(before)


@pytest.mark.system
def test_a_billion_turns_cost_no_more_than_a_few() -> None:
    _, few = simulated(10)
    simulation, calls = simulated(10**9)
    assert calls <= 2 * few
    assert simulation.step_s == pytest.approx(3e6)
    assert len(simulation.timeline.spans) <= 1_100_000
    explanation = counterpoint.explain(simulation.timeline)
    assert explanation.breakdown is not None
    assert explanation.breakdown.compute_ms == pytest.approx(3e9)
    assert any("represents several" in note for note in simulation.notes)


def test_a_loop_that_nobody_counts_is_run_once_and_told() -> None:
    made = program(loop(compute("a")) + entry(run_loop(None)))
    simulation = simulate(made, Told({"a": 2, "goes_on": 0.25, "result": 0}))
    assert simulation.step_s == pytest.approx(2.5)  # it asks before and after
    assert [(one.instruction, one.each_s) for one in simulation.uncounted] == [("body.loop", 2.25)]
    assert any("body.loop" in note and "lower bound" in note for note in simulation.notes)


def diagonal(turns: int) -> str:
    """Attention over the blocks up to the diagonal: the inner loop runs once more each time."""
    known = f'backend_config={{"known_trip_count":{{"n":"{turns}"}}}}'
    return f"""
inner {{
  state = (s32[], s32[], {S}) parameter(0)
  j = s32[] get-tuple-element(state), index=0
  end = s32[] get-tuple-element(state), index=1
  q = {S} get-tuple-element(state), index=2
  one = s32[] constant(1)
  next = s32[] add(j, one)
  a = {S} sine(q)
  ROOT out = (s32[], s32[], {S}) tuple(next, end, a)
}}

inner.condition {{
  asked = (s32[], s32[], {S}) parameter(0)
  j.now = s32[] get-tuple-element(asked), index=0
  end.now = s32[] get-tuple-element(asked), index=1
  ROOT goes = pred[] compare(j.now, end.now), direction=LT
}}

outer {{
  all = (s32[], {S}) parameter(0)
  i = s32[] get-tuple-element(all), index=0
  x = {S} get-tuple-element(all), index=1
  more = s32[] constant(1)
  up = s32[] add(i, more)
  zero = s32[] constant(0)
  begin = (s32[], s32[], {S}) tuple(zero, up, x)
  inside = (s32[], s32[], {S}) while(begin), condition=inner.condition, body=inner
  z = {S} get-tuple-element(inside), index=2
  b = {S} sine(z)
  ROOT on = (s32[], {S}) tuple(up, b)
}}

outer.condition {{
  asks = (s32[], {S}) parameter(0)
  ROOT ok = pred[] custom-call(asks), custom_call_target="ask"
}}

ENTRY main {{
  p = {S} parameter(0)
  from = s32[] constant(0)
  init = (s32[], {S}) tuple(from, p)
  loops = (s32[], {S}) while(init), condition=outer.condition, body=outer, {known}
  ROOT result = {S} get-tuple-element(loops), index=1
}}
"""


@pytest.mark.parametrize("turns", [0, 1, 5])
def test_an_inner_loop_runs_as_often_as_each_outer_iteration_says(turns: int) -> None:
    made = program(diagonal(turns))
    costs = {"a": 3.0, "b": 1.0, "next": 0.0, "goes": 0.5, "up": 0.0}
    simulation = simulate(made, Told(costs))
    inner = turns * (turns + 1) // 2
    # XLA does not know how often the inner loop runs, and asks its condition once more each time.
    assert simulation.step_s == pytest.approx(3 * inner + turns + 0.5 * (inner + turns))
    assert not simulation.uncounted
    counts = dict(simulation.timeline.frame().group_by("op").len().collect().rows())
    assert counts.get("a", 0) == inner
    assert counts.get("goes", 0) == inner + turns
