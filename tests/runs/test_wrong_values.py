"""Values of wrong types and wrong values in a Run: one clear error, or a line that is left out."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from command_line import in_process
from counterpoint.core.errors import InputError
from counterpoint.runs.outcomes import Outcome, OutcomeKind
from counterpoint.runs.reader import list_runs, read_run
from counterpoint.runs.run import RunSettings
from counterpoint.runs.scores import Score, seen_steps
from counterpoint.runs.writer import RankStart, RunStart, RunWriter

START = RunStart(
    name="train",
    command=("python", "train.py"),
    cwd="/home/me",
    settings=RunSettings((), ()),
    launcher="local",
    world_size=1,
    version="0.1.0",
)


def written(path: Path) -> Path:
    """A Run that ended well."""
    writer = RunWriter.claim(path, START)
    writer.add_rank(0)
    writer.start_rank(RankStart(0), os.getpid())
    writer.end_rank(0, Outcome(OutcomeKind.OK, 0))
    writer.end()
    return path


def test_times_that_no_step_takes_are_left_out(tmp_path: Path) -> None:
    rank = written(tmp_path / "run") / "rank0"
    good: list[object] = [
        {"step": number, "start_s": 10.0 + number, "source": "annotation"} for number in range(12)
    ]
    wrong: list[object] = [
        {"step": 12, "start_s": 3.0, "source": "annotation"},  # the clock went back
        {"step": 13, "start_s": float("inf"), "source": "annotation"},
        {"step": 14, "start_s": 23.0, "source": "annotation", "seconds": 0.0},
        {"step": 15, "start_s": "24", "source": ["annotation"]},
        "[" * 5000 + "\n",
    ]
    lines = (it if isinstance(it, str) else json.dumps(it) + "\n" for it in (*good, *wrong))
    (rank / "agent" / "steps-7.jsonl").write_text("".join(lines))
    run = read_run(tmp_path / "run")
    assert set(run.ranks[0].step_seconds) == {1.0}
    score = seen_steps(run)
    assert isinstance(score, Score)
    assert score.seconds == 1.0
    assert any(it.startswith("steps-7.jsonl: 4 damaged ") for it in run.ranks[0].notes)


def test_times_with_and_without_a_zone_have_an_order(tmp_path: Path) -> None:
    for name, started in (("a", "2026-01-02T00:00:00"), ("b", "2026-01-01T00:00:00+00:00")):
        path = written(tmp_path / name) / "run.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"started": started}))
    assert [run.name for run in list_runs(tmp_path)] == ["train", "train"]
    assert [run.path.name for run in list_runs(tmp_path)] == ["b", "a"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("command", "python"),
        ("settings", []),
        ("settings", {"xla_flags": [["a"]], "env": {}}),
        ("settings", {"xla_flags": [], "env": {"A": 1}}),
        ("ranks", "many"),
        ("outcome", {"kind": "glad"}),
        ("started", "yesterday"),
        ("ended", 5),
    ],
)
def test_one_bad_run_is_named_and_the_others_are_listed(
    tmp_path: Path, field: str, value: object
) -> None:
    written(tmp_path / "good")
    path = written(tmp_path / "bad") / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {field: value}))
    with pytest.raises(InputError) as refused:
        read_run(tmp_path / "bad")
    assert "run.json" in refused.value.what
    assert field in refused.value.what or str(value) in refused.value.what
    for words in ((), ("--json",)):
        done = in_process("runs", tmp_path, *words)
        assert done.returncode == 0
        assert "good" in done.stdout
        assert "bad" in done.stdout


def test_a_deep_manifest_is_one_bad_run(tmp_path: Path) -> None:
    written(tmp_path / "good")
    head = '{"schema": "counterpoint.run/1", "name": '
    (written(tmp_path / "bad") / "run.json").write_text(head + "[" * 100_000)
    done = in_process("runs", tmp_path)
    assert done.returncode == 0
    assert "nested too deep" in done.stdout


def test_records_are_for_their_owner_alone(tmp_path: Path) -> None:
    """The environment that they hold may have tokens in it."""
    run = written(tmp_path / "run")
    for record in (run / "run.json", run / "rank0" / "rank.json"):
        assert record.stat().st_mode & 0o077 == 0
