"""`counterpoint tune show`: of a study made by hand, what is printed, written and passed on."""

from __future__ import annotations

import json
import re
import tarfile
from collections.abc import Callable
from dataclasses import replace
from importlib import metadata
from pathlib import Path

import pytest

from counterpoint.cli.app import main
from counterpoint.cli.tune_show import BEST, keep_report
from counterpoint.flags.lines.source import load_settings
from counterpoint.flags.parse.source import read_source
from counterpoint.flags.settings import Settings
from counterpoint.report.document import Document
from counterpoint.report.tune.next_command import next_command, resume_command
from counterpoint.tune.arm import Arm, ArmChange, ArmOrigin
from counterpoint.tune.session import conclusion_of
from counterpoint.tune.study.directory import open_study, read_study
from counterpoint.tune.study.records import (
    CandidateSeen,
    Paused,
    SearchEnded,
    SpaceMade,
    StudyBegan,
    StudyEnded,
)
from counterpoint.tune.trial.report import Purpose
from counterpoint.workflow.variant import candidate
from golden_files import Golden
from transcripts import Transcript
from transcripts import next_command as proposed
from tune_conclusions import predicted
from tune_studies import AT, Made, report

Run = Callable[..., tuple[int, str, str]]
SECRET = 'hunter2-"quoted"'  # noqa: S105
FAST = Arm(
    name="NVLS off",
    settings=Settings(
        (("xla_gpu_x", "true"),), (("WANDB_API_KEY", SECRET), ("NCCL_NVLS_ENABLE", "0"))
    ),
    changes=(ArmChange(dimension="NVLS", choice="off"),),
    origin=ArmOrigin.HAND,
)
BASE_SETTINGS = Settings((("xla_gpu_x", "true"),), (("WANDB_API_KEY", SECRET),))


def write(path: Path, made: Made) -> Path:
    first, *rest = made.records
    assert isinstance(first, StudyBegan)
    with open_study(path, first) as ledger:
        for it in rest:
            ledger.add(it)
    return path


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """Done: one arm is 10% faster, in the race and in fresh runs."""
    made = Made(FAST, base=BASE_SETTINGS).entered(FAST).noise()
    for row in range(1, 7):
        made.row(Purpose.RACE, row, {"base": 1.0 + 1e-4 * (row % 2), "NVLS off": 0.9})
    made.closed().opened()
    for row in range(7, 11):
        made.row(Purpose.CONFIRM, row, {"base": 1.0 + 1e-4 * (row % 2), "NVLS off": 0.9})
    return write(tmp_path / "study", made.closed().add(StudyEnded(why="decided", at=AT)))


@pytest.fixture
def begun(tmp_path: Path) -> Path:
    """Interrupted after two runs of the base."""
    return write(tmp_path / "begun", Made(FAST).entered(FAST).noise())


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*arguments: str | Path) -> tuple[int, str, str]:
        code = main(["tune", "show", *map(str, arguments)])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


def test_the_verdict_is_the_first_line(run: Run, study: Path) -> None:
    code, out, err = run(study)
    assert (code, err) == (0, "")
    assert out.startswith("Verdict   ")
    assert "NVLS off" in out.splitlines()[0]
    assert proposed(out)[:5] == ["tune", "show", str(study), "--as", "slurm"]


def test_as_json(run: Run, study: Path) -> None:
    data = json.loads(run(study, "--json")[1])
    assert (data["winner"], data["state"], data["basis"]) == ("NVLS off", "done", "measured")
    assert data["gain"] == pytest.approx(0.1, abs=0.001)
    assert data["settings"]["environment"]["NCCL_NVLS_ENABLE"] == "0"


@pytest.mark.parametrize(
    ("form", "begins"),
    [("env", "# "), ("bash", "# "), ("python", "# "), ("slurm", "#!/bin/bash\n# "), ("k8s", "# ")],
)
def test_settings_for_the_launcher_say_where_they_are_from(
    run: Run, study: Path, tmp_path: Path, form: str, begins: str
) -> None:
    code, out, _ = run(study, "--as", form)
    assert code == 0
    assert out.startswith(begins)
    assert f"# counterpoint tune, {study}\n" in out
    path = tmp_path / "settings"
    path.write_text(out)
    kinds = {"bash": "shell", "slurm": "shell"}
    read = read_source(path, form=kinds.get(form, form)).settings
    assert read.flags == {"xla_gpu_x": "true"}
    assert read.variables["NCCL_NVLS_ENABLE"] == "0"


