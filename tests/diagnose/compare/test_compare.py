"""A against B on hand-made pairs in which every figure can be counted.

           0    1    2    3    4    5    6    7    8    9    10
    A      |    |    |    |    |    |    |    |    |    |    |
      first ==========
      reduce     ====================
      second                         ===============
    B, where `first` takes 3 ms instead of 2
      first ===============
      reduce     ====================
      second                         ===============

A: compute 5, exposed reduce 3 (from 2 to 5), idle 2. B: compute 6, exposed 2, idle 2. In both the
step takes 10, so what `first` costs more the reduce costs less.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from compare_pairs import program, reduce_done, reduce_start, sine, timeline, work_of
from hypothesis import given, settings
from hypothesis import strategies as st

import counterpoint
from counterpoint.core.basis import Unknown
from counterpoint.core.errors import InputError, UsageError
from counterpoint.diagnose.compare.comparison import StepDifference
from counterpoint.diagnose.compare.experiment import DifferenceKind
from counterpoint.diagnose.compare.matching import MatchStage
from counterpoint.diagnose.compare.step_time import StepVerdict
from counterpoint.report.document import TextTable
from counterpoint.report.explain.compare_document import compare_document
from counterpoint.report.explain.compare_tables import collectives_section, ops_section
from counterpoint.report.terminal import plain_text
from counterpoint.timeline.model import Timeline
from timelines import two_devices, two_devices_without_hlo

HLO = program(
    sine("first", "mlp/sin"),
    reduce_start("reduce", "grads/psum", 1024),
    sine("second", "head/sin"),
    reduce_done("reduced", "reduce", 1024),
)
A_SPANS = (("first", 0, 2, 0), ("reduce", 1, 4, 1), ("second", 5, 3, 0))
B_SPANS = (("first", 0, 3, 0), *A_SPANS[1:])


def test_every_figure_is_as_counted() -> None:
    work = work_of(timeline(HLO, A_SPANS), timeline(HLO, B_SPANS))
    rows = {row.shown.op: (row.a_ms, row.b_ms, row.difference_ms) for row in work.ops}
    assert rows["first"] == pytest.approx((2, 3, 1))
    assert rows["second"] == pytest.approx((3, 3, 0))
    assert rows["reduce"] == pytest.approx((3, 2, -1))
    parts = {it.what: (it.a_ms, it.b_ms) for it in work.parts}
    assert parts["compute"] == pytest.approx((5, 6))
    assert parts["exposed collective"] == pytest.approx((3, 2))
    assert parts["idle"] == pytest.approx((2, 2))
    assert work.busy.difference_ms == pytest.approx(0)
    assert {row.how for row in work.ops} == {MatchStage.SAME}


def test_only_what_exceeds_noise_is_clear() -> None:
    work = work_of(timeline(HLO, A_SPANS), timeline(HLO, B_SPANS))
    clear = {row.shown.op for row in work.ops if row.clear}
    assert clear == {"first", "reduce"}
    near = (("first", 0, 2.02, 0), *A_SPANS[1:])  # 1% of itself: identical runs differ by more
    assert not any(row.clear for row in work_of(timeline(HLO, A_SPANS), timeline(HLO, near)).ops)


@pytest.mark.parametrize("made", [two_devices(), two_devices_without_hlo(), timeline(HLO, A_SPANS)])
def test_the_same_twice_differs_in_nothing(made: Timeline) -> None:
    found = counterpoint.compare(made, made)
    assert isinstance(found.work, StepDifference)
    assert not isinstance(found.step, Unknown)
    assert (found.step.change, found.step.verdict) == (0, StepVerdict.SAME)
    assert found.differs == ()
    assert found.notes == ()
    assert all(row.difference_ms == 0 and not row.clear for row in found.work.ops)
    assert all(it.difference_ms == 0 for it in found.work.parts)
    assert found.work.schedule.moves == () or isinstance(found.work.schedule.moves, Unknown)
    assert found.work.schedule.regrouped == ()
    assert not any(row.how is MatchStage.ALONE for row in found.work.ops)


def test_a_profile_without_hlo_is_matched_by_name() -> None:
    work = work_of(two_devices(), two_devices_without_hlo())
    assert {row.how for row in work.ops} == {MatchStage.NAME}
    assert work.busy.difference_ms == pytest.approx(0)
    assert isinstance(work.phases, Unknown)
    assert isinstance(work.schedule.moves, Unknown)


def test_what_only_one_has_is_listed_with_its_time() -> None:
    other = program(
        sine("first", "mlp/sin"), sine("third", "elsewhere/sin").replace("sine(", "cosine(")
    )
    work = work_of(
        timeline(HLO, A_SPANS), timeline(other, [("first", 0, 2, 0), ("third", 3, 4, 0)])
    )
    alone = {row.shown.op: row.difference_ms for row in work.ops if row.how is MatchStage.ALONE}
    assert alone == pytest.approx({"second": -3, "reduce": -3, "third": 4})


def test_other_devices_and_shapes_are_another_experiment() -> None:
    wide = HLO.replace("p = f32[256]{0} parameter", "p = f32[512]{0} parameter")
    found = counterpoint.compare(timeline(HLO, A_SPANS), timeline(wide, A_SPANS, devices=2))
    assert not found.same_experiment
    said = [(it.a, it.b) for it in found.differs if it.about is DifferenceKind.EXPERIMENT]
    assert ("1", "2") in said  # devices
    assert ("1 x f32[256]", "1 x f32[512]") in said  # the inputs of each
    assert isinstance(found.work, StepDifference)
    assert found.work.busy.difference_ms == pytest.approx(0)


def test_a_chip_is_one_by_whatever_name_a_profile_records_it() -> None:
    made = timeline(HLO, A_SPANS)
    by_properties, by_name, unknown = (
        replace(made, devices=(replace(made.devices[0], chip=chip),))
        for chip in ("AMD, compute 9.4, 304 cores, 192 GiB", "AMD Instinct MI300X", None)
    )
    found = counterpoint.compare(by_properties, by_name)
    assert not [it for it in found.differs if it.what == "chip"]
    assert plain_text(compare_document(found)).count("measured, 1 x MI300X (gpu)") == 2
    found = counterpoint.compare(by_name, unknown)
    assert "1 x gpu (chip not recorded)" in plain_text(compare_document(found))


def test_profiles_of_several_devices_are_compared_by_their_mean() -> None:
    a, b = timeline(HLO, A_SPANS, devices=2), timeline(HLO, B_SPANS)
    rows = {row.shown.op: row.difference_ms for row in work_of(a, b).ops}
    assert rows == pytest.approx({"first": 1, "second": 0, "reduce": -1})


def test_without_steps_whole_profiles_are_compared_and_the_step_is_unknown() -> None:
    whole = timeline(HLO, A_SPANS, steps=1)
    bare = replace(whole, steps=whole.steps.clear())
    found = counterpoint.compare(bare, timeline(HLO, A_SPANS, steps=1))
    assert isinstance(found.step, Unknown)
    assert isinstance(found.work, StepDifference)
    assert found.work.window == "profile"
    assert found.work.busy.difference_ms == pytest.approx(0)
    with pytest.raises(InputError, match="cannot be compared"):
        found.slower_by_more_than(0.02)


def test_copies_of_one_run_are_not_several() -> None:
    with pytest.raises(UsageError, match="named twice"):
        counterpoint.compare(["a.xplane.pb", "a.xplane.pb"], "b.xplane.pb")


SPAN = st.tuples(
    st.sampled_from(["first", "second", "reduce", "unknown"]),
    st.floats(0, 9.5),
    st.floats(0.001, 4),
    st.integers(0, 2),
)


@pytest.mark.system
@given(st.lists(SPAN, min_size=1, max_size=12), st.lists(SPAN, min_size=1, max_size=12))
@settings(max_examples=10)
def test_whatever_overlaps_rows_add_up_to_the_difference(
    a: list[tuple[str, float, float, int]], b: list[tuple[str, float, float, int]]
) -> None:
    mine = timeline(HLO, a, steps=3, devices=2)
    work_of(mine, timeline(HLO, b, steps=3))
    same = work_of(mine, mine)
    assert all(abs(row.difference_ms) < 1e-9 for row in same.ops)


def test_a_profile_without_devices_is_refused() -> None:
    full = timeline(HLO, A_SPANS)
    empty = replace(full, devices=(), spans=full.spans.clear(), inputs=("empty.xplane.pb",))
    with pytest.raises(InputError, match=r"empty.xplane.pb: no device"):
        counterpoint.compare(full, empty)


STEPS = st.lists(st.integers(10, 60), min_size=3, max_size=8)


@pytest.mark.system
@given(STEPS, STEPS)
@settings(max_examples=30, deadline=None)
def test_noise_is_of_the_row_and_never_more_than_it_holds(a: list[int], b: list[int]) -> None:
    """However much steps scatter, an op can't differ by more than it holds in either run."""
    sides = [timeline(HLO, A_SPANS, step_ms=a), timeline(HLO, B_SPANS, step_ms=b)]
    for row in work_of(*sides).ops:
        if row.noise_ms is not None:
            assert row.noise_ms <= max(row.a_ms, row.b_ms)
            assert not row.clear or abs(row.difference_ms) > row.noise_ms


