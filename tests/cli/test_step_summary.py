"""The step summary of GitHub Actions: written by a real run and by a gate, and never in the way."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from command_line import in_process
from timelines import HLO


def test_a_gate_adds_its_verdict_and_digest(tmp_path: Path) -> None:
    program, summary = tmp_path / "step.hlo.txt", tmp_path / "summary.md"
    program.write_text(HLO)
    for name, bandwidth in (("a", "2xH100"), ("b", "2xA100")):
        done = in_process("predict", program, "--target", bandwidth, "-o", tmp_path / name)
        assert done.returncode == 0, done.stderr
    environment = {**os.environ, "GITHUB_STEP_SUMMARY": str(summary)}
    words = ("compare", tmp_path / "a", tmp_path / "b")
    assert in_process(*words, environment=environment).returncode == 0
    assert not summary.exists()  # no gate
    done = in_process(*words, "--fail-above", "2%", environment=environment)
    text = summary.read_text()
    verdict = "slower" if done.returncode else "not slower"
    assert text.startswith(f"### B is {verdict} than A ")
    assert " 2.000%\n\n- compare A " in text
    assert "\n- B against " in text


def test_a_run_adds_its_closing_lines_and_keeps_its_exit_code(tmp_path: Path) -> None:
    summary = tmp_path / "summary.md"
    places = {"run": summary, "again": tmp_path / "missing" / "summary.md"}
    for name, place in places.items():
        environment = {**os.environ, "GITHUB_STEP_SUMMARY": str(place)}
        words = ("run", "-o", name, "--", sys.executable, "-c", "raise SystemExit(7)")
        done = in_process(*words, cwd=tmp_path, environment=environment)
        assert done.returncode == 7, done.stderr
        assert ("summary was not" in done.stderr) == (name == "again")
    assert summary.read_text().startswith("### counterpoint run ")
    assert "\n- outcome  " in summary.read_text()
