"""A study's directory: begun, gone on with, never taken over."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from counterpoint.core.errors import InputError, UsageError
from counterpoint.flags.settings import Settings
from counterpoint.tune.plan import Budget, StudyPlan
from counterpoint.tune.study.directory import JOURNAL, open_study, options_of, plan_of, read_study
from counterpoint.tune.study.lines import line_of
from counterpoint.tune.study.records import (
    FORMAT,
    ArmEntered,
    Paused,
    StudyBegan,
    StudyEnded,
    TrialEnded,
    TrialStarted,
)
from counterpoint.tune.trial.report import Purpose
from tune_studies import BASE_ARM, arm, report

BEGAN = StudyBegan(
    format=FORMAT,
    version="0.1.0",
    question="q",
    workload="python train.py",
    command=("python", "train.py"),
    target=None,
    executor="local",
    base=Settings(),
    options=options_of(StudyPlan(budget=Budget(trials=20))),
    at="now",
    parts=(("the command", "1"), ("the arms by hand (--arm)", "1")),
)
BASE = ArmEntered(arm=BASE_ARM, at="1")
TRIAL = TrialStarted(
    number=1, arm="base", purpose=Purpose.NOISE, row=0, allocation=1, directory="runs/1", at="2"
)


def test_a_study_goes_on_where_it_was(tmp_path: Path) -> None:
    place = tmp_path / "studies" / "mine"
    with open_study(place, BEGAN) as ledger:
        ledger.add(BASE)
        ledger.add(TRIAL)
        ledger.add(Paused(why="Ctrl-C", at="3"))
    assert read_study(place).paused is not None
    with open_study(place, BEGAN) as ledger:
        assert [it.started for it in ledger.study.running] == [TRIAL]
        assert ledger.study.paused is None
        assert ledger.study.resumed is not None
    assert read_study(place) == ledger.study


def test_going_on_with_a_larger_budget_is_written_down(tmp_path: Path) -> None:
    with open_study(tmp_path / "mine", BEGAN) as ledger:
        ledger.add(StudyEnded(why="budget", at="3"))
    more = replace(BEGAN, options=options_of(StudyPlan(budget=Budget(trials=40))))
    with open_study(tmp_path / "mine", more) as ledger:
        assert ledger.study.ended is None
        assert plan_of(ledger.study).budget.trials == 40
    assert plan_of(read_study(tmp_path / "mine")).budget.trials == 40


def test_going_on_that_is_refused_leaves_no_trace(tmp_path: Path) -> None:
    place = tmp_path / "mine"
    with open_study(place, BEGAN) as ledger:
        ledger.add(BASE)
        ledger.add(TRIAL)
    before = (place / JOURNAL).read_bytes()
    with pytest.raises(InputError, match="another program"), open_study(place, BEGAN):
        raise InputError("another program")
    assert (place / JOURNAL).read_bytes() == before
    with open_study(place, BEGAN) as ledger:
        ledger.add(Paused(why="Ctrl-C", at="3"))
    study = read_study(place)
    assert (study.resumed is not None, study.paused is not None) == (True, True)


@pytest.mark.parametrize("text", ["x\n", '{"n": 0}\n', "0", '{"n": 1, "is": "StudyBegan"'])
def test_a_file_that_only_has_a_journal_s_name_is_left_alone(tmp_path: Path, text: str) -> None:
    (tmp_path / JOURNAL).write_text(text)
    for begin in (lambda: open_study(tmp_path, BEGAN).__enter__(), lambda: read_study(tmp_path)):
        with pytest.raises(InputError, match="damaged"):
            begin()
    assert (tmp_path / JOURNAL).read_text() == text


def test_a_journal_from_before_there_were_parts_is_still_read(tmp_path: Path) -> None:
    old = replace(BEGAN, parts=())
    with open_study(tmp_path / "mine", old) as ledger:
        ledger.add(BASE)
        ledger.add(TRIAL)
    with open_study(tmp_path / "mine", BEGAN) as ledger:
        assert ledger.study.began == old
    other = replace(BEGAN, question="another")
    with pytest.raises(UsageError) as refused, open_study(tmp_path / "mine", other):
        pass
    assert "process layout changed" in str(refused.value)


def test_a_study_that_is_done_is_only_looked_at(tmp_path: Path) -> None:
    with open_study(tmp_path / "mine", BEGAN) as ledger:
        ledger.add(StudyEnded(why="decided", at="3"))
    before = (tmp_path / "mine" / JOURNAL).read_bytes()
    with open_study(tmp_path / "mine", BEGAN) as ledger:
        assert ledger.study.ended is not None
    assert (tmp_path / "mine" / JOURNAL).read_bytes() == before


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"workload": "python other.py"},
            "the workload changed from python train.py to python other",
        ),
        ({"target": "8xH100"}, "the target changed from None to 8xH100"),
        ({"base": Settings((("xla_a", "1"),))}, "the base's settings changed"),
        ({"parts": (("the arms by hand (--arm)", "2"),)}, "why: the arms by hand (--arm) changed"),
        ({}, "the space or the process layout changed"),
    ],
)
def test_another_study_s_directory_is_refused_and_left_alone(
    tmp_path: Path, change: dict[str, object], said: str
) -> None:
    with open_study(tmp_path / "mine", BEGAN) as ledger:
        ledger.add(BASE)
        ledger.add(TRIAL)
    before = (tmp_path / "mine" / JOURNAL).read_bytes()
    other = replace(BEGAN, question="another", **change)  # pyright: ignore[reportArgumentType]
    with (
        pytest.raises(UsageError, match=r"another study: python train\.py") as refused,
        open_study(tmp_path / "mine", other),
    ):
        pass
    assert said in str(refused.value)
    assert (tmp_path / "mine" / JOURNAL).read_bytes() == before
    with open_study(tmp_path / "mine", BEGAN):
        pass  # and it is not locked


def test_a_directory_with_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with (
        pytest.raises(UsageError, match="is not empty"),
        open_study(tmp_path, BEGAN),
    ):
        pass
    assert [it.name for it in tmp_path.iterdir()] == ["notes.txt"]


def test_a_place_that_can_t_be_written_to_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(UsageError, match=r"can't write .*file/mine"),
        open_study(tmp_path / "file" / "mine", BEGAN),
    ):
        pass


def test_a_tuner_that_died_before_its_first_line_is_begun_anew(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / JOURNAL).write_bytes(b'{"n": 0, "is": "Stu')
    with pytest.raises(InputError, match="study is empty"):
        read_study(tmp_path / "mine")
    with open_study(tmp_path / "mine", BEGAN) as ledger:
        assert ledger.study.began == BEGAN
    assert read_study(tmp_path / "mine").began == BEGAN


def test_reading_what_is_no_study_says_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such directory"):
        read_study(tmp_path / "none")
    with pytest.raises(InputError, match="no such directory"):
        read_study(tmp_path / ("x" * 5000))
    with pytest.raises(InputError, match="not a study"):
        read_study(tmp_path)


def test_a_study_that_fails_before_it_began_leaves_its_place_to_the_next(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    for place in ("mine", "studies/mine", "own/mine"):
        with pytest.raises(UsageError, match="no such arm"), open_study(tmp_path / place, BEGAN):
            raise UsageError("no such arm")
    assert [it.name for it in tmp_path.rglob("*")] == ["own"]
    with suppress(UsageError), open_study(tmp_path / "mine", BEGAN) as ledger:
        ledger.add(BASE)
        ledger.add(TRIAL)
        raise UsageError("later")
    assert read_study(tmp_path / "mine").trials


def test_records_that_can_t_follow_each_other_are_damage(tmp_path: Path) -> None:
    ended = TrialEnded(number=2, report=report(), wall_s=1.0, at="3")
    other = ArmEntered(arm=arm("fast"), at="1")
    for number, records in enumerate(
        ((BEGAN,), (TRIAL,), (other,), (BASE, TRIAL, TRIAL), (BASE, TRIAL, ended))
    ):
        place = tmp_path / str(number)
        place.mkdir()
        lines = [line_of(record, at) for at, record in enumerate((BEGAN, *records))]
        (place / JOURNAL).write_bytes(b"".join(lines))
        with pytest.raises(InputError, match=f"damaged: line {len(records) + 1}: "):
            read_study(place)
        with pytest.raises(InputError, match="damaged"), open_study(place, BEGAN):
            pass
