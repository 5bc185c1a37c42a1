"""Settings: merging, what a repeated flag means to XLA, and a run's environment."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoint.core.errors import UsageError
from counterpoint.flags.lines.line import parse_settings
from counterpoint.flags.settings import Settings, environment, inherited_settings
from counterpoint.flags.text import parse_xla_flags, render_xla_flags

Parser = Callable[[str], "dict[int, tuple[int | bytes, ...]] | None"]
PASSES_FIELD = 30
BUFFERS = "xla_gpu_enable_command_buffer"
PASSES = "xla_disable_hlo_passes"
SYNCHRONOUS = "xla_gpu_disable_async_collectives"


def test_the_other_has_the_last_word() -> None:
    first = Settings((("xla_a", "1"), ("xla_b", "2")), (("K", "x"), ("L", "y")))
    second = Settings((("xla_a", "3"),), (("K", "z"),))
    merged = first.merged(second)
    assert merged.flags == {"xla_b": "2", "xla_a": "3"}
    assert merged.variables == {"K": "z", "L": "y"}
    assert list(merged.flags) == ["xla_b", "xla_a"]  # order counts: two names may set one option


def test_disabled_passes_add_up_and_lists_of_names_replace() -> None:
    both = Settings(((PASSES, "a,b"), (PASSES, "c"), (SYNCHRONOUS, "x,y"), (SYNCHRONOUS, "z")))
    assert both.flags == {PASSES: "a,b,c", SYNCHRONOUS: "z"}


def test_changes_of_a_list_are_made_in_order() -> None:
    assert Settings(((BUFFERS, "FUSION"), (BUFFERS, "+CUBLAS,-FUSION"))).flags[BUFFERS] == "CUBLAS"
    changes = Settings(((BUFFERS, "-FUSION"), (BUFFERS, "+CUBLAS")))
    assert changes.flags[BUFFERS] == "-FUSION,+CUBLAS"  # of a default that only XLA knows


def test_maps_are_merged_key_by_key() -> None:
    name = "xla_gpu_analytical_latency_estimator_options"
    assert Settings(((name, "a=1,b=2"), (name, "a=3"))).flags[name] == "a=3,b=2"


def test_one_more_entry_leaves_the_users_entries() -> None:
    user = Settings(((PASSES, "rematerialization"),), (("K", "v"),))
    joined = user.joined(PASSES, "latency-hiding-scheduler")
    assert joined.flags[PASSES] == "rematerialization,latency-hiding-scheduler"
    assert joined.env == user.env
    assert joined.joined(PASSES, "latency-hiding-scheduler") == joined


def test_one_more_entry_says_again_what_is_inherited() -> None:
    inherited = Settings(((SYNCHRONOUS, "ALLREDUCE"),))
    joined = Settings().joined(SYNCHRONOUS, "ALLGATHER", under=inherited)
    assert joined.flags == {SYNCHRONOUS: "ALLREDUCE,ALLGATHER"}


def test_only_lists_can_be_joined() -> None:
    with pytest.raises(ValueError, match="not a list"):
        Settings().joined("xla_dump_to", "/a")


def test_xla_flags_do_not_hide_among_the_variables() -> None:
    with pytest.raises(ValueError, match="XLA_FLAGS"):
        Settings(env=(("XLA_FLAGS", "--a=1"),))


buffers = st.lists(
    st.sampled_from(["FUSION", "CUBLAS", "CUDNN", "CONDITIONAL"]), min_size=1, max_size=3
)
repeats = st.one_of(
    st.tuples(
        st.just(BUFFERS),
        st.one_of(
            st.lists(st.sampled_from(["FUSION", "CUBLAS", "CUDNN"]), unique=True).map(",".join),
            buffers.map(lambda names: ",".join(f"+{name}" for name in names)),
            buffers.map(lambda names: ",".join(f"-{name}" for name in names)),
        ),
    ),
    st.tuples(st.just(PASSES), st.sampled_from(["a", "b", "a,c", "d"])),
    st.tuples(st.just(SYNCHRONOUS), st.sampled_from(["ALLREDUCE", "ALLGATHER,ALLTOALL"])),
    st.tuples(st.just("xla_dump_to"), st.sampled_from(["/a", "/b c", ""])),
    st.tuples(st.just("xla_gpu_autotune_level"), st.sampled_from(["1", "3"])),
    st.tuples(st.just("xla_gpu_enable_triton_gemm"), st.sampled_from(["true", "false"])),
)


@given(pairs=st.lists(repeats, max_size=6))
def test_one_value_per_flag_is_what_xla_makes_of_many(
    xla: Parser, pairs: list[tuple[str, str]]
) -> None:
    whole = xla(render_xla_flags(pairs))
    folded = xla(render_xla_flags(Settings(tuple(pairs)).flags.items()))
    assert whole is not None
    assert folded is not None
    # The union names each disabled pass once, XLA as often as it was given.
    for options in (whole, folded):
        options[PASSES_FIELD] = tuple(dict.fromkeys(options.get(PASSES_FIELD, ())))
    assert whole == folded


def test_settings_from_the_command_line() -> None:
    made = parse_settings(
        ["--xla_a=1", "xla_b="], ["NCCL_DEBUG=INFO", "EMPTY=", "XLA_FLAGS=--xla_c='x y'"]
    )
    assert made.xla == (("xla_a", "1"), ("xla_b", ""), ("xla_c", "x y"))
    assert made.env == (("NCCL_DEBUG", "INFO"), ("EMPTY", ""))


@pytest.mark.parametrize(
    ("flag", "variable"),
    [("xla_a", None), ("=1", None), ("a b=1", None), (None, "K"), (None, "=v")],
)
def test_half_a_setting_is_refused(flag: str | None, variable: str | None) -> None:
    with pytest.raises(UsageError, match=r"not a (setting|variable)"):
        parse_settings([flag] if flag else [], [variable] if variable else [])


def test_ours_stand_behind_the_inherited_ones() -> None:
    child = environment(
        Settings((("xla_a", "2"), ("xla_d", "")), (("K", "v"),)),
        {"XLA_FLAGS": "--xla_a=1 --xla_b='x  y'\n", "HOME": "/h", "K": "old"},
    )
    assert child == {
        "XLA_FLAGS": "--xla_a=1 --xla_b='x  y' --xla_a=2 --xla_d=",
        "HOME": "/h",
        "K": "v",
    }


def test_flags_in_a_file_are_put_in_its_place(tmp_path: Path) -> None:
    (tmp_path / "flags").write_text("--xla_a=1\n--xla_b=2\n")
    child = environment(Settings((("xla_c", "3"),)), {"XLA_FLAGS": "flags"}, directory=tmp_path)
    assert parse_xla_flags(child["XLA_FLAGS"]) == (("xla_a", "1"), ("xla_b", "2"), ("xla_c", "3"))


@pytest.mark.parametrize("blank", [{}, {"XLA_FLAGS": ""}, {"XLA_FLAGS": "  "}])
def test_no_flags_leave_no_variable(blank: dict[str, str]) -> None:
    assert "XLA_FLAGS" not in environment(Settings(), blank)


def test_inherited_flags_that_would_hide_ours_are_an_error() -> None:
    with pytest.raises(UsageError, match="/x is"):
        environment(Settings((("xla_a", "1"),)), {"XLA_FLAGS": "--xla_zz_to /x"})


def test_inherited_flags_become_settings() -> None:
    assert inherited_settings({"XLA_FLAGS": "--xla_a=1", "K": "v"}) == Settings((("xla_a", "1"),))
