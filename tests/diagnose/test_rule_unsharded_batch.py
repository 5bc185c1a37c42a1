"""STEP507: what is reported of programs whose sharding is known, and what is not."""

from __future__ import annotations

from typing import Final

import pytest
from compute_step import made, priced, where
from lowered_programs import found, step_ms

from counterpoint.diagnose.finding import Finding
from counterpoint.diagnose.rules import unsharded_batch as rule
from run_directory import RunDirectory

WHOLE: Final = (
    "fsdp_without_constraint",
    "input_on_one_axis_of_two",
    "input_not_sharded",
    "inference_without_sharding",
    "mlp_in_scan_without_constraint",
    "weights_cut_by_rows",
    "weights_cut_by_columns",
    "hybrid_without_constraint",
    "microbatches_without_constraint",
    "attention_whole_on_tensor_axis",
    "convolutions_not_sharded",
)
OWN: Final = (
    "fsdp_with_constraint",
    "mlp_without_constraint",
    "mlp_in_scan_with_constraint",
    "weights_cut_by_rows_with_constraint",
    "hybrid_with_constraint",
    "microbatches_with_constraint",
    "few_tokens",
    "sequences_on_tensor_axis",
    "packed_sequence_on_tensor_axis",
    "tensor_parallel_by_hand",
    "ulysses",
    "ulysses_without_data_axis",
    "vocabulary_on_tensor_axis",
    "tables_on_data_axis",
    "tables_cut_by_features",
    "contrastive_with_fsdp",
    "experts_two_on_each",
    "experts_and_fsdp",
    "data_parallel",
    "data_and_fsdp",
    "tensor_parallel",
    "tensor_and_data_parallel",
    "tensor_and_fsdp",
    "sequence_parallel",
    "tensor_with_sequence_between",
    "batch_smaller_than_axis",
    "decode_one",
    "inference_tensor_parallel",
    "weights_stay_while_decoding",
    "experts_on_data_axis",
    "pipeline",
    "convolutions",
    "contrastive",
    "correlations",
    "one_key_and_value_head",
    "adam_with_products",
    "accumulation",
)


@pytest.mark.system
@pytest.mark.parametrize("name", WHOLE)
def test_work_that_could_be_sharded_is_found(run_directory: RunDirectory, name: str) -> None:
    finding = found(run_directory, name, rule.CODE)
    assert finding is not None
    assert priced(finding).high > 0
    assert "sharded_programs.py:" in str(finding.remedy)


@pytest.mark.system
@pytest.mark.parametrize("name", OWN)
def test_what_each_device_has_of_its_own_is_fine(run_directory: RunDirectory, name: str) -> None:
    assert found(run_directory, name, rule.CODE) is None


@pytest.mark.system
@pytest.mark.parametrize(
    ("whole", "own"),
    [
        ("fsdp_without_constraint", "fsdp_with_constraint"),
        ("input_on_one_axis_of_two", "data_and_fsdp"),
        ("input_not_sharded", "data_parallel"),
        ("mlp_in_scan_without_constraint", "mlp_in_scan_with_constraint"),
        ("weights_cut_by_rows", "weights_cut_by_rows_with_constraint"),
        ("weights_cut_by_columns", "weights_cut_by_rows_with_constraint"),
        ("hybrid_without_constraint", "hybrid_with_constraint"),
        ("microbatches_without_constraint", "microbatches_with_constraint"),
    ],
)
def test_the_constrained_program_saves_what_is_said(
    run_directory: RunDirectory, whole: str, own: str
) -> None:
    finding = found(run_directory, whole, rule.CODE)
    assert finding is not None
    saved = step_ms(run_directory, whole) - step_ms(run_directory, own)
    assert priced(finding).low <= saved <= priced(finding).high


def step(rows: int, held: str) -> str:
    """Four devices: `rows` of examples on each, `held` the value that the product reads."""
    forward = where("jvp(Model)/mlp/dot_general", 3)
    backward = where("transpose(jvp(Model))/mul", 4)
    size = 4 * rows if held == "all" else rows
    return f"""
%add (a: bf16[], b: bf16[]) -> bf16[] {{
  %a = bf16[] parameter(0)
  %b = bf16[] parameter(1)
  ROOT %sum = bf16[] add(%a, %b)
}}

ENTRY %main {{
  %tokens = s32[{rows},1024]{{1,0}} parameter(0), {{TOKENS}}
  %w = bf16[1024,4096]{{1,0}} parameter(1), sharding={{replicated}}
  %x = bf16[{rows},1024]{{1,0}} convert(%tokens)
  %all = bf16[{4 * rows},1024]{{1,0}} all-gather(%x), channel_id=1, {GROUP}, dimensions={{0}}
  %h = bf16[{size},4096]{{1,0}} dot(%{held}, %w), {DOT}, {forward}
  ROOT %y = bf16[{size},4096]{{1,0}} negate(%h), {backward}
}}
"""


GROUP: Final = "replica_groups={{0,1,2,3}}, use_global_device_ids=true"
DOT: Final = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
SHARDED: Final = "sharding={devices=[4,1]<=[4]}"
WHOLE_INPUT: Final = "sharding={replicated}"
TIMES: Final = {"x": 10, "all": 100, "h": 500, "y": 50}


