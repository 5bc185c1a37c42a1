"""Real profiles, and a real run: what is the same is said to be the same."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import counterpoint
from counterpoint.cli.app import main
from counterpoint.core.basis import Unknown
from counterpoint.diagnose.compare.comparison import StepDifference
from counterpoint.diagnose.compare.experiment import DifferenceKind
from counterpoint.diagnose.compare.matching import MatchStage
from counterpoint.diagnose.compare.step_time import StepChange, StepVerdict

pytestmark = pytest.mark.system

EXAMPLE = Path(__file__).parents[3] / "examples" / "sharded_step.py"
# Compiling is nearly all that takes time here, so little is optimized.
QUICK = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"


def test_ranks_of_one_run_do_not_differ(shared: Path) -> None:
    """Rank 3 holds another build: 2,576 instructions, and each is found again."""
    traces = shared / "data" / "traces"
    found = counterpoint.compare(
        traces / "pax_fsdp4_4proc_proc0.zip", traces / "pax_fsdp4_4proc_proc3.zip"
    )
    assert isinstance(found.step, StepChange)
    assert found.step.verdict is StepVerdict.OPEN  # three steps of each, 4% apart
    assert found.same_experiment
    assert [(it.about, it.what) for it in found.differs] == [
        (DifferenceKind.PROGRAM, "fingerprint")
    ]
    work = found.work
    assert isinstance(work, StepDifference)
    assert len(work.ops) == 2576
    assert {row.how for row in work.ops} == {MatchStage.SAME}
    assert not any(row.clear for row in work.ops)
    rows = sum(row.difference_ms for row in work.ops)
    assert rows == pytest.approx(work.busy.difference_ms, abs=1e-6)
    assert not isinstance(work.schedule.moves, Unknown)
    assert work.schedule.moves == ()


def test_a_run_against_itself(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XLA_FLAGS", QUICK)
    run = tmp_path / "run"
    small = ["--layers", "2", "--width", "64", "--vocabulary", "64", "--sequence", "32"]
    command = [sys.executable, str(EXAMPLE), "--steps", "12", *small]
    window = ["--profile-start-step", "4", "--profile-steps", "5"]
    assert main(["run", "-o", str(run), *window, "--", *command]) == 0
    capsys.readouterr()
    assert main(["compare", str(run), str(run), "--json", "--fail-above", "1%"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["step"]["verdict"] == "no difference"
    assert (data["differs"], data["notes"], data["moves"]) == ([], [], [])
    assert all(row["difference_ms"] == 0 for row in data["ops"])
    assert any(row["kind"] == "all-reduce" for row in data["collectives"])
