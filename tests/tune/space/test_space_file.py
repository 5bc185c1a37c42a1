"""A user's file about the space: what it may say, and what it is told where it is wrong."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from counterpoint.core.errors import CounterpointError, InputError, UsageError
from counterpoint.flags.settings import Settings
from counterpoint.tune.arm import Acts, Arm, ArmOrigin
from counterpoint.tune.executors.executor import ProcessShape
from counterpoint.tune.space.make import refuse_wrong_names
from counterpoint.tune.space.space import Space
from counterpoint.tune.space.space_file import parse_space, read_space
from tune_spaces import choices, gathers, named, space_of, why_out

GATHER = "xla_gpu_all_gather_combine_threshold_bytes"
LIMIT = "xla_gpu_experimental_parallel_collective_overlap_limit"


def by_hand(space: Space) -> dict[str, Arm]:
    return {it.name: it for it in space.seeds if it.origin is ArmOrigin.HAND}


def test_a_dimension_is_added() -> None:
    space = space_of(
        asked="""
        [dimension."my limit"]
        why = "ours"
        kinds = ["all-gather"]
        needs = { "overlap limit" = "2" }
        excludes = ["PGLE"]
        choices.low = "--xla_gpu_memory_limit_slop_factor=60"
        [dimension."my limit".choices.high]
        xla_flags = { xla_gpu_memory_limit_slop_factor = 110 }
        env = { MINE = true }
        """,
        program=gathers(),
    )
    found = named(space, "my limit")
    assert [str(it) for it in found.choices] == ["my limit low", "my limit high"]
    assert dict(found.needs) == {"overlap limit": "2"}
    assert "my limit" in named(space, "PGLE").excludes
    low, high = found.choices
    assert low.settings == Settings((("xla_gpu_memory_limit_slop_factor", "60"),))
    assert high.settings.env == (("MINE", "true"),)
    assert low.acts is Acts.RUNTIME  # MINE is nobody knows what


def test_where_a_dimension_of_known_flags_acts_is_known() -> None:
    asked = f'[dimension.mine]\nchoices = {{ on = "--{LIMIT}=3" }}'
    assert named(space_of(asked=asked), "mine").acts is Acts.SCHEDULE
    asked += '\nacts = "runtime"'
    assert named(space_of(asked=asked), "mine").acts is Acts.RUNTIME


def test_a_dimension_of_ones_own_may_be_for_any_device() -> None:
    asked = '[dimension.mine]\nchoices = { on = "env:MY_VARIABLE=1" }'
    space = space_of(target=None, platform="cpu", asked=asked)
    assert choices(space, "mine") == ["on"]
    assert len(space.dimensions) == 1


@pytest.mark.parametrize(
    ("line", "flag", "value"),
    [
        ('"overlap limit" = 2', LIMIT, "2"),
        ('"overlap limit" = "4"', LIMIT, "4"),
        ('"all-gather threshold" = "256 MiB"', GATHER, "268435456"),
        (f'"overlap limit" = "--{LIMIT}=7"', LIMIT, "7"),
        ('"pipelined all-gather" = true', "xla_gpu_enable_pipelined_all_gather", "true"),
    ],
)
def test_what_is_fixed_joins_the_base(line: str, flag: str, value: str) -> None:
    space = space_of(asked=f"[fix]\n{line}")
    assert space.base.flags == {flag: value}
    name = line.split('"')[1]
    assert choices(space, name) == []
    assert why_out(space, name).startswith("fixed to ")
    for arm in space.seeds:
        assert flag in arm.settings.flags


def test_what_needs_what_is_fixed_has_it() -> None:
    space = space_of(asked='[fix]\n"overlap limit" = 2')
    assert dict(named(space, "early starts").needs) == {}


def test_choices_are_narrowed() -> None:
    asked = '[choices]\n"overlap limit" = [4]\n"all-gather threshold" = ["256 MiB", 1073741824]'
    space = space_of(asked=asked, program=gathers())
    assert choices(space, "overlap limit") == ["4"]
    assert choices(space, "all-gather threshold") == ["256 MiB", "1 GiB"]


def test_dimensions_and_recipes_are_dropped() -> None:
    space = space_of(asked='drop = ["NCCL channels", "fsdp", "recommended"]')
    assert why_out(space, "NCCL channels") == "dropped by tune.toml"
    assert why_out(space, "fsdp") == "dropped by tune.toml"
    assert not {"fsdp", "recommended"} & {it.name for it in space.seeds}


def test_only_what_is_named_is_tried() -> None:
    space = space_of(asked='only = ["overlap limit", "fsdp"]')
    assert [it.name for it in space.dimensions] == ["overlap limit"]
    assert [it.name for it in space.seeds] == ["fsdp"]
    space = space_of(asked='only = []\n[arms]\nmine = "NCCL_BUFFSIZE=1048576"')
    assert not space.dimensions
    assert [it.name for it in space.seeds] == ["mine"]


def test_arms_by_hand_go_first_and_are_taken_apart() -> None:
    space = space_of(
        asked=f"""
        [arms]
        nvls = "NCCL_NVLS_ENABLE=0"
        both = {{ xla_flags = "--{LIMIT}=2 --xla_gpu_enable_triton_gemm=false", env = {{ A = 1 }} }}
        more = {{ recipe = "fsdp", xla_flags = {{ {LIMIT} = 4 }} }}
        costs = {{ profile = true }}
        ranks = {{ per = "gpu" }}
        """,
        shape=ProcessShape(),
    )
    found = by_hand(space)
    assert list(found) == ["nvls", "both", "more", "costs", "ranks"]
    assert [it.name for it in space.seeds][:5] == list(found)
    assert [str(it) for it in found["nvls"].changes] == ["NVLS off"]
    assert [str(it) for it in found["both"].changes] == [
        "overlap limit 2",
        "Triton GEMMs off",
        "env:A 1",
    ]
    assert found["both"].acts is Acts.RUNTIME
    assert "pipelined all-gather" in [str(it) for it in found["more"].changes]
    assert found["more"].settings.flags[LIMIT] == "4"
    assert found["costs"].profile
    assert found["ranks"].per == "gpu"


def test_arms_that_differ_in_nothing_from_the_base_are_none() -> None:
    space = space_of(asked='[arms]\nsame = "--xla_gpu_enable_triton_gemm=true"')
    assert "the base" in why_out(space, "same")


def test_arms_that_come_to_the_same_are_one() -> None:
    arms = ("xla_gpu_enable_triton_gemm=false", "--xla_gpu_enable_triton_gemm=0", "env:NCCL_X=1")
    space = space_of(arms=arms)
    assert list(by_hand(space)) == ["--xla_gpu_enable_triton_gemm=false", "env:NCCL_X=1"]
    same = "equivalent to --xla_gpu_enable_triton_gemm=false"
    assert why_out(space, "--xla_gpu_enable_triton_gemm=0") == same
    assert why_out(space, "cublas-gemm") == same  # a recipe


def test_arms_of_the_command_line_are_read_as_candidates() -> None:
    space = space_of(arms=("--xla_gpu_enable_triton_gemm=false", "fsdp"))
    assert list(by_hand(space)) == ["--xla_gpu_enable_triton_gemm=false", "fsdp"]
    assert "your arms" in why_out(space, "fsdp")


@pytest.mark.parametrize(
    ("arm", "what", "next_"),
    [
        ("--xla_gpu_nonsense=1", "jaxlib 0.10.2 does not know xla_gpu_nonsense", "remove it"),
        (
            "xla_gpu_enable_triton_gem=false",
            "does not know xla_gpu_enable_triton_gem",
            "Did you mean xla_gpu_enable_triton_gemm",
        ),
        ("--xla_gpu_enable_triton_gemm=maybe", "does not accept xla_gpu_enable_triton_gemm=", ""),
    ],
)
def test_a_flag_of_the_command_line_that_does_not_exist_is_refused(
    arm: str, what: str, next_: str
) -> None:
    with pytest.raises(UsageError) as refused:
        space_of(arms=("NCCL_NVLS_ENABLE=0", arm))
    assert str(refused.value).startswith(f"--arm {arm}: ")
    assert what in str(refused.value)
    assert next_ in str(refused.value.next or "")
    # Before anything is lowered, too.
    with pytest.raises(UsageError, match="--arm"):
        refuse_wrong_names("0.10.2", None, None, (arm,))
    # Where nobody knows the release it is tried, with a word of warning.
    (made,) = space_of(version=None, arms=(arm,)).seeds[:1]
    assert made.origin is ArmOrigin.HAND
    assert any(
        it.startswith(f"--arm {arm}: jaxlib ") for it in space_of(version=None, arms=(arm,)).notes
    )


def test_a_sweep_by_hand_is_a_file_as_it_stands() -> None:
    sweep = {
        "nvls": "NCCL_NVLS_ENABLE=0",
        "combine": {"xla_flags": [f"--{GATHER}=536870912"], "env": {"NCCL_DEBUG": "WARN"}},
    }
    space = space_of(asked=json.dumps(sweep), file="sweep.json")
    assert list(by_hand(space)) == ["nvls", "combine"]
    as_list = [
        {"name": "nvls", "env": {"NCCL_NVLS_ENABLE": 0}},
        {"name": "x", "xla_flags": "--a=1"},
    ]
    parsed = parse_space(json.dumps(as_list), "sweep.json")
    assert [it.name for it in parsed.arms] == ["nvls", "x"]
    text = 'nvls = "NCCL_NVLS_ENABLE=0"\n[combine]\nenv = { NCCL_DEBUG = "WARN" }'
    assert [it.name for it in parse_space(text, "sweep.toml").arms] == ["nvls", "combine"]


def test_toml_and_json_say_the_same() -> None:
    toml = 'drop = ["PGLE"]\n[fix]\n"overlap limit" = 2\n[arms]\nx = "NCCL_BUFFSIZE=1"'
    same = {"drop": ["PGLE"], "fix": {"overlap limit": 2}, "arms": {"x": "NCCL_BUFFSIZE=1"}}
    one, other = space_of(asked=toml), space_of(asked=json.dumps(same), file="tune.json")
    assert one.base == other.base
    assert one.dimensions == other.dimensions
    assert one.seeds == other.seeds


WRONG = [
    ("drop = [", "not TOML", None),
    ('dorp = ["x"]', "unknown name `dorp`", "did you mean `drop`?"),
    ('drop = ["NCCL chanels"]', "tune.toml: drop: unknown name `NCCL chanels`", "`NCCL channels`"),
    ('drop = "x"', "neither a dimension nor a recipe; known names: all-gather threshold, ", None),
    ("drop = 3", "not a list of strings: 3", None),
    (
        '[fix]\n"overlap limt" = 2',
        "fix: unknown name `overlap limt`",
        "did you mean `overlap limit`?",
    ),
    ('[fix]\n"overlap limit" = 9', "unknown name `9`", None),
    ('[fix]\n"overlap limit" = []', "not a string: []", None),
    ("[fix]\nPGLE = true", "can't be part of the base", "drop"),
    ('[fix]\nNVLS = "off"\n[fix2]', "`fix2`", "`fix`"),
    ('[choices]\n"overlap limit" = [8]', "known names: 2, 4, 1", None),
    ('[choices]\n"all-gather threshold" = ["big"]', "`big` is not a size", "512 MiB"),
    ('[choices]\n"overlap limit" = []', "no choices", "drop"),
    ('[dimension.x]\nwhy = "y"', "dimension.x: no choices", "choices = {"),
    ("[dimension.x]\nchoices = {}", "no choices", None),
    ('[dimension.x]\nchoices = { on = "foo" }', "neither a flag nor a variable", "--xla_"),
    ("[dimension.x]\nchoices = { on = {} }", "no settings in it", None),
    ('[dimension.x]\nchoices = { on = "env:A=1" }\nacts = "both"', "schedule, runtime", None),
    (
        '[dimension.x]\nchoices = { on = "env:A=1" }\nkinds = ["allgather"]',
        "`allgather`",
        "all-gather",
    ),
    ('[dimension.x]\nchoices = { on = "env:A=1" }\nneeds = { PGEL = "on" }', "`PGEL`", "`PGLE`"),
    ('[dimension.x]\nchoices = { on = "env:A=1" }\nsince = "new"', "not a release of jaxlib", None),
    ('[dimension."a + b"]\nchoices = { on = "env:A=1" }', "not a valid name of a dimension", None),
    ('[dimension.x]\nchoice = { on = "env:A=1" }', "`choice`", "did you mean `choices`?"),
    ('[arms]\nbase = "A=1"', "reserved name", None),
    ('[arms]\nx = ""', "no settings given", None),
    ('[arms]\nx = "A=\'1"', "No closing quotation", None),
    ("x = { envv = { A = 1 } }", "x: unknown name `envv`", "did you mean `env`?"),
    ("[arms]\nx = { flags = 1 }", "`flags`", "did you mean `xla_flags`?"),
    ("[arms]\nx = { env = { A = { B = 1 } } }", "not a valid value", None),
    ('[arms]\nx = { env = { "A B" = 1 } }', "is not a valid name of a setting", None),
    ('[arms]\nx = { recipe = "fdsp" }', "`fdsp`", "did you mean `fsdp`?"),
    ('[arms]\nx = { per = "host" }', "known names: gpu, node", None),
    ('[arms]\nx = { xla_flags = "xla_gpu_enable_triton_gemm=1" }', "not a flag", "--xla_gpu"),
    (
        '[arms]\nx = "--xla_gpu_enable_triton_gem=false"',
        "jaxlib 0.10.2 does not know",
        "triton_gemm",
    ),
    ('[arms]\nx = "--xla_gpu_pipeline_all_gather=on"', "0.10.2 does not know", "0.11.1"),
    ('[arms]\nx = "--xla_gpu_enable_triton_gemm=maybe"', "does not accept", None),
    ('[dimension.x]\nchoices = { on = "--xla_foo=1" }', "x.choices.on: jaxlib 0.10.2", None),
    ('[fix]\n"overlap limit" = "--xla_foo=1"', "jaxlib 0.10.2 does not know xla_foo", None),
]


@pytest.mark.parametrize(("text", "told", "next_"), WRONG, ids=[it[0][:40] for it in WRONG])
def test_what_is_wrong_is_said_with_its_place_and_what_to_do(
    text: str, told: str, next_: str | None
) -> None:
    with pytest.raises(InputError) as caught:
        space_of(asked=text)
    said = str(caught.value)
    assert said.startswith("tune.toml: ")
    assert told in said
    assert next_ is None or next_ in str(caught.value.next or "")


def test_a_flag_is_only_doubted_where_the_release_is_not_known() -> None:
    asked = '[arms]\nx = "--xla_gpu_brand_new=1"'
    space = space_of(asked=asked, version="0.99.0")
    assert list(by_hand(space)) == ["x"]
    assert any("xla_gpu_brand_new" in it for it in space.notes)


def test_an_arm_that_is_likely_to_crash_is_tried_with_a_word_of_warning() -> None:
    base = Settings(env=(("XLA_PYTHON_CLIENT_MEM_FRACTION", "0.9"),))
    space = space_of(base, asked='[arms]\nx = "XLA_CLIENT_MEM_FRACTION=0.8"')
    assert list(by_hand(space)) == ["x"]
    assert any("ValueError" in it for it in space.notes)


def test_json_says_where_it_is_wrong() -> None:
    with pytest.raises(InputError, match="line 1, column 3"):
        parse_space("{ nvls }", "x.json")
    with pytest.raises(InputError, match="`a` occurs twice"):
        parse_space('{"a": "A=1", "a": "A=2"}', "x.json")
    with pytest.raises(InputError, match="`a` occurs twice"):
        parse_space('[{"name": "a", "env": {"A": 1}}, {"name": "a", "env": {"A": 2}}]', "x.json")


def test_files_that_can_not_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        read_space(tmp_path / "none.toml")
    with pytest.raises(InputError, match="can't be read"):
        read_space(tmp_path)
    (tmp_path / "x.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="not text"):
        read_space(tmp_path / "x.toml")
    (tmp_path / "tune.toml").write_text('drop = ["PGLE"]')
    assert read_space(tmp_path / "tune.toml").drop == ("PGLE",)


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
WORDS = st.sampled_from(
    [
        *(
            "fix",
            "drop",
            "only",
            "choices",
            "dimension",
            "arms",
            "xla_flags",
            "env",
            "recipe",
            "per",
        ),
        *("PGLE", "overlap limit", "all-gather threshold", "on", "2", "512 MiB", "fsdp", "name"),
        *("--xla_gpu_enable_triton_gemm=false", "NCCL_BUFFSIZE=1", "why", "acts", "kinds", "needs"),
    ]
)
DOCUMENTS = st.recursive(
    SCALARS | WORDS,
    lambda it: (
        st.lists(it, max_size=3) | st.dictionaries(WORDS | st.text(max_size=5), it, max_size=4)
    ),
    max_leaves=12,
)


@given(DOCUMENTS)
def test_whatever_a_file_says_ends_in_a_space_or_in_an_error_for_people(document: object) -> None:
    try:
        space = space_of(asked=json.dumps(document), file="any.json")
    except CounterpointError:
        return
    assert len({it.name for it in space.seeds}) == len(space.seeds)


@given(st.text(max_size=60))
def test_any_text_is_toml_or_an_error_for_people(text: str) -> None:
    with contextlib.suppress(CounterpointError):
        parse_space(text, "any.toml")


NAMES = st.text("abcdefghijklmnop -%", min_size=1, max_size=12).filter(lambda it: it == it.strip())
VALUES = st.booleans() | st.integers(-9, 9) | st.text("abcxyz,./=+ ", max_size=8)
VARIABLES = st.dictionaries(st.sampled_from(["MY_A", "MY_B", "MY_C"]), VALUES, min_size=1)


def written(env: dict[str, bool | int | str]) -> dict[str, str]:
    """As a process gets them; arms that come to the same are one."""
    return {key: str(it).lower() if isinstance(it, bool) else str(it) for key, it in env.items()}


@given(st.dictionaries(NAMES.filter(lambda it: it != "base"), VARIABLES, max_size=4))
def test_what_is_written_is_what_is_set(arms: dict[str, dict[str, bool | int | str]]) -> None:
    document = {"arms": {name: {"env": env} for name, env in arms.items()}}
    assume(len({frozenset(written(it).items()) for it in arms.values()}) == len(arms))
    found = by_hand(space_of(target=None, asked=json.dumps(document), file="x.json"))
    assert list(found) == list(arms)
    for name, env in arms.items():
        assert found[name].settings.variables == written(env)
