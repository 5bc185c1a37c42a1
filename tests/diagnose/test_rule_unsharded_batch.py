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
    "attention_whole_on_tensor_axis",
    "convolutions_not_sharded",
)
OWN: Final = (
    "fsdp_with_constraint",
    "mlp_without_constraint",
    "mlp_in_scan_with_constraint",
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
