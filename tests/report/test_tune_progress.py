"""What happens in a study, as lines; how it stands; and both on a terminal and in a pipe."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

import tune_conclusions
from counterpoint.cli.study_progress import RefreshIntervals, StudyProgress
from counterpoint.core.basis import Range, Unknown
from counterpoint.report.tune.progress import event_lines, study_status
from counterpoint.tune.conclusion.conclude import conclude
from counterpoint.tune.plan import StudyPlan
from counterpoint.tune.space.space import LeftOut
from counterpoint.tune.statistics.estimate import ArmVerdict
from counterpoint.tune.study.directory import open_study
from counterpoint.tune.study.records import (
    Paused,
    SpaceMade,
    StudyBegan,
    StudyEnded,
    TrialEnded,
)
from counterpoint.tune.study.study import Study
from counterpoint.tune.trial.report import Purpose, TrialFailure
from golden_files import Golden, cases
from terminals import Terminal
from tune_studies import AT, Made, arm, report

FAST = RefreshIntervals(look=0.01, again=0.0)
NVLS = arm("NVLS off")
BUFFERS = arm("command buffers off")


def between(before: Made, add: Callable[[Made], object]) -> list[str]:
    """What is told of the records that come."""
    earlier = before.study
    add(before)
    return event_lines(earlier, before.study)


def test_each_thing_that_happens_is_a_line(golden: Golden) -> None:
    made = Made(NVLS, BUFFERS)
    space = SpaceMade(dimensions=(("NVLS", 1), ("x", 3)), left_out=(LeftOut("y", "n"),), at=AT)
    space = replace(space, notes=("jaxlib 9 is not known",))
    crash = report(failure=TrialFailure.CRASH)
    entered = Made(NVLS).entered(NVLS)
    told = {
        "the shortlist": event_lines(None, made.study),
        "the space": between(made, lambda it: it.add(space)),
        "two arms enter": between(made, lambda it: it.entered(NVLS, BUFFERS)),
        "two trials of the base": between(made, lambda it: it.noise()),
        "a trial that crashes": between(
            made, lambda it: it.ran("NVLS off", crash, Purpose.SCREEN, 1)
        ),
        "an arm is dropped": between(
            made, lambda it: it.dropped("NVLS off", "crash", "it failed twice")
        ),
        "a pause": between(made, lambda it: it.add(Paused(why="interrupted", at=AT))),
        "the end": between(made, lambda it: it.add(StudyEnded(why="decided", at=AT))),
        "the end of a race in which not all is decided": between(
            entered, lambda it: it.add(StudyEnded(why="every arm is decided", at=AT))
        ),
        "a profile, which is in no row": between(
            Made(NVLS).entered(NVLS).opened(),
            lambda it: it.ran("NVLS off", report(None), Purpose.PROFILE, -1),
        ),
    }
    assert event_lines(made.study, made.study) == []
    assert [len(lines) for lines in told.values()] == [1, 2, 1, 3, 1, 1, 1, 1, 1, 1]
    (end,) = told["the end of a race in which not all is decided"]
    assert "decided" not in end
    golden("study_events.txt", cases({name: "\n".join(lines) for name, lines in told.items()}))


def running() -> Study:
    made = Made(NVLS).entered(NVLS).noise()
    made.started("NVLS off", Purpose.RACE, 2)
    return made.study


def test_how_it_stands(golden: Golden) -> None:
    now = datetime.fromisoformat(AT).replace(minute=2, second=7)
    status = study_status(running(), tune_conclusions.unfinished(), now)
    spent, best, runs = status.lines
    assert "2 trials" in spent
    assert best.endswith(" +3.0%")
    assert runs.endswith(" 2:07")
    golden("study_status.txt", "\n".join((*status.lines, "")))


def test_the_best_so_far_is_never_one_that_is_slower() -> None:
    now = datetime.now(UTC)
    none = tune_conclusions.nothing()
    assert study_status(running(), none, now).best.endswith(": the base")
    estimated = tune_conclusions.estimate("x", 0.01, Range(0.002, 0.02), ArmVerdict.OPEN)
    row = replace(none.rows[1], raced=estimated)
    status = study_status(running(), replace(none, rows=(none.rows[0], row)), now)
    assert status.best.endswith(": NVLS off +1.0% [+0.2%, +2.0%]")


def test_who_has_no_figure_is_not_the_best_so_far() -> None:
    none = tune_conclusions.nothing()
    estimated = tune_conclusions.estimate(
        "x", math.nan, Unknown("never beside the base"), ArmVerdict.OPEN
    )
    rows = (none.rows[0], replace(none.rows[1], raced=estimated))
    assert study_status(running(), replace(none, rows=rows), datetime.now(UTC)).best == ""


def test_a_trial_that_runs_is_not_spent_and_no_result_has_no_best() -> None:
    made = Made(NVLS).entered(NVLS).opened()
    made.started("base", Purpose.NOISE, 0)
    now = datetime.fromisoformat(AT).replace(minute=1, second=3)
    status = study_status(made.study, conclude(made.study, StudyPlan()), now)
    assert status.lines == ("running trial 1: base (noise, row 1), 1:03",)
    made.add(TrialEnded(number=1, report=report(1.0), wall_s=63.0, at=AT))
    status = study_status(made.study, conclude(made.study, StudyPlan()), now)
    assert status.lines == ("spent: 1 trial, 63 s",)


def test_before_anything_ran_nothing_is_the_best() -> None:
    made = Made(NVLS)
    assert study_status(made.study, tune_conclusions.foreseen(), datetime.now(UTC)).lines == ()


@pytest.mark.parametrize("terminal", [True, False])
def test_a_journal_that_grows_is_followed(tmp_path: Path, *, terminal: bool) -> None:
    made = Made(NVLS).entered(NVLS).noise()
    records = list(made.records)
    first, *rest = records
    assert isinstance(first, StudyBegan)
    stream = Terminal(terminal=terminal)
    with StudyProgress(tmp_path / "s", stream, FAST) as progress:
        progress.say("compiling 3 of 100")
        if terminal:
            stream.wait_for("compiling 3 of 100")
        with open_study(tmp_path / "s", first) as ledger:
            for it in rest:
                ledger.add(it)
            stream.wait_for("counterpoint: trial 2, base")
            stream.wait_for("spent: 2 trials")
            progress.note("interrupted: in order")
    text = stream.getvalue()
    stays = [it.rpartition("\x1b[K")[2] for it in text.splitlines() if "counterpoint: " in it]
    entered = between(Made(NVLS), lambda it: it.entered(NVLS))
    assert [stays.count(f"counterpoint: {line}") for line in entered] == [1]
    assert "counterpoint: interrupted: in order" in stays
    assert ("\x1b" in text) is terminal
    if terminal:
        assert text.endswith(("\x1b[K", "\n"))  # the lines that are redrawn are wiped in the end


def test_what_an_earlier_sitting_did_is_not_told_again(tmp_path: Path) -> None:
    first, *rest = Made(NVLS).entered(NVLS).noise().records
    assert isinstance(first, StudyBegan)
    stream = Terminal(terminal=False)
    with open_study(tmp_path / "s", first) as ledger:
        for it in rest:
            ledger.add(it)
        with StudyProgress(tmp_path / "s", stream, RefreshIntervals(look=0.01, again=3600.0)):
            ledger.add(StudyEnded(why="decided", at=AT))
            stream.wait_for("done: decided")
    assert "trial 1" not in stream.getvalue()


def test_a_stream_that_is_gone_does_not_stop_the_work(tmp_path: Path) -> None:
    stream = Terminal(terminal=True)
    with StudyProgress(tmp_path / "s", stream, FAST) as progress:
        progress.say("compiling")
        stream.wait_for("compiling")
        stream.close()
        progress.note("anything")


def test_lines_that_are_redrawn_leave_room_for_what_a_terminal_echoes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    stream = Terminal(terminal=True)
    with StudyProgress(tmp_path / "s", stream, FAST) as progress:
        progress.say("x" * 200)
        stream.wait_for("xxx")
    drawn = stream.getvalue().replace("\r", "").split("\x1b[K")
    assert max(map(len, drawn)) == 57
