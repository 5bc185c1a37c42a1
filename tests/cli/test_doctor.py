"""`counterpoint doctor` as it is typed, on the machine that runs the tests."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from counterpoint.cli.app import main
from counterpoint.doctor.checks import CHECKS
from golden_files import Golden
from transcripts import Transcript, next_command

SILENT = ("XLA_", "JAX_", "NCCL_", "SLURM_", "OMPI_", "PMI", "JOB_", "MEGASCALE_", "LIBTPU", "TPU_")


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in os.environ:
        if name.startswith(SILENT):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


def test_each_check_says_something_of_this_machine(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["doctor", "--json", "--no-probe"])
    told = json.loads(capsys.readouterr().out)
    assert told["schema"] == "counterpoint.doctor/1"
    assert {one["name"] for one in told["verdicts"]} == {check.NAME for check in CHECKS}
    assert code == int(told["failed"])
    bad = [one for one in told["verdicts"] if one["status"] in ("error", "warning")]
    assert bool(bad) is told["failed"]


def test_the_page_has_what_is_bad_with_the_command_against_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XLA_FLAGS", "--xla_no_such_flag=1")
    assert main(["doctor", "--no-probe", "--only", "flags"]) == 1
    page = capsys.readouterr().out
    assert "1 error" in page.splitlines()[0]
    assert "xla_no_such_flag: no release" in page
    assert "flags check --env" in page
    assert next_command(page) == ["explain-code", "DOC105"]


def test_a_remark_on_a_setting_has_a_reason_and_an_address(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NCCL_PROTO", "LL128,Simpel")
    monkeypatch.setenv("LIBTPU_INIT_ARGS", "--xla_tpu_foo=1 --deepsea_foo=1")
    assert main(["doctor", "--no-probe", "--only", "flags", "--json"]) == 1
    verdicts = json.loads(capsys.readouterr().out)["verdicts"]
    told = {one["status"]: one for one in verdicts}
    bad = told.get("error") or told["warning"]
    assert (bad["source"].split("/")[0], bad["why"][-9:-4]) == ("https:", "(FLAG")
    assert {one["status"] for one in verdicts if "xla_tpu_foo" in one["found"]} == {"error"}
    assert "deepsea_foo" in told["unknown"]["found"]
    assert "ok" not in told


def test_checks_are_chosen_by_name_and_code(capsys: pytest.CaptureFixture[str]) -> None:
    main(["doctor", "--json", "--only", "DOC3,clock", "--skip", "DOC301"])
    names = [one["name"] for one in json.loads(capsys.readouterr().out)["verdicts"]]
    assert "clock" in names
    assert "compilation-cache" not in names
    assert {"open-files", "shared-memory"} < set(names)


REFUSED = (
    "--skip DOC",
    "--only DOC403 --skip DOC4",
    "--only DOC6",
    "--compare node0.json node0.json",
    "--only tcp-buffer",
    "--compare",
    "--compare node0.json",
    "--compare node0.json node1.json --only clock",
)


def test_what_would_check_or_compare_nothing_is_refused(golden: Golden, tmp_path: Path) -> None:
    told = Transcript(tmp_path)
    for words in REFUSED:
        done = told.run("doctor", *words.split(), code=2)
        assert (done.stdout, done.stderr[:7]) == ("", "error: ")
    golden("doctor_refused.txt", told.text)


def test_reports_of_two_hosts_are_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["doctor", "--only", "clock", "--no-probe", "-o", "node0.json"])
    report = json.loads((tmp_path / "node0.json").read_text())
    report["hosts"] = ["node1"]
    report["compared"]["python"] = "3.9.1"
    (tmp_path / "node1.json").write_text(json.dumps(report))
    capsys.readouterr()
    assert main(["doctor", "--compare", "node0.json", "node1.json"]) == 1
    page = capsys.readouterr().out
    assert "python: 3.9.1 on node1" in page
    assert next_command(page) == ["explain-code", "DOC601"]


def test_the_report_is_written_to_a_file_and_not_over_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["doctor", "--only", "open-files", "-o"]
    main([*words, "told.json"])
    assert json.loads((tmp_path / "told.json").read_text())["verdicts"]
    main([*words, "told.txt"])
    assert (tmp_path / "told.txt").read_text().startswith("Doctor")
    capsys.readouterr()
    assert main([*words, "told.txt"]) == 2
    assert "told.txt exists" in capsys.readouterr().err


def test_a_name_of_an_interface_that_is_not_here_is_told(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NCCL_SOCKET_IFNAME", "=none\x1b[31m9")
    assert main(["doctor", "--no-probe", "--only", "nccl-interfaces"]) == 1
    page = capsys.readouterr().out
    assert "NCCL_SOCKET_IFNAME" in page
    assert "\x1b" not in page


def test_codes_are_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain-code", "DOC403"]) == 0
    assert capsys.readouterr().out.startswith("DOC403 tcp-buffers")
