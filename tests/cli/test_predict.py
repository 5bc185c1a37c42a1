"""`counterpoint predict` as a user runs it, on a program that is already scheduled."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from counterpoint.cli.app import main
from timelines import HLO

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
    assert "Where the predicted step goes" in out
    assert "tokens/s" in out
    assert "all figures are predicted" in out


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
        assert "the target is H100" in told.err
    assert predict(scheduled, "--target", "2xA100-40GB", "--profile", own) == 0


def test_a_measurement_of_another_machine_is_said_to_be_one(
    scheduled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "step"
    assert predict(scheduled, "--target", "2xH100", "-o", kept) == 0
    capsys.readouterr()
    assert predict(scheduled, "--target", "2xA100", "--against", kept, "--json") == 0
    warnings = json.loads(capsys.readouterr().out)["against"]["warnings"]
    assert "measured on H100 SXM, but the prediction is for 2xA100-80GB" in warnings[0]


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
    assert "was measured on AMD Instinct MI300X, but the target is H100" in warning


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ((), 2, "--target is missing"),
        (("--target", "8xH100"), 2, "made for 2 devices, but 8xH100 has 8"),
        (("--target", "2xH100", "--candidate", "fsdp"), 3, "is already scheduled"),
        (("--target", "2xH100", "--set", "xla_gpu_a=1"), 3, "is already scheduled"),
        (("--target", "2xH100", "--pgle"), 3, "is already scheduled"),
        (("--target", "2xH100", "--what-if", "fish=2x"), 2, "there is no part fish"),
        (("--target", "2xH100", "--what-if", "nic=-1x"), 2, "is not a factor"),
        (("--target", "2xH100", "--against", "nosuch"), 3, "nosuch: no such file"),
        (("--target", "2xH100", "--jobs", "0"), 2, "--jobs takes a number of at least 1"),
        (("--target", "2xH100", "--jitter", "-1"), 2, "--jitter takes a number of at least 0"),
        (("--target", "2xH100", "--timeout", "-1"), 2, "--timeout takes a number"),
        (("--target", "2xH100", "--top", "0"), 2, "--top takes a number"),
        (("--target", "2xH100", "-o", "x.txt"), 2, "--target 2xH100 -o x"),
        (("--target", "2xH100", "-o", "nosuch/x.json"), 2, "next: mkdir -p nosuch"),
        (("--target", "2xH100", "--pgle-out", "pg.txt"), 2, "--target 2xH100 --pgle-out pg.pbtxt"),
        (("--target", "2xH100", "--devices", "3"), 2, "is already lowered, for 2 devices"),
    ],
    ids=lambda it: " ".join(it) or "no target" if isinstance(it, tuple) else "",
)
def test_what_can_not_be_answered_is_one_clear_error(
    scheduled: Path,
    words: tuple[str, ...],
    code: int,
    said: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert predict(scheduled, *words) == code
    told = capsys.readouterr()
    assert told.out == ""
    assert said in told.err


def test_a_program_for_tpus_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "step.txt"
    path.write_text(
        HLO.replace(
            "ROOT %copy.1 = bf16[8192,8192]{0,1} copy(%fusion.2)",
            "ROOT %copy.1 = bf16[8192,8192]{0,1} custom-call(%fusion.2),"
            ' custom_call_target="tpu_custom_call"',
        )
    )
    assert predict(path, "--target", "2xH100") == 3
    assert "was made for TPUs" in capsys.readouterr().err


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
    assert "simulated: one device represents all 2 of 2xH100" in screen
    assert str(kept) in " ".join(screen.split())
    assert predict(scheduled, "--target", "2xH100", "--against", kept) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "a saved prediction, not a measurement" in told


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
    assert "nothing in it matches the prediction" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "said"), [("op:fusion.7", "similar names: fusion"), ("op:dot", "it is part of fusion")]
)
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
    assert "next: --what-if op:fusion." in told.err
    assert predict(*words) == 2
    assert "Predicted step" in capsys.readouterr().out


def test_what_the_shell_exports_is_told_not_to_count(
    scheduled: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XLA_FLAGS", "--xla_gpu_enable_pipelined_all_gather=true")
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    assert predict(scheduled, "--target", "2xH100", "--json") == 0
    notes = json.loads(capsys.readouterr().out)["notes"]
    note = next(it for it in notes if "ignoring variables" in it)
    assert 'exported in your shell: XLA_FLAGS; to apply: --env XLA_FLAGS="$XLA' in note


def test_the_last_line_is_a_command_that_works(
    scheduled: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert predict(scheduled, "--target", "2xH100", "--env", "NCCL_ALGO=Ring") == 0
    last = capsys.readouterr().out.strip().splitlines()[-1]
    assert "--env=NCCL_ALGO=Ring --what-if flops=2x,hbm=2x" in last
    words = shlex.split(last.partition("next: ")[2] or last)
    assert main(words[words.index("predict") :]) == 0


def test_a_file_of_another_kind_is_named_in_its_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "nsys.sqlite"
    path.write_bytes(b"SQLite format 3\x00" + bytes(200))
    assert predict(path, "--target", "2xH100") == 3
    told = capsys.readouterr().err
    assert str(path) in told
    assert "next: " in told
