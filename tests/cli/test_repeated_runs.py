"""`counterpoint run --repeat --against`: runs of two sides in an order in which a drift cancels."""

from __future__ import annotations

import json
import os
import shlex
import sys
from pathlib import Path

import pytest

from command_line import in_process
from counterpoint.runs.reader import read_run

pytestmark = pytest.mark.system

PROGRAM = """
import os, sys, time
for step in range(8):
    print("step", step, "loss", 2.0, flush=True)
    time.sleep(0.01)
sys.exit(int(os.environ.get("ENDS", "0")))
"""
ENVIRONMENT = {"PATH": os.environ["PATH"], "HOME": "/nowhere"}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory with a Run `base/first` of a program and a setting."""
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "train.py").write_text(PROGRAM)
    done = in_process(
        *("run", "--no-profile", "--env", "OF_A=1", "-o", "first", "--", sys.executable),
        "train.py",
        cwd=tmp_path / "base",
        environment=ENVIRONMENT,
    )
    assert done.returncode == 0, done.stderr
    (tmp_path / "change").mkdir()
    (tmp_path / "change" / "train.py").write_text(PROGRAM)
    return tmp_path


def against(place: Path, *options: str, **variables: str) -> tuple[int, str, str]:
    done = in_process(
        *("run", "--no-profile", "--against", "../base/first", "--env", "OF_B=1", *options),
        *("--", sys.executable, "train.py"),
        cwd=place / "change",
        environment=ENVIRONMENT | variables,
    )
    return done.returncode, done.stdout, done.stderr


def test_both_are_run_in_turns_each_where_and_as_it_ran(place: Path) -> None:
    code, _, err = against(place, "-o", "study")
    assert code == 0
    study = place / "change" / "study"
    runs = {path.name: read_run(path) for path in study.iterdir()}
    order = sorted(runs, key=lambda name: runs[name].started)
    assert order == ["a1", "b1", "b2", "a2", "a3", "b3"]
    assert {runs[f"a{at}"].cwd for at in (1, 2, 3)} == {str(place / "base")}
    assert {runs[f"b{at}"].cwd for at in (1, 2, 3)} == {str(place / "change")}
    assert runs["a2"].settings.env == (("OF_A", "1"),)
    assert runs["b2"].settings.env == (("OF_B", "1"),)
    last = err.splitlines()[-1].removeprefix("counterpoint: next: ")
    assert last == "counterpoint compare study/a* --with study/b*"
    words = shlex.split(last)[1:]
    paths = [
        str(path) for word in words for path in (sorted(study.parent.glob(word)) or [Path(word)])
    ]
    compared = in_process(*paths, cwd=place / "change", environment=ENVIRONMENT)
    assert "in the order ABBAAB" in " ".join(compared.stdout.split())


def test_after_a_run_that_fails_none_follows(place: Path) -> None:
    code, _, err = against(place, "-o", "study", "--repeat", "2", "--env", "ENDS=7")
    assert code == 7
    assert sorted(path.name for path in (place / "change" / "study").iterdir()) == ["a1", "b1"]
    assert "b1 failed, so no further run is made" in err


def test_without_another_run_the_command_is_repeated(place: Path) -> None:
    done = in_process(
        *("run", "--no-profile", "--repeat", "2", "-o", "again", "--json", "--", sys.executable),
        "train.py",
        cwd=place / "change",
        environment=ENVIRONMENT,
    )
    assert done.returncode == 0
    assert [run["name"] for run in json.loads(done.stdout)["runs"]] == ["train", "train"]
    assert done.stderr.endswith("counterpoint: next: counterpoint runs again\n")


@pytest.mark.parametrize(
    ("options", "variables", "said"),
    [
        (("-o", "."), {}, "not empty"),
        (("--repeat", "0"), {}, "--repeat"),
        (("--html", "page.html"), {}, "--html"),
        (
            ("-o", "study"),
            {"SLURM_PROCID": "0", "SLURM_NTASKS": "2", "SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0"},
            "slurm",
        ),
    ],
)
def test_what_cannot_be_repeated_is_refused_before_anything_starts(
    place: Path, options: tuple[str, ...], variables: dict[str, str], said: str
) -> None:
    code, out, err = against(place, *options, **variables)
    assert (code, out) == (2, "")
    assert said in err


@pytest.mark.parametrize(
    ("command", "said"),
    [((), "no command was given"), (("--", "no-such-program"), "no-such-program was not found")],
)
def test_a_command_that_cannot_start_is_refused_before_the_other_side_runs(
    place: Path, command: tuple[str, ...], said: str
) -> None:
    done = in_process(
        *("run", "--no-profile", "--against", "base/first", "-o", "study", *command),
        cwd=place,
        environment=ENVIRONMENT,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert not (place / "study").exists()