def test_compiler_options_are_for_the_jaxlib_of_the_study(
    run: Run, study: Path, tmp_path: Path
) -> None:
    out = run(study, "--as", "compiler_options")[1]
    installed = metadata.version("jaxlib")
    assert f"# For jaxlib {installed}" in out  # an older journal does not tell
    space = SpaceMade(dimensions=(), left_out=(), at=AT, jaxlib="0.8.1")
    planned = write(tmp_path / "planned", Made(FAST).entered(FAST).add(space))
    assert "# For jaxlib 0.8.1: " in run(planned, "--arm", "base", "--as", "compiler_options")[1]
    told = replace(report(1.0), versions=(("jaxlib", "0.8.2"),))
    made = Made(FAST).entered(FAST).add(space).opened().ran("base", told, Purpose.NOISE, 0)
    ran = write(tmp_path / "ran", made)
    assert "# For jaxlib 0.8.2: " in run(ran, "--arm", "base", "--as", "compiler_options")[1]


def test_a_job_of_slurm_has_the_nodes_that_were_measured(run: Run, study: Path) -> None:
    out = run(study, "--as", "slurm")[1]
    assert "#SBATCH --nodes=1\n#SBATCH --ntasks-per-node=1\n" in out


def test_settings_go_into_a_file_by_its_ending_and_overwrite_nothing(
    run: Run, study: Path, tmp_path: Path
) -> None:
    out = tmp_path / "best.env"
    assert run(study, "-o", out) == (0, "", f"wrote {out}\n")
    assert "NCCL_NVLS_ENABLE=0" in out.read_text()
    assert not out.read_text().count("export")
    code, _, err = run(study, "-o", out)
    assert (code, "exists" in err) == (2, True)
    assert run(study, "-o", out, "--force", "--arm", "base")[0] == 0
    assert "NCCL_NVLS_ENABLE" not in out.read_text()


def test_a_study_that_goes_on_can_be_shown(run: Run, begun: Path) -> None:
    code, out, _ = run(begun)
    assert code == 0
    assert json.loads(run(begun, "--json")[1])["state"] != "done"
    code, out, err = run(begun, "--as", "env")
    assert (code, out) == (3, "")
    assert err.startswith("error: ")
    code, out, _ = run(begun, "--as", "env", "--arm", "NVLS off")
    assert (code, "NCCL_NVLS_ENABLE=0" in out) == (0, True)
    assert "not final" in out


def test_what_it_says(study: Path, begun: Path, golden: Golden) -> None:
    told = Transcript(study.parent)
    assert begun.parent == study.parent
    for code, *words in (
        (0, "study"),
        (0, "begun"),
        (3, "begun", "--as", "env"),
        (0, "study", "--as", "slurm"),
        (3, "."),
        (2, "study", "--arm", "no such"),
        (2, "study", "--arm", "--xla_a=1"),
        (2, "study", "--json", "--as", "env"),
        (2, "study", "--bundle", "x.zip"),
        (2, "study", "--as", "cobol"),
    ):
        told.run("tune", "show", *words, code=code)
    golden("tune_show.txt", told.text)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--arm", "no such"), "NVLS off"),
        (("--arm", "--xla_a=1"), "--arm --xla_a=1: "),
        (("--json", "--as", "env"), "--json"),
        (("--bundle", "x.zip"), ".tar.gz"),
        (("--as", "cobol"), "k8s"),
    ],
)
def test_what_can_not_be_done_is_said(
    run: Run, study: Path, words: tuple[str, ...], said: str
) -> None:
    code, out, err = run(study, *words)
    assert (code, out) == (2, "")
    assert said in err


TWO = Settings(
    (("xla_gpu_x", "true"), ("xla_gpu_y", "2")), (("NCCL_NVLS_ENABLE", "0"), ("NCCL_ALGO", "a b"))
)


def predicted_study(path: Path, *, profile: bool) -> Path:
    figures = predicted(0.1, 0.05, 0.15)
    best = Arm(
        name="best",
        settings=TWO,
        changes=(ArmChange(dimension="PGLE", choice="on", profile=profile),),
        predicted=figures,
    )
    bad = Arm(name="bad", settings=BASE_SETTINGS)
    made = Made(shortlist=False).add(
        CandidateSeen(arm=best, at=AT),
        CandidateSeen(arm=bad, failure="XLA can't compile it", at=AT),
        SearchEnded(why="done", shortlist=("best",), seconds=1.0, at=AT),
        StudyEnded(why="done", at=AT),
    )
    return write(path, made)


