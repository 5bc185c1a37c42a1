"""Readers of settings: where each stands, and that what goes wrong in writing hides nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterpoint.core.errors import CounterpointError, InputError, UsageError
from counterpoint.flags.parse.form import FORMS
from counterpoint.flags.parse.source import (
    read_command,
    read_process,
    read_source,
    read_text,
    read_variables,
)
from counterpoint.flags.parsed import IssueKind, ParsedSource
from counterpoint.flags.settings import Channel
from flag_sources import flags, issue, kinds, lines

EN_DASH, EM_DASH = "\N{EN DASH}", "\N{EM DASH}"


@pytest.mark.parametrize(
    "text",
    [
        "--xla_a=1 --xla_b",
        "XLA_FLAGS=--xla_a=1 --xla_b",
        'XLA_FLAGS="--xla_a=1 --xla_b"',
        'export XLA_FLAGS="--xla_a=1 --xla_b"',
        "'--xla_a=1 --xla_b'",
        "--xla_a=1 \\\n  --xla_b",
        "\n  --xla_a=1\n\t--xla_b\n",
        'XLA_FLAGS="--xla_a=1 --xla_b" python train.py',
    ],
    ids=lambda text: " ".join(text.split()),
)
def test_flags_are_read_however_they_were_pasted(text: str) -> None:
    assert flags(read_source(text)) == [("xla_a", "1"), ("xla_b", "true")]


def test_flags_of_one_line_have_no_line_and_those_of_more_have_theirs() -> None:
    (one,) = read_source("--xla_a=1").given
    assert str(one.place) == "command line"
    more = read_source("--xla_a=1\n--xla_b=2")
    assert [str(it.place) for it in more.given] == ["command line:1", "command line:2"]


def test_a_flag_file_is_read_with_its_lines(tmp_path: Path) -> None:
    path = tmp_path / "flags.txt"
    path.write_text("--xla_a=1 --xla_b=2\n\n--xla_c='x y'\n")
    written = read_source(str(path))
    assert written.form == "flags"
    assert [(it.name, it.value, it.place.line) for it in written.given] == [
        ("xla_a", "1", 1),
        ("xla_b", "2", 1),
        ("xla_c", "x y", 3),
    ]


def test_a_value_is_kept_as_it_was_written_beside_what_it_means() -> None:
    (one,) = read_source("--xla_a='x y'").given
    assert (one.value, one.text) == ("x y", "--xla_a='x y'")
    (one,) = read_source("--xla_a").given
    assert (one.value, one.meant, one.text) == (None, "true", "--xla_a")


@pytest.mark.parametrize(
    ("text", "kind", "what", "suggestion"),
    [
        ("--xla_a=1 oops --xla_b=2", IssueKind.STRAY, "oops", None),
        ("--xla_a=1 xla_c=3 --xla_b=2", IssueKind.STRAY, "xla_c=3", "--xla_c=3"),
        ("--xla_a=1 two words --xla_b=2", IssueKind.STRAY, "two words", None),
        (f"--xla_a=1 {EN_DASH}xla_c=3 --xla_b=2", IssueKind.DASH, f"{EN_DASH}xla_c=3", "--xla_c=3"),
        (f"--xla_a=1 {EM_DASH}xla_c --xla_b=2", IssueKind.DASH, f"{EM_DASH}xla_c", "--xla_c"),
        ("--xla_a=1 -xla_c=3 --xla_b=2", IssueKind.SINGLE_DASH, "-xla_c=3", "--xla_c=3"),
        ("--xla_a=1 ---xla_c=3 --xla_b=2", IssueKind.SINGLE_DASH, "---xla_c=3", "--xla_c=3"),
        ("--xla_a=1 -- --xla_b=2", IssueKind.SINGLE_DASH, "--", None),
        ("--xla_a=1 '--xla_c=3' --xla_b=2", IssueKind.STRAY, "'--xla_c=3'", "--xla_c=3"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_xla_stumbles_over_is_an_issue_and_what_it_does_not_read_is_lost(
    text: str, kind: IssueKind, what: str, suggestion: str | None
) -> None:
    written = read_source(text)
    found = issue(written)
    lost = [(one.name, one.value) for one in found.lost]
    assert [*flags(written), *lost] == [("xla_a", "1"), ("xla_b", "2")]
    assert bool(lost) == (kind is not IssueKind.SINGLE_DASH)  # that one XLA ends at, reading all
    assert (found.kind, found.text, found.suggestion) == (kind, what, suggestion)


def test_a_text_that_starts_without_dashes_is_meant_as_a_flag_if_it_looks_like_one() -> None:
    found = issue(read_source("XLA_FLAGS=xla_gpu_autotune_level=0"))
    assert (found.kind, found.suggestion) == (IssueKind.STRAY, "--xla_gpu_autotune_level=0")


def test_a_variable_that_names_a_missing_file_is_an_issue() -> None:
    found = issue(read_variables({"XLA_FLAGS": "/no/such/flags.txt"}, "environment"))
    assert (found.kind, found.text) == (IssueKind.MISSING_FILE, "/no/such/flags.txt")
    assert "names a file" in found.why


def test_a_variable_that_names_a_file_has_its_flags_with_their_places(tmp_path: Path) -> None:
    (tmp_path / "flags.txt").write_text("--xla_a=1\n--xla_b=2\n")
    written = read_variables({"XLA_FLAGS": "flags.txt"}, "environment", directory=tmp_path)
    assert [str(it.place) for it in written.given] == [
        f"{tmp_path / 'flags.txt'}:1",
        f"{tmp_path / 'flags.txt'}:2",
    ]


def test_an_unclosed_quote_is_an_error_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "flags.txt"
    path.write_text("--xla_a='x\n--xla_b=2\n")
    with pytest.raises(UsageError, match="is not closed"):
        read_source(path)
    script = tmp_path / "job.sh"
    script.write_text('echo hello\nexport XLA_FLAGS="--xla_a=1\n')
    with pytest.raises(InputError, match=r"job\.sh:2: unclosed quote"):
        read_source(script)


@pytest.mark.parametrize("data", [b"\x7fELF\0\1\2", b"\xff\xfe-\0-\0", b"\x80\x81\x82" * 9])
def test_what_is_no_text_is_an_error(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "binary"
    path.write_bytes(data)
    with pytest.raises(InputError, match="binary: "):
        read_source(path)


def test_a_stray_byte_in_a_comment_is_no_reason_to_refuse_a_script(tmp_path: Path) -> None:
    path = tmp_path / "job.sh"
    path.write_bytes(
        b"# f\xfcr den Cluster, ein etwas l\xe4ngerer Kommentar\nexport XLA_FLAGS=--xla_a\n"
    )
    assert flags(read_source(path)) == [("xla_a", "true")]


@pytest.mark.parametrize("source", ["", "   "])
def test_a_source_that_is_nothing_is_refused(source: str) -> None:
    with pytest.raises(UsageError):
        read_source(source)


@pytest.mark.parametrize("source", ["no-such-recipe", "no/such/file.sh"])
def test_a_source_that_is_not_there_is_refused(source: str) -> None:
    with pytest.raises(InputError, match=f"^{source}: "):
        read_source(source)


def test_a_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a directory"):
        read_source(tmp_path)


def test_a_form_that_does_not_exist_is_refused() -> None:
    with pytest.raises(UsageError, match="the forms are"):
        read_source("--xla_a", form="cobol")


def test_the_environment_gives_what_belongs_to_training_only() -> None:
    written = read_variables(
        {
            "PATH": "/bin",
            "HOME": "/root",
            "XLA_FLAGS": "--xla_a=1",
            "NCCL_DEBUG": "INFO",
            "LIBTPU_INIT_ARGS": "--xla_tpu_x=1 --megascale_y=2",
            "TF_CLI_CONFIG_FILE": "terraform",
        },
        "environment",
    )
    assert [(it.channel, it.name, it.value) for it in written.given] == [
        (Channel.XLA_FLAGS, "xla_a", "1"),
        (Channel.ENVIRONMENT, "NCCL_DEBUG", "INFO"),
        (Channel.LIBTPU_INIT_ARGS, "xla_tpu_x", "1"),
        (Channel.LIBTPU_INIT_ARGS, "megascale_y", "2"),
    ]
    assert written.settings.variables["LIBTPU_INIT_ARGS"] == "--xla_tpu_x=1 --megascale_y=2"


def test_a_running_process_is_read_by_its_number() -> None:
    environment = {**os.environ, "XLA_FLAGS": "--xla_a=1", "NCCL_PROTO": "LL"}
    program = "print('started', flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", program],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()  # only now has the kernel set its environment for sure
            written = read_source(f"pid:{process.pid}")
        finally:
            process.communicate(b"\n")
    assert written.form == "process"
    assert flags(written) == [("xla_a", "1")]
    assert written.settings.variables["NCCL_PROTO"] == "LL"


def test_a_process_that_is_not_there_is_said_so() -> None:
    with pytest.raises(UsageError, match="pid:999999999: no such process"):
        read_process(999999999)


def test_a_command_adds_its_own_words_to_the_environment() -> None:
    inherited = {"XLA_FLAGS": "--xla_old=1", "NCCL_DEBUG": "WARN", "PATH": "/bin"}
    written = read_command(["env", "NCCL_DEBUG=INFO", "python", "train.py"], inherited)
    assert flags(written) == [("xla_old", "1")]
    assert written.settings.variables == {"NCCL_DEBUG": "INFO"}
    assert str(written.given[0].place) == "environment"


def test_a_command_whose_flags_replace_the_inherited_ones_is_an_issue() -> None:
    written = read_command(
        ["XLA_FLAGS=--xla_new=1", "python", "train.py"], {"XLA_FLAGS": "--xla_old=1"}
    )
    assert flags(written) == [("xla_new", "1")]
    assert issue(written).kind is IssueKind.OVERWRITTEN
    assert "inherited flags: --xla_old" in issue(written).why


def test_the_script_that_a_command_starts_is_read_too(tmp_path: Path) -> None:
    script = tmp_path / "train.sh"
    script.write_text('export XLA_FLAGS="$XLA_FLAGS --xla_new=1"\npython train.py\n')
    written = read_command(["bash", str(script)], {"XLA_FLAGS": "--xla_old=1"})
    assert flags(written) == [("xla_old", "1"), ("xla_new", "1")]
    assert [str(it.place) for it in written.given] == ["environment", f"{script}:1"]


def test_a_recipe_is_read_for_a_release() -> None:
    newest = read_source("pgle-recommended")
    assert newest.form == "recipe"
    assert newest.where == "recipe pgle-recommended"
    assert flags(newest)
    older = read_source("pgle-recommended", version="0.10.2")
    assert flags(older) != flags(newest)


def test_a_toml_file_is_read_with_its_lines(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('[xla_flags]\nxla_a = 1\n\n[env]\nNCCL_DEBUG = "WARN"\n')
    assert lines(read_source(path)) == [("xla_a", 2), ("NCCL_DEBUG", 5)]


def test_an_env_file_is_read_to_the_letter(tmp_path: Path) -> None:
    path = tmp_path / "job.env"
    path.write_text("# docker\nXLA_FLAGS=--xla_a=1 --xla_b='x y'\nNCCL_DEBUG=INFO\nnonsense\n")
    written = read_source(path)
    assert flags(written) == [("xla_a", "1"), ("xla_b", "x y")]
    assert lines(written) == [("xla_a", 2), ("xla_b", 2), ("NCCL_DEBUG", 3)]
    (note,) = written.notes
    assert note.startswith("line 4: ")
    assert note.endswith(": nonsense")


def test_any_other_text_is_searched_for_flags(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_text(
        "Set `--xla_gpu_enable_triton_gemm=false`, and --xla_gpu_autotune_level=0.\n"
        "| `--xla_tpu_scoped_vmem_limit_kib=98304` | TPUs |\n"
        "> export NCCL_DEBUG=INFO\n"
    )
    written = read_source(path)
    assert [(it.channel, it.name, it.value, it.place.line) for it in written.given] == [
        (Channel.ENVIRONMENT, "NCCL_DEBUG", "INFO", 3),
        (Channel.XLA_FLAGS, "xla_gpu_enable_triton_gemm", "false", 1),
        (Channel.XLA_FLAGS, "xla_gpu_autotune_level", "0", 1),
        (Channel.LIBTPU_INIT_ARGS, "xla_tpu_scoped_vmem_limit_kib", "98304", 2),
    ]
    assert "not interpreted" in written.notes[0]


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("--xla_a=1\n--xla_b=2\n", "flags"),
        ("# mine\n--xla_a=1\n", "shell"),
        ("#!/bin/bash\nsource x\n", "shell"),
        ("#!/usr/bin/env bash\n#SBATCH -N 2\nsrun x\n", "slurm"),
        ("export A=1\nimport foo\n", "shell"),
        ("import os\nos.environ['A'] = '1'\n", "python"),
        ("apiVersion: v1\nkind: Pod\n", "kubernetes"),
        ("---\nenv:\n- name: NCCL_DEBUG\n  value: INFO\n", "yaml"),
        ("XLA_FLAGS=--xla_a=1 --xla_b=2\nNCCL_DEBUG=INFO\n", "env"),
        ("[xla_flags]\nxla_a = 1\n", "toml"),
        ("Please set --xla_a=1 for this.\n", "text"),
    ],
    ids=lambda value: " ".join(value.split()),
)
def test_the_form_is_known_by_what_stands_in_a_text(text: str, form: str) -> None:
    assert read_text(text, "stdin").form == form


def test_a_form_can_be_forced() -> None:
    text = "export XLA_FLAGS=--xla_a=1"
    assert read_text(text, "stdin", form="text").form == "text"


@settings(max_examples=150)
@given(
    text=st.text(st.sampled_from("ax_=-'\"\\$(){}[]|&;<>#: \n\t\v`@,%!*?~0") | st.characters()),
    form=st.sampled_from(FORMS),
)
def test_no_text_makes_a_reader_fall_over(text: str, form: str) -> None:
    try:
        written = read_text(text, "any", form=form)
    except CounterpointError:
        return
    assert isinstance(written, ParsedSource)
    assert written.settings is not None
    assert kinds(written) is not None
