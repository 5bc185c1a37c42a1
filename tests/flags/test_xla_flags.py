"""XLA_FLAGS read as XLA reads it: each claim is put to jaxlib's own parser too."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoint.core.errors import InputError, UsageError
from counterpoint.flags.text import (
    expand_xla_flags,
    join_xla_flags,
    parse_xla_flags,
    render_xla_flags,
    split_xla_flags,
)

Parser = Callable[[str], "dict[int, tuple[int | bytes, ...]] | None"]
TEXTS = {"xla_dump_to": 109, "xla_dump_hlo_module_re": 110, "xla_dump_hlo_pass_re": 111}
"""Flags that are texts, with their field's number in DebugOptions."""


def test_spaces_tabs_and_line_ends_separate_flags() -> None:
    text = "\n --a=1\t--b=2\r\n--c=x=y "
    assert parse_xla_flags(text) == (("a", "1"), ("b", "2"), ("c", "x=y"))


def test_a_form_feed_belongs_to_a_value() -> None:
    assert parse_xla_flags("--a=1\f--b=2") == (("a", "1\f--b=2"),)


def test_a_flag_without_a_value_is_true() -> None:
    assert parse_xla_flags("--xla_gpu_enable_triton_gemm --a") == (
        ("xla_gpu_enable_triton_gemm", "true"),
        ("a", "true"),
    )


def test_a_flag_that_needs_a_value_is_told_so() -> None:
    with pytest.raises(UsageError, match="--xla_dump_to has"):
        parse_xla_flags("--xla_dump_to --xla_gpu_enable_triton_gemm")


@pytest.mark.parametrize("empty", ["--a=", "--a=''", '--a=""'])
def test_quoted_and_bare_empties_are_empty(empty: str) -> None:
    assert parse_xla_flags(f"{empty} --b=1") == (("a", ""), ("b", "1"))


def test_quotes_count_only_right_behind_the_equals_sign() -> None:
    assert parse_xla_flags("--a=x'y --b='x y'--c=\"p \\\"q\\\\\"") == (
        ("a", "x'y"),
        ("b", "x y"),
        ("c", 'p "q\\'),
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("--a=1 stray --b=2", r"stray is not"),
        ("xla_dump_to=/tmp", r"xla_dump_to=/tmp is not a flag"),
        ("--a='x y --b=2", r"quote after --a= is not closed"),
        ('--a="x\\"', r"quote after --a= is not closed"),
        ("-xla_a=1", r"-xla_a=1 is not a flag"),
        ("---xla_a=1", r"---xla_a=1 is not a flag"),
        ("--", r"-- is not a flag"),
        ("--=1", r"--=1 is not a flag"),
        ("--a=1 \N{EN DASH}xla_b=2", r"U\+2013"),
    ],
)
def test_what_xla_would_misread_is_one_clear_error(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as raised:
        parse_xla_flags(text, where="job.sh:3")
    assert raised.value.what.startswith("job.sh:3: ")
    assert raised.value.next


def test_a_name_of_a_file_stands_for_what_is_in_it(tmp_path: Path) -> None:
    (tmp_path / "flags=1").write_text("--a=1\n--b='2 3'\n")
    assert expand_xla_flags("flags=1", directory=tmp_path) == "--a=1\n--b='2 3'\n"
    assert expand_xla_flags(str(tmp_path / "flags=1")) == "--a=1\n--b='2 3'\n"
    assert expand_xla_flags(" --a=1") == " --a=1"
    assert expand_xla_flags(" \t") == ""


def test_files_that_xla_could_not_read_are_named(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\x7fELF\0\0\xff")
    for name, message in (("none", "No such file"), ("binary", "not text"), (".", "directory")):
        with pytest.raises(InputError, match=f"{name}.*{message}"):
            expand_xla_flags(str(tmp_path / name) if name != "." else f"{tmp_path}/.")


def test_flags_without_dashes_are_not_taken_for_a_file() -> None:
    with pytest.raises(UsageError, match="flags start with `--`"):
        expand_xla_flags("xla_gpu_autotune_level=3")
    with pytest.raises(UsageError, match="U\\+2013"):
        expand_xla_flags("\N{EN DASH}xla_gpu_autotune_level=3")


@pytest.mark.parametrize("value", ["# all --xla_a=1", "two words", '"--xla_a=1"'])
def test_a_value_that_names_no_file_is_refused_as_any_stray_word(value: str) -> None:
    with pytest.raises(UsageError, match="not a flag"):
        expand_xla_flags(value)


values = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
flag_names = st.from_regex(r"xla_[a-z0-9_]{1,20}", fullmatch=True).map(lambda name: f"{name}_zz")


@given(st.lists(st.tuples(flag_names, values)))
def test_what_is_written_is_read_back(pairs: list[tuple[str, str]]) -> None:
    assert parse_xla_flags(render_xla_flags(pairs)) == tuple(pairs)


@given(st.text(alphabet="-=ab_ '\"\\\n\t,"))
def test_every_text_is_read_or_refused_and_joins_again(text: str) -> None:
    try:
        words = split_xla_flags(text)
    except UsageError:
        return
    assert split_xla_flags(join_xla_flags(words)) == words


def test_a_zero_byte_can_not_be_written() -> None:
    with pytest.raises(UsageError, match="zero byte"):
        render_xla_flags([("a", "x\0y")])


fragments = st.lists(
    st.one_of(
        st.sampled_from([f"--{name}=" for name in TEXTS]),
        st.sampled_from([" ", "\n", "\t", "'", '"', "\\", "=", "-", "--", ",", "\f"]),
        st.text("ab/.*", min_size=1, max_size=3),
    ),
    max_size=12,
).map("".join)


@given(text=st.tuples(st.sampled_from([f"--{name}=" for name in TEXTS]), fragments).map("".join))
def test_xla_reads_a_text_as_we_do(xla: Parser, text: str) -> None:
    """What we accept, XLA reads as the same flags; an independent look at its options tells."""
    try:
        pairs = parse_xla_flags(text)
    except UsageError:
        return
    if any(name not in TEXTS for name, _ in pairs):
        assert xla(text) is None
        return
    told = xla(text)
    assert told is not None
    for name, value in dict(pairs).items():
        assert told.get(TEXTS[name], (b"",)) == (value.encode(),)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("--xla_dump_to=/a --xla_dump_to=/b", "/b"),
        ("--xla_dump_to='/a b'--xla_gpu_autotune_level=2", "/a b"),
        ('--xla_dump_to="/a\\"\\n b"', '/a"n b'),
        ("--xla_dump_to=/ä'b", "/ä'b"),
        ("\n--xla_dump_to=/a\r\n", "/a"),
    ],
)
def test_xla_takes_these_values(xla: Parser, text: str, value: str) -> None:
    assert dict(parse_xla_flags(text))["xla_dump_to"] == value
    told = xla(text)
    assert told
    assert told[TEXTS["xla_dump_to"]] == (value.encode(),)


@pytest.mark.parametrize(
    "text",
    ["-xla_dump_to=/a", "---xla_dump_to=/a", "--", "\N{EN DASH}xla_dump_to=/a", "--xla_dump_to"],
)
def test_xla_refuses_what_we_refuse(xla: Parser, text: str) -> None:
    assert xla(text) is None
    with pytest.raises((UsageError, InputError)):
        parse_xla_flags(text)


def test_xla_loses_what_stands_behind_a_stray_word(xla: Parser) -> None:
    """Why a stray word is an error here: XLA accepts it, and all behind it is gone."""
    assert xla("--xla_dump_to=/a stray --xla_no_such_flag") == xla("--xla_dump_to=/a")