@pytest.mark.parametrize("profile", [False, True])
@pytest.mark.parametrize("name", sorted(BEST))
def test_the_best_settings_are_read_back_as_they_are(
    tmp_path: Path, name: str, profile: bool
) -> None:
    study = predicted_study(tmp_path / "s", profile=profile)
    keep_report(conclusion_of(study), study, Document(sections=(), legend="", next=""))
    assert load_settings(study / name) == TWO
    assert candidate(str(study / name), Settings()).settings == TWO
    assert ("# without PGLE" in (study / name).read_text()) is profile


@pytest.mark.parametrize("name", sorted(BEST))
def test_the_best_settings_are_what_show_writes(run: Run, study: Path, name: str) -> None:
    conclusion = conclusion_of(study)
    keep_report(conclusion, study, Document(sections=(), legend="", next=""))
    code, out, _ = run(study, "--as", BEST[name])
    assert code == 0
    assert (study / name).read_text() == out
    assert ("#SBATCH --nodes=" in out) is (name == "best.sbatch")


@pytest.mark.parametrize(
    ("command", "settings", "line"),
    [
        (("t",), Settings(), "counterpoint pgle manual --profile-start-step 5 -- t"),
        ((), Settings(), "counterpoint pgle --help"),
        ((), TWO, "counterpoint tune show s --as bash"),
    ],
)
def test_the_next_command_names_no_empty_file_and_no_program_that_nobody_named(
    tmp_path: Path, command: tuple[str, ...], settings: Settings, line: str
) -> None:
    study = predicted_study(tmp_path / "s", profile=True)
    told, made = read_study(study), conclusion_of(study)
    assert made.winner is not None
    told = replace(told, began=replace(told.began, command=command))
    made = replace(made, state="done", winner=replace(made.winner, settings=settings))
    assert next_command(made, told, Path("s")) == line


def test_the_next_command_after_fresh_runs_that_leave_it_open_asks_for_more(
    run: Run, tmp_path: Path
) -> None:
    words = (
        "counterpoint",
        "tune",
        "--confirm-rows=4",
        "-o",
        "s",
        "--",
        "t",
        "--confirm-rows",
        "9",
    )
    made = Made(FAST, base=BASE_SETTINGS).entered(FAST).noise()
    made.records[0] = replace(made.study.began, words=words, cwd=str(Path.cwd()))
    for row in range(1, 7):
        made.row(Purpose.RACE, row, {"base": 1.0 + 1e-3 * (row % 2), "NVLS off": 0.98})
    made.closed().opened()
    for row, own in zip(range(7, 11), (0.96, 1.0, 0.98, 1.01), strict=True):
        made.row(Purpose.CONFIRM, row, {"base": 1.0, "NVLS off": own})
    out = run(write(tmp_path / "s", made.closed().add(StudyEnded(why="decided", at=AT))))[1]
    said = " ".join(out.split())
    rows = re.findall(r": --confirm-rows (\d+) continues", said)
    assert rows, said
    again = f"tune -o s --confirm-rows {rows[0]} -- t --confirm-rows 9"
    assert proposed(out) == again.split()


def test_what_was_predicted_with_a_profile_is_not_passed_off_without(
    run: Run, tmp_path: Path, golden: Golden
) -> None:
    study = predicted_study(tmp_path / "s", profile=True)
    out = run(study)[1]
    manual = ["pgle", "manual", "--settings", f"{study}/best.env"]
    assert proposed(out)[:4] == manual
    code, out, err = run(study, "--as", "bash")
    assert code == 0
    assert "# without PGLE: " in out
    assert "without PGLE: " in err
    assert "PGLE" in json.loads(run(study, "--json")[1])["beside_settings"][0]
    measured = predicted_study(tmp_path / "t", profile=False)
    assert proposed(run(measured)[1])[:3] == ["tune", "--arm", f"{measured}/best.env"]
    told = Transcript(tmp_path)
    for name in ("s", "t"):
        told.run("tune", "show", name)
    told.run("tune", "show", "s", "--as", "bash")
    told.run("tune", "show", "s", "--arm", "bad", "--as", "env")
    golden("tune_show_predicted.txt", told.text)


