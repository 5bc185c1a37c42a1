"""Ops are followed through renames, fusions, combined collectives and unrolled loops."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest
from compare_pairs import (
    body,
    fused,
    meta,
    program,
    reduce_done,
    reduce_start,
    sine,
    timeline,
    work_of,
)

from counterpoint.core.basis import Unknown
from counterpoint.diagnose.compare.comparison import StepDifference
from counterpoint.diagnose.compare.matching import MatchStage
from counterpoint.timeline.model import Timeline


def rows_of(
    work: StepDifference,
) -> dict[tuple[tuple[str, ...], tuple[str, ...]], tuple[str, float]]:
    """How and by how much, by the names on both sides."""
    return {
        (
            tuple(sorted(it.op for it in row.match.a)),
            tuple(sorted(it.op for it in row.match.b)),
        ): (str(row.how), round(row.difference_ms, 6))
        for row in work.ops
    }


def test_names_that_changed_places_are_told_by_what_they_are() -> None:
    a = program(sine("fusion.1", "mlp/sin"), sine("fusion.2", "head/sin"))
    b = program(sine("fusion.2", "mlp/sin"), sine("fusion.1", "head/sin"))
    work = work_of(
        timeline(a, [("fusion.1", 0, 2, 0), ("fusion.2", 3, 5, 0)]),
        timeline(b, [("fusion.2", 0, 3, 0), ("fusion.1", 3, 5, 0)]),
    )
    assert rows_of(work) == {
        (("fusion.1",), ("fusion.2",)): ("same", 1.0),
        (("fusion.2",), ("fusion.1",)): ("same", 0.0),
    }


def test_equals_are_matched_in_order_of_the_schedule() -> None:
    a = program(sine("s.1", "mlp/sin"), sine("s.2", "mlp/sin"))
    b = program(sine("s.7", "mlp/sin"), sine("s.8", "mlp/sin"))
    work = work_of(
        timeline(a, [("s.1", 0, 2, 0), ("s.2", 3, 4, 0)]),
        timeline(b, [("s.7", 0, 2, 0), ("s.8", 3, 5, 0)]),
    )
    assert rows_of(work) == {
        (("s.1",), ("s.7",)): ("same", 0.0),
        (("s.2",), ("s.8",)): ("same", 1.0),
    }


def test_a_fusion_that_absorbed_others_is_compared_with_them() -> None:
    a = program(
        fused("fusion.1", "mlp/sin", "one"),
        fused("fusion.2", "norm/sin", "two"),
        fused("fusion.3", "head/sin", "three"),
        before=body("one", "mlp/sin") + body("two", "norm/sin") + body("three", "head/sin"),
    )
    b = program(
        fused("fusion.1", "norm/sin", "both"),
        fused("fusion.2", "head/sin", "three"),
        before=body("both", "mlp/sin", "norm/sin") + body("three", "head/sin"),
    )
    spans = [("fusion.1", 0, 2, 0), ("fusion.2", 3, 2, 0), ("fusion.3", 6, 1, 0)]
    work = work_of(timeline(a, spans), timeline(b, [("fusion.1", 0, 3, 0), ("fusion.2", 6, 1, 0)]))
    assert rows_of(work) == {
        (("fusion.1", "fusion.2"), ("fusion.1",)): ("fused", -1.0),
        (("fusion.3",), ("fusion.2",)): ("same", 0.0),
    }


def test_fusions_that_share_little_are_not_one() -> None:
    scopes = ("mlp/sin", "norm/sin", "gate/sin", "up/sin", "down/sin")
    a = program(fused("f.1", scopes[-1], "one"), before=body("one", *scopes))
    others = ("down/sin", "a/sin", "b/sin", "c/sin", "d/sin")
    b = program(fused("f.2", others[-1], "two"), before=body("two", *others))
    work = work_of(timeline(a, [("f.1", 0, 2, 0)]), timeline(b, [("f.2", 0, 2, 0)]))
    assert {row.how for row in work.ops} == {MatchStage.ALONE}


def combined() -> tuple[str, str]:
    a = program(
        reduce_start("r.1", "a/psum", 1024),
        reduce_done("d.1", "r.1", 1024),
        reduce_start("r.2", "b/psum", 3072),
        reduce_done("d.2", "r.2", 3072),
        reduce_start("r.3", "c/psum", 512),
        reduce_done("d.3", "r.3", 512),
    )
    b = program(
        reduce_start("r.1", "b/psum", 4096),
        reduce_done("d.1", "r.1", 4096),
        reduce_start("r.2", "c/psum", 512),
        reduce_done("d.2", "r.2", 512),
    )
    return a, b


def test_combined_collectives_are_told_by_their_bytes_and_split_ones_the_other_way() -> None:
    one, other = combined()
    a = timeline(one, [("r.1", 0, 1, 0), ("r.2", 2, 2, 0), ("r.3", 5, 1, 0)])
    b = timeline(other, [("r.1", 0, 2, 0), ("r.2", 5, 1, 0)])
    work = work_of(a, b)
    assert rows_of(work) == {
        (("r.1", "r.2"), ("r.1",)): ("merged", -1.0),
        (("r.3",), ("r.2",)): ("same", 0.0),
    }
    (group,) = work.schedule.regrouped
    assert (group.a, group.b, group.kind) == (("r.1", "r.2"), ("r.1",), "all-reduce")
    assert group.bytes == 4 * 4096
    (back,) = work_of(b, a).schedule.regrouped
    assert (back.a, back.b) == (("r.1",), ("r.1", "r.2"))


def test_collectives_of_other_bytes_are_no_group() -> None:
    one, other = combined()
    less = other.replace("4096", "4095")
    a = timeline(one, [("r.1", 0, 1, 0), ("r.2", 2, 2, 0), ("r.3", 5, 1, 0)])
    work = work_of(a, timeline(less, [("r.1", 0, 2, 0), ("r.2", 5, 1, 0)]))
    assert work.schedule.regrouped == ()


def test_a_loop_that_was_unrolled_is_compared_as_a_whole() -> None:
    a = program(*(sine(f"s.{k}", f"layers_{k}/mlp/sin") for k in range(4)))
    b = program(sine("s.9", "layers/mlp/sin"))
    work = work_of(
        timeline(a, [(f"s.{k}", 2 * k, 1, 0) for k in range(4)]),
        timeline(b, [("s.9", 2 * k, 1.5, 0) for k in range(4)]),
    )
    assert rows_of(work) == {(("s.0", "s.1", "s.2", "s.3"), ("s.9",)): ("looped", 2.0)}


SCHEDULE = (
    sine("first", "mlp/sin"),
    reduce_start("reduce", "grads/psum", 1024),
    sine("second", "head/sin"),
    reduce_done("reduced", "reduce", 1024),
    sine("third", "tail/sin"),
)
SPANS = [("first", 0, 2, 0), ("reduce", 2, 4, 1), ("second", 3, 3, 0), ("third", 7, 1, 0)]


def test_a_start_that_moved_is_told_in_compute_that_it_passed() -> None:
    early = (SCHEDULE[1], SCHEDULE[0], *SCHEDULE[2:])
    work = work_of(timeline(program(*SCHEDULE), SPANS), timeline(program(*early), SPANS))
    assert not isinstance(work.schedule.moves, Unknown)
    (move,) = work.schedule.moves
    assert move.start_shift_us == pytest.approx(-2000)
    assert (move.before.within_us, move.after.within_us) == pytest.approx((3000, 5000))


def test_slower_compute_moves_nothing() -> None:
    slower = [(op, start, 1.3 * length, line) for op, start, length, line in SPANS]
    hlo = program(*SCHEDULE)
    assert work_of(timeline(hlo, SPANS), timeline(hlo, slower)).schedule.moves == ()


def test_a_collective_that_became_sync_is_said() -> None:
    sync = (SCHEDULE[0], reduce_start("reduce", "grads/psum", 1024, sync=True), *SCHEDULE[2:])
    work = work_of(timeline(program(*SCHEDULE), SPANS), timeline(program(*sync), SPANS))
    assert [it.name for it in work.schedule.now_sync] == ["reduce"]
    assert work.schedule.now_async == ()


def test_without_hlo_renamed_ops_are_told_by_their_operations_and_place() -> None:
    """As a TPU's profile tells them: scope, source line, operations and bytes of each op."""
    spans = [("fusion.1", 0.0, 2.0, 0), ("fusion.2", 3.0, 4.0, 0)]
    swapped = [("fusion.2", 0.0, 2.0, 0), ("fusion.1", 3.0, 5.0, 0)]

    def tell(made: Timeline, flops: dict[str, float]) -> Timeline:
        names = made.ops["name"].to_list()
        told = made.ops.with_columns(
            pl.lit("layers/mlp").alias("scope"),
            pl.Series("flops", [flops[name] for name in names], pl.Float64),
        )
        return replace(made, ops=told)

    a = tell(timeline(None, spans), {"fusion.1": 1e9, "fusion.2": 4e9})
    b = tell(timeline(None, swapped), {"fusion.2": 1e9, "fusion.1": 4e9})
    assert rows_of(work_of(a, b)) == {
        (("fusion.1",), ("fusion.2",)): ("work", 0.0),
        (("fusion.2",), ("fusion.1",)): ("work", 1.0),
    }


