"""STEP108: sums of gradients that one sum after the loop replaces, and those that are needed."""

from __future__ import annotations

from typing import Final

import pytest
from compute_step import priced
from lowered_programs import found

from counterpoint.diagnose.rules import reduced_in_loop as rule
from counterpoint.hlo.accumulation import accumulated_sums
from counterpoint.hlo.reader import read_program
from run_directory import RunDirectory

IN_LOOP: Final = (
    "reduced_each_time_by_layer",
    "averaged_each_time",
    "scattered_each_time",
)
NOT_IN_LOOP: Final = (
    "reduced_by_xla",
    "clipped_each_time",
    "trained_in_a_scan",
    "reduced_once",
    "layers_in_a_scan",
)


@pytest.mark.system
@pytest.mark.parametrize("name", IN_LOOP)
def test_sums_that_the_loop_only_adds_up_are_found(run_directory: RunDirectory, name: str) -> None:
    finding = found(run_directory, name, rule.CODE)
    assert finding is not None
    saves = priced(finding)
    assert 0 < saves.low <= saves.high
    assert ("GiB more" in finding.detail) == (name == "scattered_each_time")


@pytest.mark.system
@pytest.mark.parametrize("name", NOT_IN_LOOP)
def test_sums_that_are_needed_are_fine(run_directory: RunDirectory, name: str) -> None:
    assert found(run_directory, name, rule.CODE) is None


def step(turn: str, dtype: str = "f32") -> str:
    """Four microbatches; `turn` makes %next of the sum %g and of what is carried, %total."""
    return f"""
%plus (a: {dtype}[], b: {dtype}[]) -> {dtype}[] {{
  %a = {dtype}[] parameter(0)
  %b = {dtype}[] parameter(1)
  ROOT %sum = {dtype}[] add(%a, %b)
}}

%turn (state: (s32[], f32[1024])) -> (s32[], f32[1024]) {{
  %state = (s32[], f32[1024]) parameter(0)
  %i = s32[] get-tuple-element(%state), index=0
  %total = f32[1024] get-tuple-element(%state), index=1
  %own = {dtype}[1024] broadcast(%i), dimensions={{}}
  %g = {dtype}[1024] all-reduce(%own), replica_groups={{{{0,1}}}}, to_apply=%plus
  {turn}
  ROOT %end = (s32[], f32[1024]) tuple(%i, %next)
}}

%goes_on (state: (s32[], f32[1024])) -> pred[] {{
  %known = (s32[], f32[1024]) parameter(0)
  ROOT %yes = pred[] constant(true)
}}

ENTRY %main {{
  %start = (s32[], f32[1024]) parameter(0)
  ROOT %loop = (s32[], f32[1024]) while(%start), condition=%goes_on, body=%turn,
    backend_config={{"known_trip_count":{{"n":"4"}}}}
}}
"""


SCALED: Final = "%h = f32[1024] multiply(%g, %g)\n  %next = f32[1024] add(%total, %h)"
TAKEN: Final = "%next = f32[1024] add(%total, %g)"
WIDENED: Final = "%w = f32[1024] convert(%g)\n  %next = f32[1024] add(%total, %w)"
KEPT_APART: Final = (
    "%at = f32[1] slice(%g), slice={[0:1]}\n"
    "  %next = f32[1024] dynamic-update-slice(%total, %at, %i)"
)
USED: Final = (
    "%bad = f32[1024] exponential(%total)\n"
    "  %worse = f32[1024] add(%bad, %g)\n  %next = f32[1024] add(%total, %worse)"
)


@pytest.mark.parametrize(
    ("turn", "dtype", "share"),
    [
        (TAKEN, "f32", (0.75, 0.75)),
        (WIDENED, "bf16", (0.5, 0.75)),
        (SCALED, "f32", None),
        (KEPT_APART, "f32", None),
        (USED, "f32", None),
    ],
)
def test_what_the_loop_makes_of_a_sum_decides(
    turn: str, dtype: str, share: tuple[float, float] | None
) -> None:
    sums = accumulated_sums(read_program(f"HloModule m\n{step(turn, dtype)}"))
    if share is None:
        assert not sums
        return
    (one,) = sums
    assert (one.collective.name, one.loop.name, one.trips) == ("g", "loop", 4)
    assert one.saved_share == share[0]
    assert 1 - 1 / one.trips == share[1]
