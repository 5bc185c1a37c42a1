"""`counterpoint flags render`: sources in, forms out."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from counterpoint.cli.app import main
from counterpoint.flags.parse.source import read_source
from golden_files import Golden
from transcripts import Transcript

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*arguments: str | Path) -> tuple[int, str, str]:
        code = main(["flags", "render", *map(str, arguments)])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


@pytest.fixture
def job(tmp_path: Path) -> Path:
    path = tmp_path / "job.sh"
    path.write_text(
        "#SBATCH -N 2 --ntasks-per-node=8\n"
        'export XLA_FLAGS="--xla_a=1 --xla_b=2 --xla_dump_to=$PLACE"\n'
        "export NCCL_DEBUG=WARN\n"
    )
    return path


def test_a_script_becomes_a_manifest_and_says_what_is_left_out(
    run: Run, job: Path, golden: Golden
) -> None:
    code, out, err = run(job, "--as", "k8s")
    assert code == 0
    assert yaml.safe_load(out)["env"] == [
        {"name": "XLA_FLAGS", "value": "--xla_a=1 --xla_b=2"},
        {"name": "NCCL_DEBUG", "value": "WARN"},
    ]
    assert err.startswith(f"left out: {job}:2: --xla_dump_to=$PLACE (")
    told = Transcript(job.parent)
    told.run("flags", "render", "job.sh", "--as", "k8s")
    golden("flags_render.txt", told.text)


def test_a_misspelled_option_is_no_flag(run: Run, job: Path) -> None:
    code, out, err = run(job, "--patch", job)
    assert (code, out) == (2, "")
    assert "unknown option: --patch" in err


def test_of_several_sources_the_last_has_the_last_word(run: Run, job: Path) -> None:
    code, out, _ = run(job, "--xla_a=9 --xla_c", "--as", "env")
    assert code == 0
    assert "XLA_FLAGS=--xla_b=2 --xla_a=9 --xla_c=true\n" in out


@pytest.mark.parametrize(
    ("name", "begins"),
    [("x.sh", "export "), ("x.py", "# Before"), ("x.yaml", "env:"), ("x.env", "XLA_FLAGS="),
     ("x.sbatch", "#!/bin/bash")],
)  # fmt: skip
def test_the_form_is_known_by_the_suffix_of_the_file(
    run: Run, tmp_path: Path, name: str, begins: str
) -> None:
    out = tmp_path / name
    code, printed, err = run("--xla_a=1", "-o", out)
    assert (code, printed, err) == (0, "", f"wrote {out}\n")
    assert out.read_text().startswith(begins)
    assert read_source(out).settings.flags == {"xla_a": "1"}


def test_nothing_is_overwritten_unasked(run: Run, job: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.sh"
    assert run("--xla_a=1", "-o", out)[0] == 0
    code, _, err = run("--xla_a=2", "-o", out)
    assert (code, "exists" in err) == (2, True)
    assert run("--xla_a=2", "-o", out, "--force")[0] == 0
    assert "--xla_a=2" in out.read_text()
    code, _, err = run(job, "-o", job, "--force")
    assert (code, "is a source" in err) == (2, True)
    assert run("--xla_a=1", "-o", tmp_path / "no" / "x.sh")[0] == 2


def test_a_recipe_is_written_for_the_release_that_is_asked_for(run: Run) -> None:
    _, newer, _ = run("pgle-recommended", "--as", "compiler_options", "--jaxlib", "0.12.0.1")
    _, older, _ = run("pgle-recommended", "--as", "compiler_options", "--jaxlib", "0.10.2")
    assert '"xla_gpu_pipeline_all_gather": "COLLECTIVE_PIPELINING_MODE_ON",' in newer
    assert '"xla_gpu_enable_pipelined_all_gather": True,' in older


def test_two_sources_are_compared(run: Run, job: Path) -> None:
    code, out, _ = run("--xla_a=1 --xla_b=3", "--diff", job)
    assert code == 0
    rows = [line.split() for line in out.splitlines()]
    assert ["xla_b", "3", "2"] in rows
    assert ["NCCL_DEBUG", "-", "WARN"] in rows
    assert not any(row[:1] == ["xla_a"] for row in rows)
    code, out, _ = run("--xla_a=1 --xla_b=3", "--diff", job, "--json")
    data = json.loads(out)
    assert data["schema"] == "counterpoint.flags.render-diff/1"
    assert {"channel": "XLA_FLAGS", "name": "xla_b", "before": "3", "after": "2"} in data["changes"]


def test_the_same_settings_are_said_to_be_the_same(run: Run, job: Path) -> None:
    assert "the same settings" in " ".join(run(job, "--diff", job)[1].split())


def test_as_data_the_settings_stand_beside_their_text(run: Run, job: Path) -> None:
    data = json.loads(run(job, "--as", "env", "--json")[1])
    assert data["schema"] == "counterpoint.flags.render/1"
    assert data["xla_flags"] == [["xla_a", "1"], ["xla_b", "2"]]
    assert data["environment"] == {"NCCL_DEBUG": "WARN"}
    assert data["layout"]["hosts"] == 2
    (left_out,) = data["left_out"]
    assert (left_out["where"], left_out["line"]) == (str(job), 2)
    assert left_out["text"] == "--xla_dump_to=$PLACE"
    assert left_out["why"]
    assert "XLA_FLAGS=--xla_a=1 --xla_b=2\n" in data["text"]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ((), 2, "no source given"),
        (("no-such-file",), 3, "neither a file nor a recipe"),
        (("--xla_a=1", "--as", "cobol"), 2, "k8s"),
        (("--xla_a=1", "--form", "cobol"), 2, "no such form"),
        (("pid:999999999",), 2, "no such process"),
        (("--xla_a='1",), 2, "is not closed"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_can_not_be_read_or_written_is_said(
    run: Run, arguments: tuple[str, ...], code: int, said: str
) -> None:
    got, out, err = run(*arguments)
    assert (got, out) == (code, "")
    assert said in err


def test_a_source_without_settings_is_an_error(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "empty.sh"
    path.write_text("echo hello\n")
    code, _, err = run(path)
    assert (code, "no settings found" in err) == (3, True)


def test_compiler_options_that_a_form_has_no_place_for_are_told(run: Run, tmp_path: Path) -> None:
    options = tmp_path / "options"
    options.write_text('compiler_options = {"xla_gpu_enable_triton_gemm": False}\n')
    code, out, err = run(options, "--as", "bash")
    assert code == 0
    assert "#   xla_gpu_enable_triton_gemm=False" in out
    assert "compiler options (1) are in comments" in err
    code, out, err = run(options, "--as", "compiler_options")
    assert '"xla_gpu_enable_triton_gemm": False' in out
    assert err == ""


def test_a_flag_that_ends_compiles_is_rendered_with_a_warning(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """`flags show` then offers a prediction, which compiles, not a run."""
    assert main(["flags", "render", "dus-fusion", "--jaxlib", "0.10.2"]) == 0
    said = capsys.readouterr()
    assert "--xla_gpu_enable_dynamic_slice_fusion=true" in said.out
    assert "warning: --xla_gpu_enable_dynamic_slice_fusion: it ended the compile" in said.err
    name = "xla_gpu_enable_dynamic_slice_fusion"
    assert main(["flags", "show", name, "--jaxlib", "0.10.2"]) == 0
    shown = capsys.readouterr()
    told = shown.out + shown.err
    assert "next: counterpoint predict --target 8xH100 --candidate dus-fusion" in told
    assert "run --settings" not in told


@pytest.mark.parametrize("command", [["recommend", "--for", "fsdp"], ["thresholds"]])
def test_an_empty_program_is_called_empty(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "step.mlir"
    path.touch()
    assert main(["flags", *command, "--program", str(path)]) == 3
    assert f"{path}: the file is empty" in capsys.readouterr().err
