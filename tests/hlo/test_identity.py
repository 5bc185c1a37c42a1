"""Stable keys: unique within a Program, the same in another compile of the same workload."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from counterpoint.hlo.category import Category, category
from counterpoint.hlo.model.program import Program, launched, launches
from counterpoint.hlo.provenance import stable_key


def keys(program: Program, kind: Category | None = None) -> list[object]:
    return [
        stable_key(program, it)
        for computation in launched(program)
        for it in computation.instructions
        if launches(it) and (kind is None or category(program, it) is kind)
    ]


@pytest.mark.parametrize("name", ["cpu_step", "cpu_zoo", "gpu_step", "gpu_pipelined", "gpu_zoo"])
def test_no_two_launched_instructions_share_a_key(
    load: Callable[[str], Program], name: str
) -> None:
    found = keys(load(f"{name}.hlo.pb.xz"))
    assert len(set(found)) == len(found) > 20


def test_proto_and_text_give_the_same_keys(load: Callable[[str], Program]) -> None:
    assert keys(load("gpu_zoo.hlo.pb.xz")) == keys(load("gpu_zoo.txt.xz"))


def test_keys_survive_other_flags(load: Callable[[str], Program]) -> None:
    """Pipelining and double buffering rename and copy everything; matmuls keep their keys."""
    plain = set(keys(load("gpu_step.hlo.pb.xz"), Category.MATMUL))
    piped = set(keys(load("gpu_pipelined.hlo.pb.xz"), Category.MATMUL))
    assert plain
    assert plain <= piped


def test_inside_a_fusion_equals_are_counted_there(gpu_step: Program) -> None:
    inner = [it for it in gpu_step.instructions if it.computation.startswith("fused")]
    assert inner
    assert all(stable_key(gpu_step, it).opcode == it.opcode for it in inner)
