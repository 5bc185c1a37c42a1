"""The first lines of `tune`: nothing is announced that can't be begun, and nothing miscounted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from counterpoint.cli.app import main
from counterpoint.core import UsageError
from counterpoint.report.tune.progress import beginning
from counterpoint.tune.command_line import read_request
from counterpoint.tune.first_record import first_record
from counterpoint.tune.options import RaceOptions, TriedOptions, TuneOptions
from counterpoint.tune.request import TuneRequest
from counterpoint.tune.study.directory import open_study
from counterpoint.tune.study.records import StudyEnded
from counterpoint.tune.trial.report import Purpose, TrialFailure
from tune_studies import AT, Made, arm, report

Run = Callable[..., tuple[int, str, str]]
NVLS = arm("NVLS off")


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A command line in an empty directory: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    for name in ("SLURM_JOB_ID", "RAY_ADDRESS"):
        monkeypatch.delenv(name, raising=False)

    def run(*arguments: str) -> tuple[int, str, str]:
        code = main(["tune", *arguments, "--arm=--xla_a=1", "--", "true"])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


def asked(budget: str | None = None) -> TuneRequest:
    given = TuneOptions(
        tried=TriedOptions(arm=("--xla_a=1",)),
        race=RaceOptions(budget=budget),
        executor="local",
    )
    return read_request(("true",), given, Path("s"))


def refused(told: tuple[int, str, str], said: str) -> None:
    code, out, err = told
    assert (code, out) == (2, "")
    assert err.startswith("error: "), "something was announced"
    assert said in err


def test_what_a_library_prints_stays_out_of_the_report(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray writes of dead workers to stdout, at any time."""

    def loud(*_: object) -> None:
        print("(raylet) A worker died")
        raise UsageError("no nodes", next="ray status")

    monkeypatch.setattr("counterpoint.tune.session.tune", loud)
    code, out, err = run("--json")
    assert (code, out) == (2, "")
    assert "(raylet) A worker died" in err


def test_a_place_that_is_refused_is_not_announced(run: Run, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("")
    refused(run("-o", "train.py"), "train.py is a file, but a study is a directory")
    (tmp_path / "full").mkdir()
    (tmp_path / "full/x").write_text("")
    refused(run("-o", "full"), "full is not empty, and not a study")
    refused(run("-o", "train.py/x"), "can't write train.py/x")


def test_a_study_that_somebody_works_at_is_not_announced(run: Run) -> None:
    first = first_record(asked(), "local", Path.cwd())
    with open_study(Path("s"), first):
        code, _, err = run("-o", "s")
    assert code
    assert err.startswith("error: "), "something was announced"
    assert "s" in err


@pytest.mark.parametrize("more", [(), ("--dry-run",)], ids=["run", "dry run"])
def test_a_place_for_trials_that_there_is_not_is_refused_early(
    run: Run, tmp_path: Path, more: tuple[str, ...]
) -> None:
    refused(
        run("--nodes", "2", "--executor=local", *more), "2 nodes, but the local executor has one"
    )
    refused(run("--executor=local", "--slurm=-p x", *more), "--slurm applies to the executor slurm")
    assert not list(tmp_path.iterdir())


def test_only_trials_that_ended_by_themselves_are_done() -> None:
    made = Made(NVLS)
    assert next(beginning(asked(), Made(shortlist=False).study)) == "study s"
    made.entered(NVLS).noise()
    made.ran("NVLS off", report(failure=TrialFailure.INTERRUPTED), Purpose.SCREEN, 1)
    made.started("base", Purpose.SCREEN, 1)
    said = [*beginning(asked("20 trials, 2h"), made.study)]
    assert said[0] == "continuing s: 2 trials done, 2 interrupted"
    assert said[-1] == "budget: at most 20 trials, and 2 h 00 min of trials"
    made.add(StudyEnded(why="every arm is decided", at=AT))
    (line,) = beginning(asked(), made.study)
    assert line.startswith("s is done ")
