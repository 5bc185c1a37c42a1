"""Instructions that a profile spells out without their module: what is known of them."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from counterpoint.hlo.category import category
from counterpoint.hlo.collectives import collective
from counterpoint.hlo.reader import Fragment, program_from_fragments
from real_profiles import explained_of

FUSION = "%fusion.1 = bf16[8,8]{1,0} fusion(bf16[8,8]{1,0} %p), kind=kOutput, calls=%fused"
REDUCE = (
    "%all-reduce.1 = bf16[8,8]{1,0} all-reduce(bf16[8,8]{1,0} %fusion.1), channel_id=1,"
    " replica_groups={{0,1}}, to_apply=%add"
)


def test_a_fusion_without_its_body_is_not_taken_for_elementwise() -> None:
    program = program_from_fragments("of_ops", [Fragment(FUSION), Fragment(REDUCE)])
    fusion, reduce = program.instruction("fusion.1"), program.instruction("all-reduce.1")
    assert fusion is not None
    assert reduce is not None
    assert category(program, fusion) == "other"
    assert category(program, reduce) == "collective"
    found = collective(program, reduce)
    assert found is not None
    assert (found.bytes, found.group_size) == (128, 2)


def test_a_text_that_was_cut_off_is_left_out() -> None:
    program = program_from_fragments("of_ops", [Fragment(FUSION), Fragment(REDUCE[:40])])
    assert program.instruction("fusion.1") is not None
    assert program.instruction("all-reduce.1") is None


@pytest.mark.system
def test_a_tpus_matrix_products_are_matmuls(shared: Path) -> None:
    """The profiler calls them convolution fusions; the user wrote einsum("mn,pn->mp")."""
    explained = explained_of(shared / "data/traces/vllm_qwen3_2tpu.trace.json.gz")
    longest = explained.ops.head(10)
    assert longest["op"].str.starts_with("convolution").all()
    assert set(longest["category"]) == {"matmul"}
    by_category = explained.ops.group_by("category").agg(pl.col("self_ms").sum())
    assert by_category.sort("self_ms")["category"][-1] == "matmul"
