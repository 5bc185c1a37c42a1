"""Which dimensions exist for a release, devices and a program, and why others don't."""

from __future__ import annotations

from pathlib import Path

import pytest

from counterpoint.flags.catalogue.libtpu import libtpu_flag
from counterpoint.flags.settings import Settings
from counterpoint.hlo.reader import read_program
from counterpoint.tune.arm import Acts
from counterpoint.tune.executors.executor import ProcessShape
from counterpoint.tune.space.context import Platform
from counterpoint.tune.space.space import Space
from golden_files import Golden
from tune_spaces import alone, choices, gathers, named, space_of, why_out

GATHER = "xla_gpu_all_gather_combine_threshold_bytes"
STEP = Path(__file__).parents[2] / "hlo" / "data" / "gpu_step.hlo.pb.xz"
LHS = "xla_gpu_enable_latency_hiding_scheduler"


def flags(**values: str) -> Settings:
    return Settings(xla=tuple(values.items()))


def texts(space: Space) -> list[str]:
    return [str(it) for one in space.dimensions for it in one.choices]


def test_thresholds_are_the_break_points_of_the_program() -> None:
    space = space_of(program=gathers())
    # 64, 32 and 16 MiB: all in one from 112 MiB on, the two small ones from 48 MiB on, and by
    # default none of them merges.
    assert choices(space, "all-gather threshold") == ["64 MiB", "112 MiB"]
    change = named(space, "all-gather threshold").choices[-1]
    assert change.settings == flags(**{GATHER: str(112 << 20)})
    assert str(change) == "all-gather threshold 112 MiB"
    assert change.acts is Acts.SCHEDULE


def test_what_the_base_merges_is_no_choice_and_the_default_is_one() -> None:
    space = space_of(flags(**{GATHER: str(1 << 30)}), program=gathers())
    assert choices(space, "all-gather threshold") == ["default", "64 MiB"]


def test_there_are_never_more_than_four_thresholds() -> None:
    for dimension in space_of(program=read_program(STEP)).dimensions:
        if "threshold" in dimension.name:
            assert 1 <= len(dimension.choices) <= 4


def test_without_a_program_rules_of_thumb_stand_in() -> None:
    assert choices(space_of(), "all-reduce threshold") == ["128 MiB", "512 MiB", "1 GiB"]


def test_what_the_program_lacks_is_left_out_with_the_reason() -> None:
    space = space_of(program=gathers(), target="2x8xH100")
    assert why_out(space, "all-reduce threshold")
    assert why_out(space, "pipelined all-reduce")
    assert why_out(space, "all-reduce by host")
    assert "NVLS" in {it.name for it in space.dimensions}


def test_a_program_without_collectives_has_nothing_about_them() -> None:
    space = space_of(program=alone())
    names = {it.name for it in space.dimensions}
    assert names == {
        *("rematerialization", "command buffers", "Triton GEMMs", "cuDNN GEMMs"),
        "memory fraction",
    }
    assert why_out(space, "PGLE")
    assert why_out(space, "loops")


def test_one_device_has_no_collectives() -> None:
    space = space_of(target="1xH100")
    assert why_out(space, "latency estimator")
    assert why_out(space, "combine-1GiB")


def test_loops_that_run_often_are_not_unrolled_whole() -> None:
    assert choices(space_of(program=gathers(16)), "loops") == ["double-buffered", "unrolled"]
    space = space_of(program=gathers(17))
    assert choices(space, "loops") == ["double-buffered"]
    assert " 17 " in why_out(space, "loops unrolled")


@pytest.mark.parametrize(
    ("version", "flag"),
    [
        ("0.8.3", "xla_gpu_enable_pipelined_all_gather"),
        ("0.10.2", "xla_gpu_enable_pipelined_all_gather"),
        ("0.12.0", "xla_gpu_pipeline_all_gather"),
    ],
)
def test_each_release_is_told_in_its_own_words(version: str, flag: str) -> None:
    (change,) = named(space_of(version=version), "pipelined all-gather").choices
    assert [name for name, _ in change.settings.xla] == [flag]


@pytest.mark.parametrize(
    ("version", "flag", "value"),
    [
        ("0.10.2", "xla_gpu_enable_pipelined_all_gather", "true"),
        ("0.12.0", "xla_gpu_pipeline_all_gather", "on"),
        ("0.12.0", "xla_gpu_enable_pipelined_all_gather", "true"),  # the old name of the same
    ],
)
def test_what_the_base_has_can_only_be_taken_back(version: str, flag: str, value: str) -> None:
    space = space_of(flags(**{flag: value}), version=version)
    assert choices(space, "pipelined all-gather") == ["off"]


def test_what_is_inherited_counts_as_the_bases() -> None:
    inherited = {"XLA_FLAGS": "--xla_gpu_enable_pipelined_all_gather=true"}
    assert choices(space_of(inherited=inherited), "pipelined all-gather") == ["off"]


