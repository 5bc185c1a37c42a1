"""Recipes as arms: what `predict --candidate RECIPE` would compile, taken apart into changes."""

from __future__ import annotations

import pytest

from counterpoint.flags.recipe import recipes
from counterpoint.flags.settings import Settings
from counterpoint.tune.arm import Acts, Arm, ArmOrigin, merged
from counterpoint.tune.executors.executor import ProcessShape
from counterpoint.tune.space.space import Space, arm_of, point_of
from counterpoint.workflow.variant import candidate
from tune_spaces import alone, gathers, space_of, why_out

BASES = (
    Settings(),
    Settings(
        xla=(
            ("xla_gpu_enable_command_buffer", "FUSION"),
            ("xla_gpu_all_gather_combine_threshold_bytes", "1073741824"),
            ("xla_disable_hlo_passes", "dce"),
        ),
        env=(("NCCL_DEBUG", "WARN"),),
    ),
)


def seed(space: Space, name: str) -> Arm:
    return {it.name: it for it in space.seeds}[name]


@pytest.mark.parametrize("version", ["0.8.3", "0.10.2", "0.12.0"])
@pytest.mark.parametrize("target", ["8xH100", "4x8xB200", "8xA100-80GB"])
@pytest.mark.parametrize("base", BASES, ids=["plain", "own"])
def test_an_arm_is_what_predict_compiles_for_that_candidate(
    version: str, target: str, base: Settings
) -> None:
    space = space_of(base, target=target, version=version, shape=ProcessShape())
    arms = [it for it in space.seeds if it.name in recipes()]
    assert len(arms) > 5
    for arm in arms:
        assert arm.origin is ArmOrigin.RECIPE
        wanted = candidate(arm.name, base, version=version, chip=space.chip).settings
        assert arm.settings == wanted, arm.name


@pytest.mark.parametrize("base", BASES, ids=["plain", "own"])
def test_the_changes_of_an_arm_come_to_the_arm(base: Settings) -> None:
    for arm in space_of(base, shape=ProcessShape()).seeds:
        made = merged(base, arm.changes)
        lists = {"xla_disable_hlo_passes"}
        for name, value in made.flags.items():
            if name in lists:
                assert set(value.split(",")) == set(arm.settings.flags[name].split(","))
            else:
                assert arm.settings.flags[name] == value
        assert made.variables == arm.settings.variables or arm.name == "memory"
        assert made.layout == arm.settings.layout


def test_every_recipe_is_an_arm_or_says_why_not() -> None:
    space = space_of(program=gathers(), shape=ProcessShape())
    out = {it.name for it in space.left_out}
    for name in (*recipes(), "recommended"):
        assert (name in out) != (name in {it.name for it in space.seeds}), name


def test_what_is_recommended_for_the_program_is_the_first_of_them() -> None:
    space = space_of(program=gathers(), shape=ProcessShape())
    recipe_seeds = [arm.name for arm in space.seeds if arm.origin is ArmOrigin.RECIPE]
    assert len(recipe_seeds) > 5
    assert recipe_seeds[0] == "recommended"


def test_a_recipe_is_taken_apart_into_choices_of_the_space() -> None:
    space = space_of(target="8xH100")
    arm = seed(space, "fsdp")
    assert [str(it) for it in arm.changes] == [
        "pipelined all-gather",
        "pipelined all-reduce",
        "loops double-buffered",
    ]
    assert arm.acts is Acts.SCHEDULE
    point = point_of(space, arm)
    assert point is not None
    assert arm_of(space, point, ArmOrigin.SEARCH).settings.flags == arm.settings.flags


def test_what_is_no_choice_keeps_the_name_that_a_dimension_would_give_it() -> None:
    space = space_of(program=gathers())
    changes = [str(it) for it in seed(space, "combine-1GiB").changes]
    assert "all-reduce threshold 1 GiB" in changes
    assert point_of(space, seed(space, "combine-1GiB")) is None
    assert "memory fraction 0.9" in [str(it) for it in seed(space, "memory").changes]


def test_a_recipe_for_what_the_program_lacks_is_no_arm() -> None:
    space = space_of(program=gathers())
    assert "no all-reduce" in why_out(space, "data-parallel")
    assert "no all-to-all" in why_out(space, "expert-parallel")
    assert "no all-gather" in why_out(space_of(program=alone()), "fsdp")


def test_a_recipe_that_the_base_has_already_is_no_arm() -> None:
    base = Settings(xla=(("xla_gpu_enable_triton_gemm", "0"),))
    assert "the base" in why_out(space_of(base), "cublas-gemm")
    assert why_out(space_of(version="0.12.0"), "dus-fusion") == "only before jaxlib 0.11.1"


def test_one_process_for_each_gpu_is_a_way_to_deal_out_processes() -> None:
    arm = seed(space_of(shape=ProcessShape()), "one-process-per-gpu")
    assert arm.per == "gpu"
    assert arm.acts is Acts.RUNTIME
    assert why_out(space_of(shape=ProcessShape(per="gpu")), "one-process-per-gpu")
    assert "nothing is run" in why_out(space_of(), "one-process-per-gpu")


def test_what_is_recommended_is_one_arm_for_this_program() -> None:
    arm = seed(space_of(program=gathers()), "recommended")
    assert arm.origin is ArmOrigin.RECIPE
    assert "pipelined all-gather" in [str(it) for it in arm.changes]
    assert "xla_gpu_enable_pipelined_all_reduce" not in arm.settings.flags


def test_names_of_seeds_differ() -> None:
    names = [it.name for it in space_of(asked='[arms]\nfsdp = "NCCL_BUFFSIZE=1"').seeds]
    assert len(set(names)) == len(names)
    space = space_of(asked='[arms]\nfsdp = "NCCL_BUFFSIZE=1"')
    assert seed(space, "fsdp").origin is ArmOrigin.HAND
    assert "your arms" in why_out(space, "fsdp")


def test_a_recipe_of_advice_alone_says_so() -> None:
    assert why_out(space_of(target="4x8xH100"), "several-hosts").startswith("only advice")
