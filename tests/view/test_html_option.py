"""`--html` of the commands: one file, whole or not at all, and nothing of it is loaded without."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import timelines
from command_line import in_process
from counterpoint.cli.pages import page_of

PAGE = re.compile(
    r'<script type="application/json" id="counterpoint-page">(.*?)</script>', re.DOTALL
)


def page(path: Path) -> dict[str, Any]:
    found = PAGE.search(path.read_text("utf-8"))
    assert found
    return json.loads(found[1])


def test_explain_writes_one_file_instead_of_the_report(stored: Path, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    done = in_process("explain", stored, "--html", out)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", f"wrote {out}\n")
    shown = page(out)
    assert [it["title"] for it in shown["reports"]] == ["explain", "network"]
    assert set(shown["results"]) == {"explain", "network"}
    assert len(shown["timelines"]) == 1
    assert shown["command"] == f"counterpoint explain {stored} --html {out}"


def test_the_report_or_json_is_printed_too_where_it_is_asked_for(
    stored: Path, tmp_path: Path
) -> None:
    out, text = tmp_path / "page.html", tmp_path / "report.txt"
    done = in_process("explain", stored, "--html", out, "--json", "--full")
    assert json.loads(done.stdout)["basis"] == "measured"
    done = in_process("explain", stored, "--html", out, "--force", "-o", text)
    assert done.stderr == f"wrote {out}\nwrote {text}\n"


def test_compare_has_both_timelines(pair: tuple[Path, Path], tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    done = in_process("compare", *pair, "--html", out, "--fail-above", "2%")
    assert done.returncode == 1  # the gate decides as before
    shown = page(out)
    assert len(shown["timelines"]) == 2
    assert set(shown["results"]) == {"compare"}


def test_network_and_predict_have_the_timeline(stored: Path, tmp_path: Path) -> None:
    hlo = tmp_path / "step.hlo.txt"
    hlo.write_text(timelines.HLO)
    for words in (["network", stored], ["predict", hlo, "--target", "2xH100"]):
        out = tmp_path / f"{words[0]}.html"
        done = in_process(*words, "--html", out)
        assert done.returncode == 0, done.stderr
        assert done.stdout == ""
        assert words[0] in page(out)["results"]
        assert len(page(out)["timelines"]) == 1
        for report in page(out)["reports"][1:]:  # beside that of the command
            assert "next:" not in report["html"]  # which would show this page


def test_a_page_is_not_taken_for_a_profile(stored: Path, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    in_process("explain", stored, "--html", out)
    for command in ("explain", "view"):
        done = in_process(command, out)
        assert done.returncode == 3
        assert "a web page" in done.stderr.splitlines()[0]
        assert "Counterpoint wrote it" in done.stderr


def test_doctor_has_a_report_alone(tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    done = in_process("doctor", "--only", "DOC5", "--no-probe", "--html", out)
    assert done.returncode in (0, 1)
    assert page(out)["timelines"] == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--html", "page.txt"], "unknown suffix .txt"),
        (["--html", "none/page.html"], "the directory none does not exist"),
        (["--html", "https://example.org/page.html"], "URLs can be read, not written"),
        (["--html", "kept.html"], "kept.html exists\n  why: --force overwrites it"),
        (["--full"], "--full needs --html"),
    ],
)
def test_what_cannot_be_written_is_refused_before_anything_is_read(
    words: list[str], said: str, tmp_path: Path
) -> None:
    (tmp_path / "kept.html").write_text("mine")
    done = in_process("explain", "absent", *words, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert (tmp_path / "kept.html").read_text() == "mine"
    assert [it.name for it in tmp_path.iterdir()] == ["kept.html"]


@pytest.mark.system
def test_without_it_nothing_of_the_view_is_loaded(stored: Path) -> None:
    program = (
        "import sys; from counterpoint.cli.app import main; main(sys.argv[1:]);"
        "print(sorted(it for it in sys.modules if 'view' in it or 'starlette' in it),"
        " file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "explain", str(stored)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "counterpoint.view" not in done.stderr
    assert "starlette" not in done.stderr


def test_a_run_without_a_profile_has_no_page_and_keeps_its_exit_code(tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    done = in_process("run", "-o", tmp_path / "run", "--html", out, "--", "true")
    assert done.returncode == 0, done.stderr
    assert f"{out} was not written" in done.stderr
    assert not out.exists()


@pytest.mark.parametrize(
    ("word", "shown"),
    [
        ("WANDB_API_KEY=abc", "WANDB_API_KEY=..."),
        ("--env=HF_TOKEN=abc=d", "--env=HF_TOKEN=..."),
        ("NCCL_DEBUG=INFO", "NCCL_DEBUG=INFO"),
        ("--set", "--set"),
        ("xla_gpu_x=true", "xla_gpu_x=true"),
    ],
)
def test_a_page_shows_its_command_without_secrets(
    word: str, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["counterpoint", "predict", "--env", word])
    assert page_of("", {}, {}).command == f"counterpoint predict --env {shown}"


def test_a_step_that_is_named_is_the_one_shown(stored: Path, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    in_process("explain", stored, "--html", out)
    (typical,) = page(out)["timelines"]
    other = next(it for it in typical["steps"]["step"] if it != typical["typical"])
    in_process("explain", stored, "--html", out, "--force", "--step", other)
    (shown,) = page(out)["timelines"]
    assert (shown["typical"], shown["chosen"]) == (other, True)
    assert not typical["chosen"]