def test_collectives_share_the_noise_of_the_step() -> None:
    """Two of them that hold the same don't each have the noise of all waiting."""
    one = program(
        reduce_start("reduce", "grads/psum", 1024), reduce_done("reduced", "reduce", 1024)
    )
    alone = work_of(*(timeline(one, [("reduce", 0, ms, 1)]) for ms in (4, 3.998)))
    both = program(
        reduce_start("reduce", "grads/psum", 1024),
        reduce_done("reduced", "reduce", 1024),
        reduce_start("other", "loss/psum", 2048),
        reduce_done("others", "other", 2048),
    )
    shared = work_of(
        *(timeline(both, [("reduce", 0, ms, 1), ("other", 5, ms, 1)]) for ms in (4, 3.998))
    )
    noise = {row.shown.op: row.noise_ms or 0.0 for row in shared.ops}
    assert noise["reduce"] == pytest.approx((alone.ops[0].noise_ms or 0.0) / 2)
    assert noise["other"] == noise["reduce"] > 0


def test_an_op_whose_difference_rounds_to_0_is_one_of_the_others() -> None:
    work = work_of(timeline(HLO, A_SPANS), timeline(HLO, B_SPANS))
    seen, *unseen = (replace(row, clear=True) for row in work.ops)
    rows = (seen, *(replace(row, b_ms=row.a_ms + 0.00004) for row in unseen))
    table = ops_section(replace(work, ops=rows), 10).blocks[0]
    assert isinstance(table, TextTable)
    assert [row[0] for row in table.rows] == [seen.shown.op, f"{len(unseen)} others"]