def test_a_compile_option_of_the_base_has_the_last_word() -> None:
    for value in ("False", "True"):
        base = Settings(options=(("xla_gpu_enable_pipelined_all_gather", value),))
        assert choices(space_of(base), "pipelined all-gather") == []
        assert "which takes precedence" in why_out(space_of(base), "pipelined all-gather")


def test_the_memory_fraction_keeps_the_name_that_the_base_uses() -> None:
    base = Settings(env=(("XLA_PYTHON_CLIENT_MEM_FRACTION", "0.92"),))
    space = space_of(base)
    found = named(space, "memory fraction")
    assert [it.choice for it in found.choices] == ["0.75", "0.85"]
    for it in found.choices:
        assert [name for name, _ in it.settings.env] == ["XLA_PYTHON_CLIENT_MEM_FRACTION"]
        assert it.acts is Acts.RUNTIME
    told = why_out(space, "memory")  # the recipe has the other name
    assert "ValueError" in told


def test_the_same_holds_of_an_inherited_name() -> None:
    space = space_of(inherited={"XLA_PYTHON_CLIENT_MEM_FRACTION": "0.85"})
    found = named(space, "memory fraction")
    assert [it.choice for it in found.choices] == ["0.75", "0.92"]
    assert found.choices[0].settings.env[0][0] == "XLA_PYTHON_CLIENT_MEM_FRACTION"


def test_lists_are_changed_not_replaced() -> None:
    base = flags(xla_gpu_enable_command_buffer="FUSION,COLLECTIVES")
    (off, without) = named(space_of(base), "command buffers").choices
    assert off.settings.flags == {"xla_gpu_enable_command_buffer": ""}
    assert without.settings.flags == {"xla_gpu_enable_command_buffer": "FUSION"}
    assert choices(space_of(), "command buffers") == ["off"]  # none of the default's are
    base = flags(xla_disable_hlo_passes="rematerialization,dce")
    assert why_out(space_of(base), "rematerialization")


def test_the_scheduler_is_asked_for_where_it_does_not_run_unasked() -> None:
    hopper, ampere = space_of(), space_of(target="8xA100-80GB")
    assert why_out(hopper, "latency hiding scheduler")
    assert dict(named(hopper, "latency estimator").needs) == {}
    assert choices(ampere, "latency hiding scheduler") == ["on"]
    assert dict(named(ampere, "overlap limit").needs) == {"latency hiding scheduler": "on"}
    asked = space_of(flags(**{LHS: "true"}), target="8xA100-80GB")
    assert choices(asked, "latency hiding scheduler") == ["off"]
    assert dict(named(asked, "overlap limit").needs) == {}


def test_what_needs_something_that_is_not_there_is_left_out() -> None:
    space = space_of(asked='drop = ["overlap limit"]')
    assert why_out(space, "early starts")
    base = flags(xla_gpu_experimental_parallel_collective_overlap_limit="2")
    space = space_of(base, asked='drop = ["overlap limit"]')
    assert why_out(space, "overlap limit") == "dropped by tune.toml"
    space = space_of(base)
    assert choices(space, "overlap limit") == ["4", "1"]
    assert dict(named(space, "early starts").needs) == {}


def test_pgle_is_measured_once_and_excludes_estimators() -> None:
    space = space_of()
    (change,) = named(space, "PGLE").choices
    assert change.profile
    assert named(space, "PGLE").excludes == ("latency estimator",)
    assert named(space, "latency estimator").excludes == ("PGLE",)
    base = flags(xla_gpu_pgle_profile_file_or_directory_path="costs.pbtxt")
    assert why_out(space_of(base), "PGLE")


def test_processes_are_dealt_out_otherwise_only_where_that_can_be() -> None:
    assert choices(space_of(shape=ProcessShape()), "processes") == ["one per GPU"]
    assert choices(space_of(shape=ProcessShape(per="gpu")), "processes") == ["one per node"]
    for shape, target, why in (
        (None, "8xH100", "nothing is run"),
        (ProcessShape(ranks_per_node=2), "8xH100", "given explicitly"),
        (ProcessShape(), "4x1xH100", "one GPU"),
    ):
        assert why in why_out(space_of(shape=shape, target=target), "processes")
    (change,) = named(space_of(shape=ProcessShape()), "processes").choices
    assert change.per == "gpu"
    assert str(change) == "processes one per GPU"


