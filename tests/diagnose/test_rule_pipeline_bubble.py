"""STEP109: the time in which a pipeline fills and drains."""

from __future__ import annotations

import pytest
from compute_step import made, priced, where

from counterpoint.diagnose.rules.pipeline_bubble import check

CHAIN = "{0,1},{1,2},{2,3}"
RING = "{0,1},{1,2},{2,3},{3,0}"


def looped(pairs: str = CHAIN, turns: int = 7, *, sends: str = "value", back: str = "sent") -> str:
    """A loop that computes, and sends `sends` on; the next turn starts with `back`."""
    return f"""
body {{
  state = (s32[], f32[256,256]{{1,0}}) parameter(0)
  i = s32[] get-tuple-element(state), index=0
  x = f32[256,256]{{1,0}} get-tuple-element(state), index=1
  value = f32[256,256]{{1,0}} tanh(x), {where("stage", 3)}
  edge = f32[1,256]{{1,0}} slice(value), slice={{[0:1], [0:256]}}
  sent = f32[{1 if sends == "edge" else 256},256]{{1,0}} collective-permute({sends}), \
source_target_pairs={{{pairs}}}, {where("stage", 4)}
  other = f32[256,256]{{1,0}} add(value, sent)
  one = s32[] constant(1)
  next = s32[] add(i, one)
  ROOT out = (s32[], f32[256,256]{{1,0}}) tuple(next, {back})
}}

condition {{
  state.1 = (s32[], f32[256,256]{{1,0}}) parameter(0)
  i.1 = s32[] get-tuple-element(state.1), index=0
  last = s32[] constant({turns})
  ROOT less = pred[] compare(i.1, last), direction=LT
}}

ENTRY main {{
  a = (s32[], f32[256,256]{{1,0}}) parameter(0)
  ROOT loop = (s32[], f32[256,256]{{1,0}}) while(a), condition=condition, body=body, \
backend_config={{"known_trip_count":{{"n":"{turns}"}}}}
}}
"""


TIMES = {"value": 700, "sent": 300}


def test_the_share_of_turns_that_fill_and_drain_is_the_bubble() -> None:
    (finding,) = check(made(looped(), TIMES))
    assert finding.code == "STEP109"
    assert finding.title.startswith("the bubble of 4 pipeline stages takes")
    assert "3 of 7 turns" in finding.detail
    assert "microbatches" in str(finding.remedy)
    assert priced(finding).high == pytest.approx(3 / 7, rel=0.01)


def test_a_circular_pipeline_sends_from_the_last_stage_to_the_first() -> None:
    (finding,) = check(made(looped(RING, 11), TIMES))
    assert "3 of 11 turns" in finding.detail


def test_turns_that_are_written_one_after_another() -> None:
    turns = "".join(
        f"""
  y{n} = f32[256,256]{{1,0}} tanh(x{n})
  x{n + 1} = f32[256,256]{{1,0}} collective-permute(y{n}), channel_id={n + 1}, \
source_target_pairs={{{CHAIN}}}"""
        for n in range(6)
    )
    hlo = f"""
ENTRY main {{
  x0 = f32[256,256]{{1,0}} parameter(0){turns}
  ROOT out = f32[256,256]{{1,0}} tanh(x6)
}}
"""
    times = {f"y{n}": 100 for n in range(6)} | {f"x{n + 1}": 50 for n in range(6)}
    (finding,) = check(made(hlo, times))
    assert "3 of 6 turns" in finding.detail


@pytest.mark.parametrize(
    "hlo",
    [
        looped(RING, 4),
        looped(RING, 12, back="other"),
        looped(sends="edge", back="value"),
        looped("{0,1},{2,3}", 2),
    ],
    ids=["once around a ring", "attention in each layer", "edges of neighbours", "too few turns"],
)
def test_silent(hlo: str) -> None:
    assert not list(check(made(hlo, TIMES)))
