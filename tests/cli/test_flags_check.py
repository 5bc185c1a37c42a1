"""`counterpoint flags check` and `explain-code`: sources, exit codes, mends, and what they load."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from command_line import in_process
from counterpoint.cli.app import main
from counterpoint.cli.explain_code import RULES
from counterpoint.core.rules import SECTIONS
from counterpoint.flags.check.examination import CheckRequest, Confirmation, examine
from counterpoint.flags.parse.form import FORMS
from counterpoint.flags.parsed import Location, Occurrence, ParsedSource
from counterpoint.flags.settings import Channel
from counterpoint.report.flags.check_document import summary_lines
from golden_files import Golden
from transcripts import Transcript, next_command

Captured = pytest.CaptureFixture[str]
needs_jaxlib = pytest.mark.skipif(
    importlib.util.find_spec("jaxlib") is None, reason="jaxlib is not here"
)


def checked(*words: str | Path) -> int:
    return main(["flags", "check", *map(str, words)])


@pytest.fixture
def job(tmp_path: Path) -> Path:
    path = tmp_path / "job.sh"
    path.write_text(
        'export XLA_FLAGS="--xla_gpu_graph_level=0 \\\n  --xla_gpu_pgle_accuracy_checker=error"\n'
        "export NCCL_DEBUG=INFO\n"
    )
    return path


def test_each_remark_is_one_line_with_its_place(job: Path, capsys: Captured) -> None:
    assert checked(job, "--jaxlib", "0.10.2", "--no-probe", "--select", "FLAG1,FLAG2") == 1
    said = capsys.readouterr()
    first, second = said.out.splitlines()
    assert first.startswith(f"{job}:1: FLAG102 error: --xla_gpu_graph_level: removed: ")
    assert first.endswith("; write --xla_gpu_enable_command_buffer=")
    assert second.startswith(f"{job}:2: FLAG202 error: --xla_gpu_pgle_accuracy_checker: ")
    assert "2 errors on 3 settings" in said.err
    words = ["flags", "check", str(job), "--jaxlib", "0.10.2", "--fix"]
    assert next_command(said.err) == words


def test_warnings_alone_are_no_failure(capsys: Captured) -> None:
    assert checked("--xla_gpu_enable_cudnn_fmha=true", "--jaxlib=0.10.2", "--no-probe") == 0
    said = capsys.readouterr()
    assert " FLAG106 warning: " in said.out
    assert "exit code 0" in said.err


@needs_jaxlib
def test_the_compiler_confirms_what_is_good(capsys: Captured) -> None:
    assert checked("--xla_gpu_autotune_level=4 --xla_gpu_triton_gemm_any=false") == 0
    assert re.search("checked 2 flags: .* XLA starts\n", capsys.readouterr().err)


@pytest.mark.smoke
@needs_jaxlib
def test_what_only_the_compiler_refuses_is_its_own_remark(capsys: Captured) -> None:
    assert checked("--xla_fuel=abc --xla_gpu_autotune_level=4") == 1
    said = capsys.readouterr()
    assert "FLAG199 error: --xla_fuel: " in said.out
    assert "1 rejected" in said.err


def test_an_interpreter_without_jaxlib_is_told_from_none(tmp_path: Path, capsys: Captured) -> None:
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.write_text("#!/bin/sh\n")
    python.chmod(0o755)
    assert checked("--xla_gpu_autotune_level=4", "--python", python) == 0
    assert f"{python} has no jaxlib" in capsys.readouterr().err


def test_another_release_than_that_of_the_interpreter_is_not_asked(capsys: Captured) -> None:
    assert checked("--xla_gpu_autotune_level=4", "--jaxlib", "0.6.2") == 0
    assert " XLA starts" not in capsys.readouterr().err


@pytest.mark.parametrize(
    "chip",
    [
        *("H100", "A100", "A100-80GB", "NVIDIA A100-SXM4-40GB", "gb200", "B300", "MI300X", "L40S"),
        *("RTX 4090", "RTX 6000 Ada", "V100", "TPU v5p", "TPU7x", "v5p"),
    ],
)
def test_chips_are_known_as_their_vendors_name_them(chip: str) -> None:
    assert checked("--xla_gpu_autotune_level=3", "--no-probe", "--chip", chip) == 0


def test_a_chip_is_known_in_small_letters(capsys: Captured) -> None:
    assert checked("--xla_gpu_autotune_level=3", "--no-probe", "--chip", "h100") == 0
    assert "on H100" in capsys.readouterr().err
    assert checked("--xla_gpu_autotune_level=3", "--no-probe", "--chip", "v4") == 0
    assert "TPU v4" in capsys.readouterr().out


def test_alike_remarks_are_one_line_and_each_by_itself_in_json(
    tmp_path: Path, capsys: Captured
) -> None:
    path = tmp_path / "job.sh"
    flags = [f"--xla_tpu_option_{letter}=true" for letter in "abcdef"]
    path.write_text('export XLA_FLAGS="' + " \\\n  ".join(flags) + '"\n')
    assert checked(path, "--no-probe", "--jaxlib", "0.10.2") == 1
    said = capsys.readouterr()
    (line,) = said.out.splitlines()
    assert "FLAG107 error: --xla_tpu_option_a, " in line
    assert "--xla_tpu_option_f (to line 6): libtpu reads this" in line
    assert "6 errors on 6 settings" in said.err
    assert checked(path, "--no-probe", "--jaxlib", "0.10.2", "--json") == 1
    assert len(json.loads(capsys.readouterr().out)["remarks"]) == len(flags)


def test_the_same_note_on_several_flags_is_said_once(capsys: Captured) -> None:
    kinds = ("all_gather", "all_reduce", "reduce_scatter")
    flags = [f"--xla_gpu_{kind}_combine_threshold_bytes=16777216" for kind in kinds]
    assert checked(" ".join(flags), "--no-probe", "--jaxlib", "0.10.2") == 0
    assert capsys.readouterr().out.count("FLAG304") == 1


def test_a_source_without_settings_is_not_called_clean(tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "job.sh"
    path.write_text("echo hello\n")
    assert checked(path, "--no-probe") == 0
    said = capsys.readouterr().err
    assert said.startswith("warning: ")
    assert str(path) in said.splitlines()[0]
    assert "no remarks" not in said


@pytest.mark.parametrize(
    ("name", "content", "named"),
    [
        ("options.json", '{"xla_gpu_graph_level": 0}\n', "xla_gpu_graph_level"),
        ("job.fish", "set -x NCCL_DEBUG INFO\n", "NCCL_DEBUG"),
    ],
    ids=["json", "fish"],
)
def test_settings_that_are_named_and_not_read_are_an_error(
    name: str, content: str, named: str, tmp_path: Path, capsys: Captured
) -> None:
    path = tmp_path / name
    path.write_text(content)
    assert checked(path, "--no-probe") == 3
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert f"not read: {named}" in said


def test_names_in_comments_and_enums_are_no_settings(tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "nccl.py"
    path.write_text("# export XLA_FLAGS=--xla_gpu_x=1\nNCCL_INT8 = 0\n")
    assert checked(path, "--no-probe") == 0
    assert "no settings found" in capsys.readouterr().err


def test_where_parts_were_not_read_nothing_is_promised() -> None:
    flag = Occurrence(
        channel=Channel.XLA_FLAGS,
        name="xla_gpu_autotune_level",
        value="4",
        place=Location("job.sh", 1),
        text="--xla_gpu_autotune_level=4",
    )
    whole = ParsedSource(where="job.sh", form="shell", given=(flag,))
    part = replace(whole, unread=("line 3: the function f",))
    asked = Confirmation(remarks=(), version="0.10.2", asked=1)
    whole_said, part_said = (
        "\n".join(summary_lines(replace(examine(one, CheckRequest()), confirmation=asked), ""))
        for one in (whole, part)
    )
    assert "XLA starts\n" in f"{whole_said}\n"
    assert "XLA starts\n" not in f"{part_said}\n"
    assert "not read: line 3: the function f" in part_said


def test_help_names_every_form(capsys: Captured) -> None:
    assert main(["flags", "check", "--help"]) == 0
    text = " ".join(capsys.readouterr().out.replace("│", " ").split())
    told = text[text.index("The form of the source") :].partition(".")[0]
    assert set(FORMS) <= set(told.replace(",", " ").split())


def test_everything_is_there_as_json(job: Path, capsys: Captured) -> None:
    assert checked(job, "--json", "--no-probe", "--jaxlib", "0.10.2", "--chip", "H100") == 1
    told = json.loads(capsys.readouterr().out)
    assert told["schema"] == "counterpoint.flags.check/1"
    assert told["jaxlib"] == {"asked": "0.10.2", "table": "0.10.2"}
    assert told["compiler"]["asked"] is False
    assert told["remarks"][0]["mend"] == {
        "instead": [["xla_gpu_enable_command_buffer", ""]],
        "safe": True,
    }


def test_each_setting_is_listed_as_json(tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "job.sh"
    path.write_text(
        "setup() {\n  export NCCL_DEBUG=${NCCL_DEBUG:-INFO}\n}\n"
        'export XLA_FLAGS="--xla_dump_to=$OUT --xla_gpu_autotune_level=0"\n'
    )
    assert checked(path, "--json", "--no-probe", "--jaxlib", "0.10.2") == 0
    listed = json.loads(capsys.readouterr().out)["settings"]
    assert [tuple(one.values()) for one in listed] == [
        ("NCCL_DEBUG", "NCCL_DEBUG", "INFO", 2, "default", True),
        ("XLA_FLAGS", "xla_dump_to", None, 4, "computed", False),
        ("XLA_FLAGS", "xla_gpu_autotune_level", "0", 4, "literal", False),
    ]


@pytest.mark.parametrize(
    ("content", "code", "said"),
    [
        (b"\x7fELF\x02\0\0", 3, "not a text file"),
        (b'export XLA_FLAGS="--xla_a=1\n', 3, "unclosed quote"),
        (b"export XLA_FLAGS=/no/such/flags\n", 3, "--allow /no/such includes it"),
        (b"export XLA_FLAGS=--xla_tpu_x=1\n", 1, "FLAG107 error: --xla_tpu_x: libtpu reads"),
        (b"export LIBTPU_INIT_ARGS=--xla_gpu_x=1\n", 1, "FLAG107 error: --xla_gpu_x: "),
        (b"export XLA_FLAGS=--xla_dump_to=$(mktemp -d)\n", 0, "1 setting known only"),
        (b"export XLA_FLAGS=--xla_gpu_autotune_level=$(level)\n", 0, "1 setting known only"),
    ],
    ids=["binary", "quote", "file", "vendor", "libtpu", "path", "shell"],
)
def test_bad_input_is_one_clear_line(
    tmp_path: Path, capsys: Captured, content: bytes, code: int, said: str
) -> None:
    path = tmp_path / "job.sh"
    path.write_bytes(content)
    assert checked(path, "--jaxlib", "0.10.2", "--no-probe") == code
    captured = capsys.readouterr()
    assert sum(said in line for line in (captured.out + captured.err).splitlines()) == 1


def test_what_it_says(golden: Golden, tmp_path: Path) -> None:
    """Of settings without any compiler, and of command lines that are none."""
    job = tmp_path / "job.sh"
    job.write_text(
        'export XLA_FLAGS="--xla_gpu_graph_level=0 \\\n  --xla_gpu_pgle_accuracy_checker=error"\n'
        "export NCCL_DEBUG=INFO\n"
    )
    (tmp_path / "nothing.sh").write_text("echo hello\n")
    (tmp_path / "options.json").write_text('{"xla_gpu_graph_level": 0}\n')
    (tmp_path / "binary.sh").write_bytes(b"\x7fELF\x02\0\0")
    (tmp_path / "quote.sh").write_text('export XLA_FLAGS="--xla_a=1\n')
    (tmp_path / "file.sh").write_text("export XLA_FLAGS=/no/such/flags\n")
    (tmp_path / "shell.sh").write_text("export XLA_FLAGS=--xla_dump_to=$(mktemp -d)\n")
    (tmp_path / "two.sh").write_text(
        "XLA_FLAGS=--xla_no=1 python a.py\nXLA_FLAGS=--xla_dump_to=/a python b.py\n"
    )
    told = Transcript(tmp_path)
    for code, *words in (
        (1, "job.sh"),
        (0, "job.sh", "--fix"),
        (0, "--xla_gpu_enable_cudnn_fmha=true"),
        (0, "--xla_gpu_autotune_level=3", "--chip", "v4"),
        (1, "--xla_tpu_x=1 --xla_tpu_y=1"),
        (0, "nothing.sh"),
        (0, "shell.sh"),
        (0, "two.sh", "--fix"),
        (3, "options.json"),
        (3, "binary.sh"),
        (3, "quote.sh"),
        (3, "file.sh"),
        (3, "no-such-file"),
        (3, "."),
        (2,),
        (2, "a", "--env"),
        (2, "--env", "--select", "FLAG9"),
        (2, "--env", "--target", "8xCray"),
        (2, "--env", "--chip", "H1000"),
        (2, "--env", "--chip", "H100", "--target", "8xA100"),
        (2, "--env", "-o", "x"),
        (2, "a", "--bogus"),
        (2, "job.sh", "--fix", "-o", "job.sh", "--force"),
        (2, "job.sh", "--fix", "-o", "nothing.sh"),
    ):
        told.run("flags", "check", *words, "--no-probe", "--jaxlib", "0.10.2", code=code)
    golden("flags_check.txt", told.text)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "no settings were given"),
        (["a", "--env"], "more than one source"),
        (["--env", "--select", "FLAG9"], "no such code"),
        (["--env", "--target", "8xCray"], "Cray"),
        (["--env", "--jaxlib", "banana"], "--jaxlib banana: not a release"),
        (["--env", "--chip", "H1000"], "--chip H1000: unknown chip"),
        (["--env", "--chip", "H10"], "--chip H10: unknown chip"),
        (["--env", "--chip", "A10000"], "--chip A10000: unknown chip"),
        (["--env", "--chip", "v9"], "--chip v9: unknown chip"),
        (["--env", "--chip", "H100", "--target", "8xA100"], "both specify the chip"),
        (["--env", "-o", "x"], "-o requires --fix"),
        (["a", "--bogus"], "Unknown option"),
        (["--env", "--jaxlib"], "--jaxlib"),
    ],
    ids=str,
)
def test_a_wrong_command_line_is_told(words: list[str], said: str, capsys: Captured) -> None:
    assert checked(*words) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["no-such-file"], "neither a file nor a recipe"),
        (["."], "a directory, but not a Run"),
        (["--env", "--python", "/no/such/python"], "no such program"),
    ],
)
def test_a_missing_file_has_its_own_exit_code(
    words: list[str], error: str, capsys: Captured
) -> None:
    assert checked(*words) == 3
    assert error in capsys.readouterr().err


def test_a_command_is_checked_as_it_would_be_started(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setenv("XLA_FLAGS", "--xla_gpu_graph_level=0")
    assert checked("--no-probe", "--jaxlib=0.10.2", "--", "NCCL_DEBUG=INFO", "./train") == 1
    assert "FLAG102" in capsys.readouterr().out
    assert checked("--no-probe", "--jaxlib=0.10.2", "--", "XLA_FLAGS=", "./train") == 0
    assert checked("--no-probe", "--jaxlib=0.10.2", "--env") == 1


def test_a_command_may_name_its_program_by_a_path(
    job: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    """As the Python of a virtual environment, or a script with arguments."""
    monkeypatch.setenv("XLA_FLAGS", "--xla_gpu_graph_level=0")
    options = ("--no-probe", "--jaxlib=0.10.2")
    assert checked(*options, "--", sys.executable, "train.py") == 1
    assert "FLAG102" in capsys.readouterr().out
    job.write_text(f"#!/bin/sh\n{job.read_text()}")
    assert checked(*options, "--", job, "--lr", "3") == 2  # a source, and more
    job.chmod(0o755)
    assert checked(*options, "--", job, "--lr", "3") == 1
    capsys.readouterr()
    assert checked(*options, job, job) == 2
    assert "more than one source" in capsys.readouterr().err


def test_a_code_is_explained(capsys: Captured) -> None:
    assert main(["explain-code", "flag102"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("FLAG102 removed-flag (since 0.1)\n")
    assert all(f"\n{heading}\n---" in text for heading in SECTIONS)
    assert "```" not in text


def test_all_codes_are_listed_and_an_unknown_one_has_near_ones(capsys: Captured) -> None:
    assert main(["explain-code"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(RULES)
    assert main(["explain-code", "FLAG12"]) == 2
    assert "FLAG102" in capsys.readouterr().err
    assert main(["explain-code", "given-twice", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [rule["code"] for rule in told["rules"]] == ["FLAG205"]


@pytest.mark.parametrize("name", ["/etc/profile.d/nccl.sh", "more.sh", "venv/bin/activate"])
@needs_jaxlib
def test_a_script_that_sources_others_is_not_said_to_start(
    name: str, tmp_path: Path, capsys: Captured
) -> None:
    path = tmp_path / "job.sh"
    path.write_text(f". {name}\nexport XLA_FLAGS=--xla_gpu_autotune_level=3\n")
    assert checked(path, "--python", sys.executable) == 0
    said = capsys.readouterr().err
    assert f"not read: line 1: . {name}\n" in said
    assert re.search("XLA starts with .*; 1 part ", said)


def test_variables_that_a_manifest_takes_from_elsewhere_are_listed(
    tmp_path: Path, capsys: Captured
) -> None:
    path = tmp_path / "compose.yaml"
    path.write_text("env_file: prod.env\nenvironment:\n  NCCL_DEBUG: INFO\nenvFrom:\n- a: b\n")
    assert checked(path, "--no-probe") == 0
    said = capsys.readouterr().err
    assert "not read: prod.env (line 1)\n" in said
    assert "not read: envFrom (line 5)\n" in said


def test_prose_that_looks_like_a_script_is_offered_as_text(tmp_path: Path) -> None:
    (tmp_path / "page.txt").write_text("export JAX_X=1 sets it\nThese don't seem useful.\n")
    told = in_process("flags", "check", "page.txt", "--no-probe", cwd=tmp_path)
    assert "page.txt:2: unclosed quote" in told.stderr
    assert "next: use --form text" in told.stderr


def test_options_of_a_trainer_in_a_text_are_read(tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "page.txt"
    path.write_text(
        "Add `--trainer.profiler true` and\n`--trainer.profilr_num_steps 3`.\n"
        "| `--trainer.profiler_start_step` | the first step |\n"
    )
    assert checked(path, "--no-probe") == 1
    said = capsys.readouterr()
    assert [line.split(": ")[1] for line in said.out.splitlines()] == ["FLAG507 error"]
    assert "on 2 settings" in said.err


@pytest.mark.parametrize(
    ("setting", "advice"),
    [
        ("NCCL_DEBUG=INFOO", "write INFO"),
        ("XLA_PYTHON_CLIENT_ALLOCATOR=platfrom", "write platform"),
    ],
)
def test_a_misspelled_value_has_the_word_that_is_meant(
    setting: str, advice: str, capsys: Captured
) -> None:
    checked(setting, "--no-probe")
    assert capsys.readouterr().out.strip().endswith(advice)