def test_what_is_exposed_on_an_unknown_side_has_no_difference() -> None:
    one = program(
        reduce_start("reduce", "grads/psum", 1024), reduce_done("reduced", "reduce", 1024)
    )
    work = work_of(*(timeline(one, [("reduce", 0, ms, 1)]) for ms in (4, 3)))

    def differs(exposed: tuple[float | None, float | None]) -> str:
        rows = tuple(replace(it, exposed_ms=exposed) for it in work.collectives)
        (table,) = collectives_section(replace(work, collectives=rows), 10).blocks
        assert isinstance(table, TextTable)
        at = [it.title for it in table.columns].index("B-A")
        return str(table.rows[0][at])

    assert differs((4.0, 3.0)) == "-1.000"
    assert differs((None, 3.0)) == differs((4.0, None)) == "?"


def test_one_measurement_against_itself_has_no_noise() -> None:
    made = timeline(HLO, A_SPANS, step_ms=[10, 14, 11, 20, 12])
    assert [row.noise_ms for row in work_of(made, made).ops] == [0, 0, 0]


def test_noise_that_may_be_all_of_a_row_is_not_known() -> None:
    scattered = [10, 40, 12, 60, 11, 35, 90, 14]
    sides = [timeline(HLO, spans, step_ms=scattered) for spans in (A_SPANS, B_SPANS)]
    rows = {row.shown.op: row for row in work_of(*sides).ops}
    assert rows["first"].difference_ms > 0
    assert (rows["first"].noise_ms, rows["first"].clear) == (None, False)
