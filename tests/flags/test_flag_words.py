"""What a value of XLA_FLAGS is read as, held to the parser of the jaxlib that is here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from counterpoint.flags.check.examination import check
from counterpoint.flags.lint import Severity
from counterpoint.flags.parse.source import read_source, read_text, read_variables
from counterpoint.flags.parsed import IssueKind, ParsedSource
from counterpoint.flags.text import render_xla_flags

EN_DASH = "\N{EN DASH}"
Parser = Callable[[str], "dict[int, tuple[int | bytes, ...]] | None"]


def read(value: str) -> ParsedSource:
    return read_variables({"XLA_FLAGS": value}, "environment")


def fatal(value: str) -> list[str]:
    """Codes of the errors that say that the process ends, or that flags are not read."""
    remarks = check(read(value), version="0.10.2")
    return [one.code for one in remarks if one.severity is Severity.ERROR]


STOPS = (
    "--xla_dump_to=/tmp/a b --xla_gpu_nope",
    "--xla_dump_to=/tmp/a # c --xla_gpu_nope=1",
    "--xla_gpu_autotune_level=0 \\ --xla_gpu_nope",
    f"--xla_gpu_autotune_level=0 {EN_DASH}xla_x=0 --xla_gpu_autotune_level=1 --xla_nope",
    '--xla_dump_to=/tmp/a "--xla_gpu_autotune_level=0" --xla_nope',
    "--xla_dump_to=/tmp/a b --xla_gpu_cuda_data_dir='x",
    "--xla_dump_to='/tmp/a'b --xla_gpu_autotune_level=0",
)


@pytest.mark.parametrize("value", STOPS)
def test_what_stands_behind_a_stop_is_no_setting_as_for_xla(value: str, xla: Parser) -> None:
    taken = xla(value)
    assert taken is not None, "the process lives"
    assert taken == xla(render_xla_flags(read(value).settings.xla))


@pytest.mark.parametrize("value", STOPS)
def test_a_flag_behind_a_stop_is_lost_and_not_fatal(value: str) -> None:
    assert fatal(value) in (["FLAG206"], ["FLAG207"])


def test_the_flags_behind_a_stop_are_named() -> None:
    (one,) = check(read("--xla_dump_to=/a b --xla_gpu_nope --xla_x=1"), version="0.10.2")
    assert one.message.endswith("are lost (not read: --xla_gpu_nope, --xla_x)")


@pytest.mark.parametrize(
    "value",
    [
        "'\"--xla_gpu_enable_triton_gemm=false\"'",
        "xla_gpu_autotune_level=0",
        "foo --xla_gpu_autotune_level=0",
        f"{EN_DASH}xla_gpu_autotune_level=0",
        "# --xla_gpu_autotune_level=0",
    ],
)
def test_a_value_without_a_dash_in_front_is_the_name_of_a_file_to_xla(
    value: str, xla: Parser
) -> None:
    assert xla(value) is None, "the process ends"
    written = read(value)
    assert "file name" in written.issues[0].why
    assert not written.given
    assert fatal(value) in (["FLAG206"], ["FLAG207"])


@pytest.mark.parametrize(
    ("content", "read_first", "lost"),
    [
        ("# c\n--xla_gpu_nope=1\n", [], ["xla_gpu_nope"]),
        (
            "--xla_gpu_autotune_level=0\n# c --xla_gpu_nope=1\n",
            ["xla_gpu_autotune_level"],
            ["xla_gpu_nope"],
        ),
        ("xla_gpu_autotune_level=0\n--xla_gpu_nope=1\n", [], ["xla_gpu_nope"]),
        ("/no/such/other.flags\n", [], []),
    ],
)
def test_a_flag_file_is_read_up_to_the_first_word_that_is_no_flag(
    content: str, read_first: list[str], lost: list[str], tmp_path: Path, xla: Parser
) -> None:
    path = tmp_path / "h.flags"
    path.write_text(content)
    written = read(str(path))
    (issue,) = written.issues
    assert issue.kind is IssueKind.STRAY
    assert "are lost" in issue.why
    assert [one.name for one in written.given] == read_first
    assert [one.name for one in issue.lost] == lost
    taken = xla(str(path))
    assert taken is not None
    assert taken == xla(render_xla_flags(written.settings.xla))


def test_a_file_whose_name_looks_like_a_flag_is_read_as_xla_reads_it(
    tmp_path: Path, xla: Parser
) -> None:
    path = tmp_path / "xla_a=1 b"
    path.write_text("--xla_gpu_autotune_level=0\n")
    assert xla(str(path)) == xla("--xla_gpu_autotune_level=0")
    assert [one.name for one in read(str(path)).given] == ["xla_gpu_autotune_level"]


def test_comments_among_flags_are_told_since_xla_does_not_skip_them() -> None:
    text = "--xla_a=1\n# why\n--xla_b=2\n"
    shell, flags = read_text(text, "h.flags"), read_text(text, "h.flags", form="flags")
    assert [one.name for one in shell.given] == ["xla_a", "xla_b"]
    assert shell.notes[-1].startswith("line 2 is a comment")
    assert [one.name for one in flags.given] == ["xla_a"]
    assert not read_text("export XLA_FLAGS=--xla_a=1 # c\n", "job.sh").notes


def test_libtpu_and_compile_options_are_not_split_as_xla_flags_are() -> None:
    written = read_variables({"LIBTPU_INIT_ARGS": "--xla_a=1 oops --xla_b=2"}, "environment")
    assert [one.name for one in written.given] == ["xla_a", "xla_b"]


def test_what_is_lost_on_a_command_line_has_no_line() -> None:
    (issue,) = read_source("--xla_a=1 oops --xla_b=2").issues
    assert [one.place for one in issue.lost] == [issue.place]