@pytest.mark.parametrize("platform", ["cpu", "tpu"])
def test_without_a_gpu_nothing_for_gpus_is_there(platform: Platform) -> None:
    space = space_of(target=None, platform=platform)
    choices_ = [change.settings for it in space.dimensions for change in it.choices]
    assert not any(settings.xla or settings.env for settings in choices_)
    assert bool(choices_) == (platform == "tpu")
    assert platform.upper() in why_out(space, "loops")
    of_tpus = ["tpu-overlap", "megascale"]
    assert [it.name for it in space.seeds] == (of_tpus if platform == "tpu" else [])


def test_what_libtpu_reads_is_tried_on_tpus_as_options_of_a_compile() -> None:
    space = space_of(target=None, platform="tpu", program=gathers())
    assert space.dimensions[0].name == "SparseCore collectives"
    assert why_out(space, "SparseCore all-reduce")
    for dimension in space.dimensions:
        for change in dimension.choices:
            settings = change.settings
            assert settings.options
            assert settings == Settings(options=settings.options)
            for name, value in settings.options:
                flag = libtpu_flag(name)
                assert flag is not None, name
                assert flag.per_compile
                assert flag.accepts(value), name
            assert change.acts is Acts.SCHEDULE
    arm = next(it for it in space.seeds if it.name == "tpu-overlap")
    assert arm.is_worth_compiling  # the recipe's variable is compiled, not left to runs
    assert dict(arm.settings.options)["xla_tpu_overlap_compute_collective_tc"] == "true"
    assert "LIBTPU_INIT_ARGS" not in arm.settings.variables


@pytest.mark.parametrize(("target", "tried"), [("v5e-16", False), ("2xv5e-16", True)])
def test_what_is_for_several_slices_is_not_tried_on_one(target: str, *, tried: bool) -> None:
    space = space_of(target=target, platform="tpu", program=gathers())
    assert ("megascale" in [it.name for it in space.seeds]) == tried
    assert tried or why_out(space, "megascale")


def test_what_libtpu_reads_is_not_tried_on_gpus() -> None:
    space = space_of(program=gathers())
    assert why_out(space, "SparseCore collectives") == "not for H100"
    assert why_out(space, "tpu-overlap") == "not for H100"


def test_where_nobody_knows_of_a_gpu_it_says_how_to_name_one() -> None:
    space = space_of(target=None)
    assert not space.dimensions
    assert not space.seeds
    assert "--target" in why_out(space, "NVLS")


def test_a_release_that_nobody_knows_is_said() -> None:
    (note,) = space_of(version="0.99.0").notes
    assert "0.99.0" in note
    assert "0.12.0.1" in note
    assert space_of().notes == ()


def test_the_same_input_makes_the_same_space() -> None:
    one = space_of(program=gathers(), shape=ProcessShape(), asked='[arms]\nx = "NCCL_BUFFSIZE=1"')
    other = space_of(program=gathers(), shape=ProcessShape(), asked='[arms]\nx = "NCCL_BUFFSIZE=1"')
    assert one == other
    assert texts(one) == texts(other)
    assert len(set(texts(one))) == len(texts(one))


def test_how_reasons_read(golden: Golden) -> None:
    profile = flags(xla_gpu_pgle_profile_file_or_directory_path="costs.pbtxt")
    passes = flags(xla_disable_hlo_passes="rematerialization,dce")
    pipelined = Settings(options=(("xla_gpu_enable_pipelined_all_gather", "True"),))
    no_limit = space_of(asked='drop = ["overlap limit"]')
    of_gathers = space_of(program=gathers(17), target="2x8xH100")
    one_slice = space_of(target="v5e-16", platform="tpu", program=gathers())
    cases: dict[str, tuple[Space, tuple[str, ...]]] = {
        "a step of all-gathers": (
            of_gathers,
            ("all-reduce threshold", "pipelined all-reduce", "loops unrolled", "tpu-overlap"),
        ),
        "a step without collectives": (space_of(program=alone()), ("PGLE", "loops")),
        "one device": (space_of(target="1xH100"), ("latency estimator", "combine-1GiB")),
        "no GPU": (space_of(target=None, platform="cpu"), ("loops",)),
        "a GPU that nobody knows": (space_of(target=None), ("NVLS",)),
        "one slice of TPUs": (one_slice, ("loops", "SparseCore all-reduce", "megascale")),
        "a base with a profile": (space_of(profile), ("PGLE", "latency hiding scheduler")),
        "a base without a pass": (space_of(passes), ("rematerialization",)),
        "a base with a compile option": (space_of(pipelined), ("pipelined all-gather",)),
        "a dimension dropped": (no_limit, ("overlap limit", "early starts")),
        "processes of two ranks": (space_of(shape=ProcessShape(ranks_per_node=2)), ("processes",)),
    }
    lines: list[str] = []
    for name, (space, asked) in cases.items():
        lines += [f"## {name}", *(f"{it}: {why_out(space, it)}" for it in asked), ""]
    golden("left_out.txt", "\n".join([*lines, *space_of(version="0.99.0").notes, ""]))