def test_settings_of_an_arm_that_failed_come_with_a_warning(run: Run, tmp_path: Path) -> None:
    study = predicted_study(tmp_path / "s", profile=False)
    code, out, err = run(study, "--arm", "bad", "--as", "env")
    assert (code, "xla_gpu_x" in out) == (0, True)
    assert "bad failed: " in err


def test_what_was_interrupted_names_the_command_that_goes_on(run: Run, tmp_path: Path) -> None:
    made = Made(shortlist=False)
    words = ("counterpoint", "tune", "--target", "8xH100", "-o", "s", "--", "python", "t.py")
    first = made.records[0]
    assert isinstance(first, StudyBegan)
    made.records[0] = replace(first, words=words, cwd=str(Path.cwd()))
    study = write(tmp_path / "s", made.add(Paused(why="stopped", at=AT)))
    assert json.loads(run(study, "--json")[1])["state"] == "interrupted"
    out = run(study)[1]
    assert "INTERRUPTED" in out
    assert proposed(out) == ["tune", "--target", "8xH100", "-o", "s", "--", "python", "t.py"]


def test_a_command_line_that_goes_on_names_its_study() -> None:
    words = ["tune", "--target", "8xH100", "--json", "--", "python", "-o", "x"]
    again = resume_command(words, Path("s"))
    expected = ("counterpoint", "tune", "--target", "8xH100", "-o", "s", "--", "python", "-o", "x")
    assert again == expected
    assert resume_command(["tune", "-o", "t"], Path("t")) == ("counterpoint", "tune", "-o", "t")


def test_a_bundle_has_it_all_but_other_peoples_business(
    run: Run, study: Path, tmp_path: Path
) -> None:
    rank = study / "runs" / "0001-base" / "rank0"
    (rank / "xla").mkdir(parents=True)
    (rank / "xla" / "module.hlo.pb").write_bytes(b"\x00\x01")
    (rank / "stdout.log").write_text(f"step 1\nlogged in with {SECRET}\n")
    environment = {
        "set": {"WANDB_API_KEY": SECRET},
        "changed": {"DB_URL": ["postgres:pw", "new-db"]},
    }
    (rank / "rank.json").write_text(json.dumps({"environment": environment}))
    (rank / ".reserve").write_text("x")
    path = tmp_path / "evidence.tar.gz"
    code, out, err = run(study, "--bundle", path)
    assert (code, out) == (0, "")
    assert f"wrote {path}\n" in err
    assert "WANDB_API_KEY" in err
    assert "review them" in err

    with tarfile.open(path) as archive:
        archive.extractall(tmp_path / "there", filter="data")
    there = tmp_path / "there" / "study"
    names = {str(it.relative_to(there)) for it in there.rglob("*") if it.is_file()}
    assert {"journal.jsonl", "contents.txt", "runs/0001-base/rank0/xla/module.hlo.pb"} <= names
    assert not any(it.endswith(".reserve") for it in names)
    everything = b"".join(it.read_bytes() for it in there.rglob("*") if it.is_file())
    for text in (SECRET, json.dumps(SECRET)[1:-1], "postgres:pw"):
        assert text.encode() not in everything
    assert b"NCCL_NVLS_ENABLE" in everything
    said = (there / "contents.txt").read_text()
    assert "module.hlo.pb" in said
    assert "WANDB_API_KEY" in said

    told = read_study(there)
    assert told.trials == read_study(study).trials
    assert dict(told.began.base.env)["WANDB_API_KEY"] == "<redacted>"
    assert run(there)[1].splitlines()[0] == run(study)[1].splitlines()[0]


def test_a_bundle_overwrites_nothing_unasked(run: Run, study: Path, tmp_path: Path) -> None:
    path = tmp_path / "evidence.tgz"
    path.write_text("mine")
    code, _, err = run(study, "--bundle", path)
    assert (code, "exists" in err, path.read_text()) == (2, True, "mine")
    assert run(study, "--bundle", path, "--force")[0] == 0
    assert tarfile.is_tarfile(path)


def test_a_bundle_of_nothing_is_refused(run: Run, tmp_path: Path) -> None:
    code, _, err = run(tmp_path, "--bundle", tmp_path / "x.tgz")
    assert (code, err.startswith("error: ")) == (3, True)
    assert not list(tmp_path.iterdir())
