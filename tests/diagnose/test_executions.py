"""How often an op ran, where an execution has several spans or a loop has many turns."""

from __future__ import annotations

import pytest
from compute_step import made

HLO = """
less {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT less = pred[] compare(a, b), direction=LT
}

turn {
  x = f32[1024]{0} parameter(0)
  once = f32[1024]{0} exponential(x)
  ROOT again = f32[1024]{0} sort(once), dimensions={0}, to_apply=less
}

goes_on {
  x = f32[1024]{0} parameter(0)
  ROOT on = pred[] custom-call(x), custom_call_target="on"
}

ENTRY main {
  x = f32[1024]{0} parameter(0)
  first = f32[1024]{0} sort(x), dimensions={0}, to_apply=less
  ROOT loop = f32[1024]{0} while(first), condition=goes_on, body=turnTRIPS
}
"""
TRIPS = ', backend_config={"known_trip_count":{"n":"2"}}'
LINES = [
    ("first", 0, 1, 0),  # XLA copies the operand of a sort, under the name of the sort
    ("first", 1, 40, 0),
    ("once", 50, 5, 0),
    ("again", 55, 1, 0),
    ("again", 56, 30, 0),
    ("once", 90, 5, 0),
    ("again", 95, 1, 0),
    ("again", 96, 30, 0),
]


@pytest.mark.parametrize("trips", [TRIPS, ""], ids=["turns known", "turns not known"])
def test_spans_of_one_execution_are_counted_once(trips: str) -> None:
    case = made(HLO.replace("TRIPS", trips), LINES, kind="cpu", chip=None, has_run_ids=True)
    counts = dict(case.ops.select("op", "count").iter_rows())
    assert counts == {"first": 1, "once": 2, "again": 2}


def test_without_hlo_each_span_is_an_execution() -> None:
    counts = dict(made(None, LINES).ops.select("op", "count").iter_rows())
    assert counts == {"first": 2, "once": 2, "again": 4}


def test_an_op_of_which_a_part_was_recorded_counts_as_often_as_it_was_seen() -> None:
    hlo = HLO.replace("TRIPS", TRIPS.replace('"2"', '"9"'))
    counts = dict(made(hlo, LINES, has_run_ids=True).ops.select("op", "count").iter_rows())
    assert counts["once"] == 2
