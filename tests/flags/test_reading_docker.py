"""Dockerfiles as sources: what a program in the image of the last stage finds."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterpoint.core.errors import CounterpointError
from counterpoint.flags.parse.source import read_text
from counterpoint.flags.parsed import IssueKind, ParsedSource
from flag_sources import flags, issue, kinds, lines


def image(*text: str) -> ParsedSource:
    return read_text("\n".join([*text, ""]), "Dockerfile")


def test_each_variable_of_a_long_instruction_has_its_line() -> None:
    written = image(
        "FROM nvidia/cuda",
        '# ENV XLA_FLAGS="--xla_commented=1"',
        'ENV XLA_FLAGS="--xla_a=1 \\',
        "# a comment in between",
        "",
        '      --xla_b=2" \\',
        "    NCCL_DEBUG=INFO\\",
        "    NCCL_PROTO='LL'",
        'CMD ["python", "x.py"]',
    )
    assert written.form == "docker"
    assert lines(written) == [("xla_a", 3), ("xla_b", 6), ("NCCL_DEBUG", 7), ("NCCL_PROTO", 8)]
    assert not written.notes


def test_arguments_of_the_build_are_put_in_and_are_not_in_the_environment() -> None:
    written = image(
        "ARG LEVEL=3",
        "FROM cuda",
        "ARG LEVEL",
        "ARG NCCL_ALGO=Ring",
        "ARG GIVEN",
        "ENV XLA_FLAGS=--xla_a=$LEVEL",
        'ENV XLA_FLAGS="${XLA_FLAGS} --xla_b=${GIVEN} --xla_c=${UNSET:-x}"',
    )
    assert flags(written) == [("xla_a", "3"), ("xla_b", "${GIVEN}"), ("xla_c", "x")]
    assert kinds(written) == [IssueKind.UNKNOWABLE]
    assert not written.settings.env


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("ENV NCCL_A=2 NCCL_B=$NCCL_A", {"NCCL_A": "2", "NCCL_B": "1"}),
        ("ENV NCCL_C=b;c", {"NCCL_A": "1", "NCCL_C": "b;c"}),
    ],
)
def test_an_instruction_sets_all_at_once_and_has_no_operators(
    line: str, wanted: dict[str, str]
) -> None:
    written = image("FROM x", "ENV NCCL_A=1", "ENV NCCL_D a  b", line)
    assert written.settings.variables == {"NCCL_D": "a  b", **wanted}
    assert not written.unread


def test_all_stages_are_read_as_one_image() -> None:
    written = image(
        "FROM cuda AS base",
        "ENV NCCL_DEBUG=INFO",
        "FROM --platform=linux/amd64 Base",
        "ENV XLA_FLAGS=--xla_a=1",
    )
    assert lines(written) == [("NCCL_DEBUG", 2), ("xla_a", 4)]
    assert [note.partition(":")[0] for note in written.notes] == ["line 3"]


def test_an_instruction_that_throws_the_flags_of_another_away_is_an_issue() -> None:
    found = issue(image("FROM x", "ENV XLA_FLAGS=--xla_a=1", "ENV XLA_FLAGS=--xla_b=1"))
    assert (found.kind, found.place.line) == (IssueKind.OVERWRITTEN, 3)


def test_what_run_exports_is_gone_and_what_cmd_sets_is_read() -> None:
    written = image(
        "FROM x",
        "RUN export XLA_FLAGS=--xla_run=1",
        "RUN <<EOF bash",
        "ENV NCCL_DEBUG=INFO",
        "EOF",
        "ENV XLA_FLAGS=--xla_a=1",
        'CMD ["bash", "-c", "NCCL_ALGO=Ring python x.py"]',
    )
    assert flags(written) == [("xla_a", "1")]
    assert written.settings.variables == {"NCCL_ALGO": "Ring"}
    assert not written.unread
    assert [note.partition(" sets")[0] for note in written.notes[:2]] == [
        "line 2: what RUN",
        "line 3: what RUN",
    ]


def test_an_open_quote_is_an_error_with_its_line() -> None:
    with pytest.raises(CounterpointError, match="Dockerfile:2: unclosed quote"):
        image("FROM x", 'ENV NCCL_A="1', "ENV XLA_FLAGS=--xla_a=1")


@pytest.mark.parametrize(
    ("name", "text", "form"),
    [
        ("Dockerfile", "", "docker"),
        ("Dockerfile.jax", "FROM x\n", "docker"),
        ("train.dockerfile", "FROM x\n", "docker"),
        ("stdin", "# mine\nARG A=1\nFROM x AS y\nENV A=1\n", "docker"),
        ("dockerfile.md", "FROM x\n", "markdown"),
        ("a.env", "XLA_FLAGS=--xla_a=1\nNCCL_DEBUG=INFO\n", "env"),
        ("a.env", "set -x\nexport XLA_FLAGS=--xla_a=1\n", "shell"),
        ("a.env", 'XLA_FLAGS="--xla_a=1 \\\n --xla_b=2"\n', "shell"),
        ("a.env", 'XLA_FLAGS="--xla_a=1\n --xla_b=2"\n', "shell"),
    ],
)
def test_dockerfiles_and_env_files_for_a_shell_are_known(name: str, text: str, form: str) -> None:
    assert read_text(text, name).form == form


WORDS = (
    *("FROM x", " AS y", "\n", "ENV ", "ARG ", "RUN ", "CMD ", "A=", "XLA_FLAGS=", "--xla_a=1"),
    *('"', "'", "\\", "\\\n", "#", "$A", "${A:-", "}", "<<E", "E\n", "[", "]", ";", " ", "A"),
)


@settings(max_examples=200)
@given(st.lists(st.sampled_from(WORDS), max_size=12).map("".join))
def test_no_dockerfile_makes_the_reader_fall_over(text: str) -> None:
    try:
        read_text(text, "Dockerfile")
    except CounterpointError as failure:
        assert "unclosed" in failure.what  # noqa: PT017


@pytest.mark.parametrize(
    ("value", "meant"),
    [
        ('"--xla_a=1 --xla_b=2"', "--xla_a=1 --xla_b=2"),
        ("'--xla_a=1' --xla_b=2", "--xla_a=1 --xla_b=2"),
        ("--xla_a=(1;2)", "--xla_a=(1;2)"),
        ('"--xla_a=$LEVEL"', "--xla_a=3"),
        ("--xla_a=1 \\\n  --xla_b=2", "--xla_a=1   --xla_b=2"),
    ],
)
def test_a_value_behind_a_blank_goes_to_the_end_of_the_line(value: str, meant: str) -> None:
    written = image("FROM x", "ENV LEVEL 3", f"ENV NCCL_X {value}")
    assert written.settings.variables["NCCL_X"] == meant
    assert not written.unread


def test_an_unbalanced_quote_is_not_read() -> None:
    assert image("FROM x", 'ENV XLA_FLAGS "--xla_a=1').unread == (
        'line 2: ENV XLA_FLAGS "--xla_a=1',
    )


@pytest.mark.parametrize(
    "command",
    [
        'CMD ["nsys", "profile", "python", "x.py", "--trainer.profilr_num_steps", "3"]',
        'CMD ["bash", "-c", "nsys profile python x.py --trainer.profilr_num_steps=3"]',
        "ENTRYPOINT nsys profile python x.py \\\n  --trainer.profilr_num_steps 3",
    ],
)
def test_a_command_is_read_for_its_profiler_and_its_options(command: str) -> None:
    written = read_text(f"FROM x\nENV NCCL_DEBUG=INFO\n{command}\n", "Dockerfile")
    assert written.nsys
    assert [(one.name, one.value) for one in written.given] == [
        ("NCCL_DEBUG", "INFO"),
        ("trainer.profilr_num_steps", "3"),
    ]