def test_renamed_scopes_are_followed_by_what_they_hold() -> None:
    def written(layer: str) -> str:
        return program(
            sine("s.1", f"{layer}/mlp/sin"),
            reduce_start("r.1", f"{layer}/psum", 1024),
            reduce_done("d.1", "r.1", 1024),
        )

    spans = [("s.1", 0, 2, 0), ("r.1", 3, 4, 1)]
    work = work_of(timeline(written("layer0"), spans), timeline(written("block0"), spans))
    assert {row.how for row in work.ops} == {MatchStage.RENAMED}
    assert not any(row.clear for row in work.ops)


def test_of_several_that_may_be_meant_none_is_guessed() -> None:
    a = program(sine("s.1", "a/sin"), sine("s.2", "b/sin"))
    b = program(sine("s.1", "c/sin"))
    work = work_of(
        timeline(a, [("s.1", 0, 2, 0), ("s.2", 3, 2, 0)]), timeline(b, [("s.1", 0, 2, 0)])
    )
    assert {row.how for row in work.ops} == {MatchStage.ALONE}


def test_the_workspace_of_a_library_is_no_shape() -> None:
    def call(workspace: int) -> str:
        return program(
            f"  %dot = (f32[256]{{0}}, s8[{workspace}]{{0}}) custom-call(%p), "
            f'custom_call_target="__cublas$gemm", {meta("mlp/dot_general")}'
        )

    spans = [("dot", 0, 2, 0)]
    work = work_of(timeline(call(33554432), spans), timeline(call(4194304), spans))
    assert {row.how for row in work.ops} == {MatchStage.SAME}


def test_a_collective_of_other_bytes_is_not_matched_by_its_name() -> None:
    a = program(reduce_start("r.1", "a/psum", 1024), reduce_done("d.1", "r.1", 1024))
    b = program(reduce_start("r.1", "b/psum", 16), reduce_done("d.1", "r.1", 16))
    spans = [("r.1", 0, 2, 1)]
    assert {row.how for row in work_of(timeline(a, spans), timeline(b, spans)).ops} == {
        MatchStage.ALONE
    }


def test_what_was_added_before_a_collective_does_not_move_it() -> None:
    more = program(sine("new", "new/sin").replace("sine(", "cosine("), *SCHEDULE)
    spans = [(op, start + 1, length, line) for op, start, length, line in SPANS]
    work = work_of(timeline(program(*SCHEDULE), SPANS), timeline(more, [("new", 0, 1, 0), *spans]))
    assert work.schedule.moves == ()
