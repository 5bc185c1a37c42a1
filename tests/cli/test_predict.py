"""`counterpoint predict` as a user runs it, on a program that is already scheduled."""

from __future__ import annotations

import json
import os
import re
import shlex
from pathlib import Path

import pytest

from counterpoint.cli.app import main
from golden_files import Golden
from timelines import HLO
from transcripts import Transcript

KEYS = {
    *("schema", "prediction", "basis", "unpriced", "candidates", "what_if", "against", "pgle"),
    *("breakdown", "collectives", "ops", "findings", "phases", "steps", "utilisation", "notes"),
}


@pytest.fixture
def scheduled(tmp_path: Path) -> Path:
    path = tmp_path / "step.hlo.txt"
    path.write_text(HLO)
    return path


def predict(*words: object) -> int:
    return main(["predict", *map(str, words)])


def test_the_step_its_range_and_where_it_goes_are_told(
    scheduled: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert predict(scheduled, "--target", "2xH100") == 0
    out = capsys.readouterr().out
    assert out.startswith("Predicted step ")
    assert "on 2xH100, not measured" in out
    assert "\nWhere " in out
    assert "tokens/s" in out


def test_the_screen_of_explain_is_added_where_it_is_asked_for(
    scheduled: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    details = ("Losses in detail", "remedy", "Collectives ", "Top ops ", "model/mlp.py:7")
    assert predict(scheduled, "--target", "2xH100") == 0
    out = capsys.readouterr().out
    assert [word for word in details if word in out] == []
    assert re.search(r"^Largest losses .*details: --explain\n.*\n  1  STEP\d+ ", out, re.MULTILINE)
    assert predict(scheduled, "--target", "2xH100", "--explain") == 0
    out = capsys.readouterr().out
    assert [word for word in details if word not in out] == []
    assert out.index("Largest losses") < out.index("Losses in detail") < out.index("\nNotes\n")


def test_the_json_is_that_of_explain_with_more(
    scheduled: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert predict(scheduled, "--target", "2xH100", "--json") == 0
    data = json.loads(capsys.readouterr().out)
    assert data["schema"] == "counterpoint.predict/1"
    assert set(data) >= KEYS
    told = data["prediction"]
    low, high = told["range_ms"]
    assert 0 < low < told["step_ms"] < high
    assert told["hbm_bytes"] > 70e9
    parts = data["breakdown"]
    exposed, hidden = parts["collective_exposed_ms"], parts["collective_hidden_ms"]
    assert told["exposed_ms"] == pytest.approx(exposed, abs=1e-5)
    assert told["communication_ms"] == pytest.approx(exposed + hidden, abs=1e-5)
    assert told["fits"] is None  # a scheduled module does not tell its memory
    assert sum(data["basis"].values()) == pytest.approx(1, abs=1e-5)
    assert data["steps"]["median_ms"] == pytest.approx(told["step_ms"], rel=1e-3)


def test_a_faster_link_is_answered_with_the_same_schedule(
    scheduled: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    question = "nvlink=2x,collective:all-gather-start=0"
    assert predict(scheduled, "--target", "2xH100", "--what-if", question, "--json") == 0
    each = json.loads(capsys.readouterr().out)["what_if"]
    assert [it["question"] for it in each] == [*question.split(","), question.replace(",", ", ")]
    faster, free, both = (it["saves_ms"] for it in each)
    assert 0 < faster < free
    assert both == pytest.approx(free)


@pytest.mark.system
def test_the_timeline_is_kept_and_can_be_explained_and_compared_with(
    scheduled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "step"
    assert predict(scheduled, "--target", "2xH100", "-o", kept) == 0
    assert main(["explain", str(kept), "--json"]) == 0
    capsys.readouterr()
    assert predict(scheduled, "--target", "2xH100", "--against", kept, "--json") == 0
    against = json.loads(capsys.readouterr().out)["against"]
    assert against["matched_share"] == pytest.approx(1)
    assert against["ratio"] == pytest.approx(1, rel=1e-3)
    assert all(abs(it["difference_ms"]) < 1e-3 for it in against["ops"])
    assert predict(scheduled, "--target", "2xH100", "-o", kept) == 2  # it is there
    assert predict(scheduled, "--target", "2xH100", "-o", kept, "--force") == 0


def test_the_next_command_has_the_same_prices(
    scheduled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = tmp_path / "own.pbtxt"
    own.write_text('costs { name: "fusion.1" cost_us: 5000.0 }\n')
    assert predict(scheduled, "--target", "2xH100", "--profile", own) == 0
    assert f" --profile {own} " in capsys.readouterr().out.splitlines()[-1]
    assert predict(scheduled, "--target", "2xH100") == 0
    assert "--profile" not in capsys.readouterr().out.splitlines()[-1]


def test_measured_costs_are_taken_and_those_of_another_program_are_not(
    scheduled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = tmp_path / "own.pbtxt"
    names = ("all-gather-start", "fusion.1", "fusion.2", "copy.1")
    own.write_text("".join(f'costs {{ name: "{it}" cost_us: 5000.0 }}\n' for it in names))
    assert predict(scheduled, "--target", "2xH100", "--profile", own, "--json") == 0
    data = json.loads(capsys.readouterr().out)
    assert data["basis"]["measured"] == pytest.approx(1)
    assert data["warnings"] == []
    foreign = tmp_path / "foreign.pbtxt"
    foreign.write_text('costs { name: "fusion.9" cost_us: 5000.0 }\n')
    assert predict(scheduled, "--target", "2xH100", "--profile", foreign, "--json") == 0
    data = json.loads(capsys.readouterr().out)
    assert data["basis"]["measured"] == 0
    assert data["warnings"][0].startswith("NOTHING")


def test_costs_of_another_chip_are_refused(
    scheduled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = tmp_path / "own.pbtxt"
    own.write_text(
        '# devices: NVIDIA A100-SXM4-40GB\ncosts { name: "all-gather-start" cost_us: 5000.0 }\n'
    )
    calibrated = tmp_path / "a100.toml"
    calibrated.write_text('chip = "A100-40GB"\n[matmul]\nvalue = 0.7\n')
    for option, path in (("--profile", own), ("--calibration", calibrated)):
        assert predict(scheduled, "--target", "2xH100", option, path) == 3
        told = capsys.readouterr()
        assert told.out == ""
        assert "on A100" in told.err
        assert "target is H100" in told.err
    assert predict(scheduled, "--target", "2xA100-40GB", "--profile", own) == 0


def test_a_measurement_of_another_machine_is_said_to_be_one(
    scheduled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "step"
    assert predict(scheduled, "--target", "2xH100", "-o", kept) == 0
    capsys.readouterr()
    assert predict(scheduled, "--target", "2xA100", "--against", kept, "--json") == 0
    warnings = json.loads(capsys.readouterr().out)["against"]["warnings"]
    assert "on H100 SXM" in warnings[0]
    assert "2xA100-80GB" in warnings[0]


def test_a_log_of_another_machine_is_warned_of(
    scheduled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "all_gather.log"
    log.write_text(
        "# nThread 1 nGpus 1 minBytes 1024 maxBytes 2048\n# all_gather_perf\n"
        "#  Rank  0 Group  0 Pid 1 on      node-0 device  0 [0000:01:00] AMD Instinct MI300X\n"
        "#  Rank  1 Group  0 Pid 2 on      node-0 device  1 [0000:02:00] AMD Instinct MI300X\n"
        " 1048576 262144 float none -1 50.0 20.97 10.49 0 50.0 20.97 10.49 0\n"
    )
    words = (scheduled, "--target", "2xH100", "--nccl-table", log, "--json")
    assert predict(*words) == 0
    (warning,) = json.loads(capsys.readouterr().out)["warnings"]
    assert "AMD Instinct MI300X" in warning
    assert "H100" in warning


FOR_TPUS = HLO.replace(
    "ROOT %copy.1 = bf16[8192,8192]{0,1} copy(%fusion.2)",
    "ROOT %copy.1 = bf16[8192,8192]{0,1} custom-call(%fusion.2),"
    ' custom_call_target="tpu_custom_call"',
)
REFUSED = (
    (2, "", "--target"),
    (2, "--target 8xH100", "2 devices"),
    (3, "--target 2xH100 --candidate fsdp", "scheduled"),
    (3, "--target 2xH100 --set xla_gpu_a=1", "scheduled"),
    (3, "--target 2xH100 --pgle", "scheduled"),
    (2, "--target 2xH100 --what-if fish=2x", "fish"),
    (2, "--target 2xH100 --what-if nic=-1x", "-1x"),
    (3, "--target 2xH100 --against nosuch", "nosuch"),
    (2, "--target 2xH100 --jobs 0", "--jobs"),
    (2, "--target 2xH100 --jitter -1", "--jitter"),
    (2, "--target 2xH100 --timeout -1", "--timeout"),
    (2, "--target 2xH100 --top 0", "--top"),
    (2, "--target 2xH100 -o x.txt", "use -o x"),
    (2, "--target 2xH100 -o nosuch/x.json", "mkdir -p nosuch"),
    (2, "--target 2xH100 --pgle-out pg.txt", "use --pgle-out pg.pbtxt"),
    (2, "--target 2xH100 --devices 3", "2 devices"),
)


def test_what_can_not_be_answered_is_one_clear_error(
    scheduled: Path, tmp_path: Path, golden: Golden
) -> None:
    (tmp_path / "for_tpus.hlo.txt").write_text(FOR_TPUS)
    (tmp_path / "nsys.sqlite").write_bytes(b"SQLite format 3\x00" + bytes(200))
    told = Transcript(tmp_path)
    for code, words, named in REFUSED:
        done = told.run("predict", scheduled.name, *words.split(), code=code)
        assert (done.stdout, done.stderr.count("error: ")) == ("", 1)
        assert named in done.stderr
    for name in ("for_tpus.hlo.txt", "nsys.sqlite"):
        told.run("predict", name, "--target", "2xH100", code=3)
    golden("predict_refused.txt", told.text)


def test_what_it_says(scheduled: Path, tmp_path: Path, golden: Golden) -> None:
    environment = {it: os.environ[it] for it in ("PATH", "COUNTERPOINT_CACHE")}
    told = Transcript(tmp_path, environment)
    words = (scheduled.name, "--target", "2xH100")
    told.run("predict", *words, "-o", "step.json")
    against = ("--against", "step.json", "--top", 3)
    told.run("predict", *words, "--what-if", "op:dot=0", "--what-if", "hbm=2x", *against, code=2)
    golden("predict.txt", told.text)


def test_a_program_for_tpus_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "step.txt"
    path.write_text(FOR_TPUS)
    assert predict(path, "--target", "2xH100") == 3
    assert " TPUs" in capsys.readouterr().err.splitlines()[0]


def test_a_seed_lets_devices_scatter_and_tells_the_same_again(
    scheduled: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = (scheduled, "--target", "2xH100", "--jitter", "7", "--json")
    told: list[object] = []
    for _ in range(2):
        assert predict(*words) == 0
        told.append(json.loads(capsys.readouterr().out))
    assert told[0] == told[1]


@pytest.mark.parametrize("name", ["step", "step.json", "step.json.gz"])
def test_a_kept_prediction_stays_one(
    name: str, scheduled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / name
    assert predict(scheduled, "--target", "2xH100", "--json", "-o", kept) == 0
    made = json.loads(capsys.readouterr().out)
    assert main(["explain", str(kept), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    for key, figure in made["breakdown"].items():
        assert told["breakdown"][key] == pytest.approx(figure, abs=2e-5), key
    assert told["utilisation"]["chip"] == made["utilisation"]["chip"]
    assert set(told["phases"]) == set(made["phases"])
    first, same = made["collectives"][0], told["collectives"][0]
    assert same["busbw_gbps"] == pytest.approx(first["busbw_gbps"], rel=1e-3)
    assert main(["explain", str(kept)]) == 0
    screen = capsys.readouterr().out
    assert screen.startswith("Profile   predicted,")
    assert "all 2 of 2xH100" in screen
    assert str(kept) in " ".join(screen.split())
    assert predict(scheduled, "--target", "2xH100", "--against", kept) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "a saved prediction" in told


def test_nothing_alike_is_refused_not_compared(
    scheduled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other.hlo.txt"
    other.write_text(
        "HloModule jit_other, is_scheduled=true\n\nENTRY %m (p: f32[999]) -> f32[999] {\n"
        "  %p = f32[999]{0} parameter(0)\n  ROOT %negate.5 = f32[999]{0} negate(%p)\n}\n"
    )
    kept = tmp_path / "other.json.gz"
    assert predict(other, "--target", "1xH100", "-o", kept) == 0
    capsys.readouterr()
    assert predict(scheduled, "--target", "2xH100", "--against", kept) == 3
    assert str(kept) in capsys.readouterr().err.splitlines()[0]


@pytest.mark.parametrize(("name", "said"), [("op:fusion.7", ": fusion"), ("op:dot", " of fusion")])
def test_a_name_that_the_program_lacks_costs_its_question_alone(
    name: str, said: str, scheduled: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = (scheduled, "--target", "2xH100", "--what-if", f"{name}=0", "--what-if", "hbm=2x")
    assert predict(*words, "--json") == 2
    told = capsys.readouterr()
    data = json.loads(told.out)
    assert [it["question"] for it in data["what_if"]] == ["hbm=2x"]
    assert [it["question"] for it in data["unanswered"]] == [f"{name}=0"]
    assert said in data["unanswered"][0]["error"]
    assert said in told.err
    assert "--what-if op:fusion." in told.err
    assert predict(*words) == 2
    assert "Predicted step" in capsys.readouterr().out


def test_what_the_shell_exports_is_told_not_to_count(
    scheduled: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XLA_FLAGS", "--xla_gpu_enable_pipelined_all_gather=true")
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    assert predict(scheduled, "--target", "2xH100", "--json") == 0
    notes = json.loads(capsys.readouterr().out)["notes"]
    (note,) = (it for it in notes if "XLA_FLAGS" in it)
    assert '--env XLA_FLAGS="$XLA_FLAGS"' in note
    assert "JAX_PLATFORMS" not in note


def test_the_last_line_is_a_command_that_works(
    scheduled: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert predict(scheduled, "--target", "2xH100", "--env", "NCCL_ALGO=Ring") == 0
    last = capsys.readouterr().out.strip().splitlines()[-1]
    assert "--env=NCCL_ALGO=Ring --what-if flops=2x,hbm=2x" in last
    words = shlex.split(last.partition("next: ")[2] or last)
    assert main(words[words.index("predict") :]) == 0
