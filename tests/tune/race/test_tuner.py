"""Studies carried out for real: processes under `counterpoint run`, on this machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from counterpoint.core.errors import InputError, UsageError
from counterpoint.flags.settings import Settings
from counterpoint.tune.arm import BASE, Acts, Arm, ArmChange, ArmOrigin
from counterpoint.tune.conclusion.conclude import conclude
from counterpoint.tune.executors.executor import Allocation, Gang, GangEnd, TrialJob, TrialLimits
from counterpoint.tune.executors.local import Local
from counterpoint.tune.plan import StudyPlan
from counterpoint.tune.race.tuner import run_study
from counterpoint.tune.statistics.estimate import DecisionRule
from counterpoint.tune.study.directory import open_study, read_study
from counterpoint.tune.study.ledger import Ledger
from counterpoint.tune.study.records import FORMAT, CandidateSeen, SearchEnded, StudyBegan
from counterpoint.tune.study.study import Study
from counterpoint.tune.trial.report import Purpose, TrialFailure
from tune_programs import program
from tune_studies import AT

pytestmark = pytest.mark.system

PLAN = StudyPlan(
    rule=DecisionRule(cap=2, looks=(2,)),
    confirm_rows=2,
    limits=TrialLimits(timeout_s=300.0, hang_after_s=30.0),
)


def variables(**values: str) -> Settings:
    return Settings(env=tuple(values.items()))


def arm(name: str, **values: str) -> Arm:
    it = ArmChange(dimension=name, choice="on", settings=variables(**values), acts=Acts.RUNTIME)
    return Arm(name=name, settings=it.settings, changes=(it,), origin=ArmOrigin.HAND)


def asked(command: tuple[str, ...], base: Settings | None = None) -> StudyBegan:
    return StudyBegan(
        format=FORMAT,
        version="0",
        question="q",
        workload="train.py",
        command=command,
        target=None,
        executor="local",
        base=base or Settings(),
        options=(),
        at=AT,
    )


def listed(ledger: Ledger, arms: tuple[Arm, ...]) -> None:
    if ledger.study.search is None:
        for it in arms:
            ledger.add(CandidateSeen(arm=it, at=AT))
        names = tuple(it.name for it in arms)
        ledger.add(SearchEnded(why="named by hand", shortlist=names, seconds=0.0, at=AT))


def tuned(
    where: Path,
    *arms: Arm,
    plan: StudyPlan = PLAN,
    stopped: Callable[[], bool] = lambda: False,
    said: list[str] | None = None,
) -> Study:
    """A study of those arms, as far as it comes now."""
    command = program(where.parent)
    with open_study(where, asked(command)) as ledger:
        listed(ledger, arms)
        heard = said if said is not None else []
        run_study(ledger, plan, Local(), where, heard.append, stopped)
        return ledger.study


def test_what_is_faster_is_found_and_all_else_told_apart(tmp_path: Path) -> None:
    said: list[str] = []
    plan = StudyPlan(
        rule=PLAN.rule, confirm_rows=2, limits=TrialLimits(timeout_s=300.0, hang_after_s=5.0)
    )
    study = tuned(
        tmp_path / "study",
        arm("fast", SAVES="0.2"),
        arm("same", OTHER="1"),
        arm("crashes", DOES="crash"),
        arm("hangs", DOES="hang"),
        arm("nan", DOES="nan"),
        arm("wrong", DOES="other", SAVES="0.3"),
        plan=plan,
        said=said,
    )
    told = conclude(study, plan)
    assert told.winner is not None
    assert told.winner.name == "fast"
    assert told.confirmed
    assert told.gain == pytest.approx(0.2, abs=0.01)
    status = {it.arm.name: it.status for it in told.rows}
    assert status == {
        BASE: "base",
        "fast": "winner",
        "same": "no effect",
        "crashes": "crash",
        "hangs": "hang",
        "nan": "NaN",
        "wrong": "other numbers",
    }
    assert "1 other setting: no effect" in told.sentence
    assert "4 failed (crash 1, hang 1, NaN 1, other numbers 1)" in told.sentence
    assert not any("faster, too" in it for it in told.notes)
    assert any("dropped crashes (crash)" in it for it in said)
    assert study.ended is not None
    assert not study.open_allocations
    confirmed_in = {
        it.started.allocation for it in study.trials if it.started.purpose is Purpose.CONFIRM
    }
    assert confirmed_in == {2}
    # Each trial is a Run of its own, and the journal alone says the same.
    runs = [tmp_path / "study" / it.started.directory for it in study.trials]
    assert all((it / "run.json").is_file() for it in runs)
    assert repr(read_study(tmp_path / "study")) == repr(study)  # NaN is not NaN


def test_a_base_that_fails_ends_it(tmp_path: Path) -> None:
    where = tmp_path / "study"
    with open_study(where, asked(program(tmp_path), variables(DOES="crash"))) as ledger:
        listed(ledger, (arm("a", OTHER="1"),))
        run_study(ledger, PLAN, Local(), where, lambda _: None, lambda: False)
        told = conclude(ledger.study, PLAN)
    assert "fails: crash" in told.sentence
    assert told.spent is not None
    assert told.spent.trials == 1


def test_ctrl_c_leaves_nothing_running_and_goes_on_to_the_caller(tmp_path: Path) -> None:
    where = tmp_path / "study"

    def ctrl_c() -> bool:
        if list((where / "runs").glob("*/rank0/stdout.log")):
            raise KeyboardInterrupt
        return False

    with pytest.raises(KeyboardInterrupt):
        tuned(where, arm("slow", OTHER="1"), stopped=ctrl_c)
    study = read_study(where)
    assert study.paused is not None
    assert not study.open_allocations
    assert [it.failure for it in study.trials] == [TrialFailure.INTERRUPTED]


def test_a_full_disk_pauses_with_one_clear_error(tmp_path: Path) -> None:
    where = tmp_path / "study"
    with pytest.raises(InputError, match="disk is full") as error:
        tuned(where, arm("full", DOES="full"))
    assert "to continue" in str(error.value)
    study = read_study(where)
    assert study.paused is not None
    assert study.ended is None


class _Broken:
    """Nodes whose scheduler answers no more: neither of what runs, nor when it is to end."""

    name = "local"

    def open(self) -> Allocation:
        return _BrokenNodes(Local().open())

    def sweep(self, identity: str) -> None:
        Local().sweep(identity)

    def describe(self) -> str:
        return Local().describe()


class _BrokenNodes:
    def __init__(self, real: Allocation) -> None:
        self.real = real

    @property
    def identity(self) -> str:
        return self.real.identity

    @property
    def nodes(self) -> tuple[str, ...]:
        return self.real.nodes

    def start(self, job: TrialJob) -> Gang:
        return _BrokenGang(self.real.start(job))

    def close(self) -> None:
        self.real.close()
        raise UsageError("the nodes can't be given back")


class _BrokenGang:
    def __init__(self, real: Gang) -> None:
        self.real = real

    @property
    def identity(self) -> str:
        return self.real.identity

    def poll(self) -> GangEnd | None:
        raise UsageError("squeue: unable to contact the controller")

    def kill(self) -> None:
        self.real.kill()
        raise UsageError("scancel: unable to contact the controller")


def test_a_scheduler_that_answers_no_more_pauses_the_study(tmp_path: Path) -> None:
    where, said = tmp_path / "study", list[str]()
    with open_study(where, asked(program(tmp_path))) as ledger:
        listed(ledger, (arm("a", OTHER="1"),))
        with pytest.raises(UsageError, match="squeue: unable"):
            run_study(ledger, PLAN, _Broken(), where, said.append, lambda: False)
    study = read_study(where)
    assert study.paused is not None
    assert study.paused.why.startswith("squeue: unable")
    assert [it.failure for it in study.trials] == [TrialFailure.INTERRUPTED]
    assert study.open_allocations == (1,)  # for whoever goes on to sweep
    assert any("given back" in it for it in said)


_TUNER = """
import sys
from pathlib import Path
sys.path[:0] = sys.argv[3:]
from test_tuner import PLAN, arm, tuned
tuned(Path(sys.argv[1]), arm("slow", SLEEPS=sys.argv[2]), plan=PLAN)
"""


def test_a_tuner_that_was_killed_is_gone_on_from(tmp_path: Path) -> None:
    where = tmp_path / "study"
    here = Path(__file__).parent
    paths = [str(here), str(here.parent.parent)]
    tuner = subprocess.Popen(
        [sys.executable, "-c", _TUNER, str(where), "1", *paths], start_new_session=True
    )

    def slow_runs() -> bool:
        return any(where.glob("runs/*-slow/rank0/stdout.log"))

    wait_until(slow_runs)
    os.kill(tuner.pid, signal.SIGKILL)
    tuner.wait()
    dead = read_study(where)
    assert [it.started.arm for it in dead.running] == ["slow"]
    study = tuned(where, arm("slow", SLEEPS="1"), stopped=lambda: len(started(where)) > 4)
    assert study.trials[2].failure is TrialFailure.INTERRUPTED
    assert study.trials[3].started.allocation == 2
    assert study.trials[3].started.arm == "slow"
    assert study.trials[3].started.row == study.trials[2].started.row


def started(where: Path) -> list[Path]:
    return list((where / "runs").glob("*/run.json"))


def wait_until(holds: Callable[[], bool], seconds: float = 120.0) -> None:
    until = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.1)