def findings(text: str, tokens: str) -> list[Finding]:
    hlo = text.replace("{TOKENS}", tokens)
    return list(rule.check(made(hlo, TIMES, header=", num_partitions=4")))


def test_a_product_that_all_devices_compute_alike_counts_but_one_of_them() -> None:
    (finding,) = findings(step(2, "all"), SHARDED)
    assert "8 examples" in finding.detail
    saved = (0.5 + 0.05) * 3 / 4
    assert priced(finding).low == pytest.approx(saved / 2)
    assert priced(finding).high >= saved
    assert "mlp.py:3" in str(finding.remedy)


def test_a_batch_along_an_axis_of_a_mesh_is_one_too() -> None:
    (named,) = findings(step(2, "all"), "sharding={mesh['data'=4], [{'data'}, {}]}")
    assert [named] == findings(step(2, "all"), SHARDED)


def test_a_product_of_own_examples_is_not_repeated() -> None:
    assert not findings(step(2, "x"), SHARDED)


def test_an_input_that_is_whole_on_all_devices_is_named() -> None:
    (finding,) = findings(step(8, "x"), WHOLE_INPUT)
    assert "same 8 examples" in finding.detail


def test_too_few_examples_can_not_be_divided() -> None:
    assert not findings(step(2, "x"), WHOLE_INPUT)


def test_without_shardings_nothing_is_said() -> None:
    assert not findings(step(8, "x"), "sharding={manual}")


def gathered(rows: int, weight: str, name: str = "dot_general") -> str:
    """Four devices: each gathers all examples, and multiplies them by its part of a weight."""
    forward = where("jvp(Model)/mlp/dot_general", 3)
    backward = where("transpose(jvp(Model))/mul", 4)
    sent = where(f"jvp(Model)/mlp/{name}", 3)
    whole = f"bf16[{4 * rows},1024]{{1,0}}"
    return f"""
ENTRY %main {{
  %tokens = s32[{rows},1024]{{1,0}} parameter(0), {SHARDED}
  %w = bf16[1024,1024]{{1,0}} parameter(1), {weight}
  %x = bf16[{rows},1024]{{1,0}} convert(%tokens)
  %all = {whole} all-gather(%x), channel_id=1, {GROUP}, dimensions={{0}}, {sent}
  %h = {whole} dot(%all, %w), {DOT}, {forward}
  %y = {whole} negate(%h), {backward}
  ROOT %out = ({whole}, bf16[1024,1024]{{1,0}}) tuple(%y, %w)
}}
"""


COLUMNS: Final = "sharding={devices=[1,4]<=[4]}"


def test_a_batch_that_is_gathered_for_a_smaller_weight_is_reported_with_both_sizes() -> None:
    (finding,) = findings(gathered(8192, COLUMNS), SHARDED)
    gathered_gib, weight_gib = 4 * 8192 * 1024 * 2 / 2**30, 4 * 1024 * 1024 * 2 / 2**30
    assert f"{gathered_gib:.3g} GiB" in finding.detail
    assert f"{weight_gib:.3g} GiB" in finding.detail
    assert "all-gather all (/home/me/model/mlp.py:3)" in finding.detail
    assert "mlp.py:3" in str(finding.remedy)
    assert priced(finding).low == pytest.approx(0.1 * (1 - weight_gib / gathered_gib) / 2)
    assert [it.ms for it in finding.evidence] == [pytest.approx(0.1)]


def test_a_batch_that_is_smaller_than_the_weight_may_be_gathered() -> None:
    assert not findings(gathered(512, COLUMNS), SHARDED)


@pytest.mark.parametrize(
    ("axis", "count"), [("[1,2,2]<=[4]", 1), ("[1,2,2]<=[2,2]T(1,0)", 0)], ids=["data", "tensor"]
)
def test_only_a_weight_that_is_cut_along_the_axis_of_the_batch_can_be_gathered_instead(
    axis: str, count: int
) -> None:
    repeated = "last_tile_dim_replicate"
    data = f"sharding={{devices=[2,1,2]<=[4] {repeated}}}"
    text = gathered(8192, f"sharding={{devices={axis} {repeated}}}").replace(SHARDED, data)
    across = text.replace(GROUP, "replica_groups={{0,2},{1,3}}, use_global_device_ids=true")
    found = findings(across.replace(str(4 * 8192), str(2 * 8192)), data)
    assert sum("gathering the weights" in it.detail for it in found) == count


def test_what_the_program_itself_gathers_is_on_purpose() -> None:
    assert not findings(gathered(8192, COLUMNS, "shard_map/all_gather"), SHARDED)


def test_packed_tokens_have_no_dimension_of_examples() -> None:
    flat = "sharding={devices=[4]<=[4]}"
    text = gathered(8192, COLUMNS).replace(
        f"%tokens = s32[8192,1024]{{1,0}} parameter(0), {SHARDED}",
        f"%tokens = s32[8192]{{0}} parameter(0), {flat}",
    )
    spread = "%x = bf16[8192,1024]{1,0} broadcast(%tokens), dimensions={0}"
    assert not findings(text.replace("%x = bf16[8192,1024]{1,0} convert(%tokens)", spread), flat)
