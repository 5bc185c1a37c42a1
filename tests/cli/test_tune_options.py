"""`counterpoint tune` before anything runs: what options come to, and what is refused."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from command_line import in_process
from counterpoint.cli.app import main
from counterpoint.core.bounds import read_share
from counterpoint.core.errors import UsageError
from counterpoint.tune.budget import read_budget
from counterpoint.tune.command_line import read_request
from counterpoint.tune.executors.choose import ExecutorOptions
from counterpoint.tune.executors.executor import TrialLimits
from counterpoint.tune.executors.local import LocalOptions
from counterpoint.tune.options import (
    PlaceOptions,
    RaceOptions,
    SearchOptions,
    TriedOptions,
    TuneOptions,
)
from counterpoint.tune.plan import Budget
from counterpoint.tune.request import TuneRequest
from counterpoint.workflow.forecast.options import ForecastOptions, Where
from counterpoint.workflow.variant import BaseSettings

Run = Callable[..., tuple[int, str, str]]
TRAIN = ("python", "train.py")
LEVEL = "xla_gpu_autotune_level"


@pytest.fixture(autouse=True)
def scripts(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """The scripts that these tests name: one that does not exist is refused."""
    here = tmp_path_factory.mktemp("scripts")
    (here / "train.py").touch()
    (here / "train_llm.py").touch()
    monkeypatch.chdir(here)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A command line in an empty directory: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str, str]:
        code = main(["tune", *arguments])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


def asked(
    *command: str,
    predict: tuple[str, ...] | None = None,
    target: str | None = None,
    out: Path | None = None,
    **groups: Any,  # noqa: ANN401 - those of TuneOptions
) -> TuneRequest:
    options = TuneOptions(where=Where(target=target), **groups)
    return read_request(command, options, out, predict)


@pytest.mark.parametrize(
    ("text", "budget"),
    [
        ("2h", Budget(seconds=7200.0)),
        ("90m", Budget(seconds=5400.0)),
        ("1h30m", Budget(seconds=5400.0)),
        ("1.5 h", Budget(seconds=5400.0)),
        ("20 trials", Budget(trials=20)),
        ("20trials", Budget(trials=20)),
        ("20 trials, 2h", Budget(trials=20, seconds=7200.0)),
        ("2h and 1 trial", Budget(trials=1, seconds=7200.0)),
        ("2 hours", Budget(seconds=7200.0)),
        ("1 hour 30 min", Budget(seconds=5400.0)),
        ("90 seconds", Budget(seconds=90.0)),
        ("1 day", Budget(seconds=86400.0)),
    ],
)
def test_a_budget_as_people_write_it(text: str, budget: Budget) -> None:
    assert read_budget(text) == budget


@pytest.mark.parametrize(
    "text",
    [
        *("20", "2x", "", "0h", "0 trials", "1.5 trials", "two hours", "-2h", "0 trials, 2h"),
        *("3 trials, 4 trials", "2h,3h", "2h 3 hours", "２h", "٢h"),  # noqa: RUF001
    ],
)
def test_a_budget_that_is_none(text: str) -> None:
    with pytest.raises(UsageError, match="--budget") as refused:
        read_budget(text)
    assert refused.value.next == "use --budget '20 trials, 2h'"


def test_two_hours_are_the_budget_where_none_is_given_and_something_is_run() -> None:
    arm = TriedOptions(arm=("NCCL_NVLS_ENABLE=1",))
    assert asked(*TRAIN, tried=arm).plan.budget == Budget(seconds=7200.0)
    given = RaceOptions(budget="20 trials")
    assert asked(*TRAIN, tried=arm, race=given).plan.budget == Budget(trials=20)
    assert asked(predict=("step.mlir",), target="8xH100").plan.budget == Budget()


def test_options_of_the_command_are_arms() -> None:
    tried = TriedOptions(arm=("--remat",), vary=("batch=8,16",))
    assert asked(*TRAIN, tried=tried).arms == ("--remat", "--batch 8", "--batch 16")


def test_a_share_as_people_write_it() -> None:
    assert read_share("--x", "2%", example="2%") == pytest.approx(0.02)
    assert read_share("--x", "0.005", example="2%") == pytest.approx(0.005)
    for text in ("2", "60%", "x", "-1%", "", "２%"):  # noqa: RUF001
        with pytest.raises(UsageError, match="--x "):
            read_share("--x", text, example="2%")


def test_a_command_with_a_target_is_predicted_and_run() -> None:
    made = asked(*TRAIN, target="2x8xH100", search=SearchOptions(confirm=4))
    assert (made.measure, made.predicts, made.workload, made.confirm) == (True, True, None, 4)
    assert made.command == TRAIN
    assert made.prediction is not None


def test_a_command_alone_is_run_and_a_workload_alone_predicted(tmp_path: Path) -> None:
    assert not asked(*TRAIN, tried=TriedOptions(arm=("--xla_a=1",))).predicts
    for predict in ("step.py:make", str(tmp_path)):
        assert not asked(predict=(predict,), target="8xH100").measure


@pytest.mark.parametrize(
    ("predict", "confirm"), [((), None), (None, 0)], ids=["--predict alone", "--confirm 0"]
)
def test_a_command_may_be_predicted_only(
    predict: tuple[str, ...] | None, confirm: int | None
) -> None:
    made = asked(
        *TRAIN,
        predict=predict,
        target="8xH100",
        search=SearchOptions(confirm=confirm),
    )
    assert (made.measure, made.workload, made.command) == (False, None, TRAIN)


def test_the_plan_is_what_was_said() -> None:
    base = BaseSettings(set_=("xla_gpu_autotune_level=1",), env=("NCCL_DEBUG=INFO",))
    own = ExecutorOptions(local=LocalOptions(gpus="0,1", cpus="0-3"))
    made = asked(
        *TRAIN,
        target="8xH100",
        tried=TriedOptions(base=base, seed=7),
        search=SearchOptions(candidates=30, shortlist=5),
        forecast=ForecastOptions(jobs=2),
        race=RaceOptions(
            budget="20 trials, 2h",
            target_gain="2%",
            cap=5,
            limits=TrialLimits(steps=40, timeout_s=600.0, hang_after_s=60.0),
            loss_tolerance="0.1%",
            ablate=True,
            confirm_rows=3,
        ),
        indifferent="1%",
        executor="local",
        place=PlaceOptions(ranks_per_node=2, per="gpu", own=own),
    )
    plan = made.plan
    assert plan.budget == Budget(trials=20, seconds=7200.0)
    assert (plan.candidates, plan.shortlist, plan.jobs, plan.seed) == (30, 5, 2, 7)
    assert (plan.target_gain, plan.loss_tolerance) == (pytest.approx(0.02), pytest.approx(0.001))
    assert (plan.rule.cap, plan.rule.looks, plan.rule.indifferent) == (5, (2, 4, 5), 0.01)
    assert (plan.limits.steps, plan.limits.timeout_s, plan.limits.hang_after_s) == (40, 600, 60)
    assert (plan.confirm_rows, plan.ablate) == (3, True)
    assert (plan.shape.per, plan.shape.ranks_per_node, plan.shape.nodes) == ("gpu", 2, 1)
    assert made.executor_options == own
    assert made.base.flags == {"xla_gpu_autotune_level": "1"}
    assert made.base.variables == {"NCCL_DEBUG": "INFO"}


def test_what_the_shell_exports_stands_before_the_base(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLA_FLAGS", f"--xla_dump_to=there --{LEVEL}=2")
    made = asked(
        *TRAIN, tried=TriedOptions(base=BaseSettings(set_=(f"{LEVEL}=3",)), arm=("--xla_c=1",))
    )
    assert made.base.flags == {"xla_dump_to": "there", LEVEL: "3"}
    assert asked(predict=("step.py:make",), target="8xH100").base.flags == {}


def test_nodes_are_those_of_the_allocation_or_of_the_target(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    batch = asked(*TRAIN, target="4x8xH100", executor="slurm-batch")
    assert batch.plan.shape.nodes == 4
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("SLURM_JOB_NUM_NODES", "3")
    assert asked(*TRAIN, target="4x8xH100").plan.shape.nodes == 3
    assert asked(*TRAIN, target="4x8xH100", place=PlaceOptions(nodes=2)).plan.shape.nodes == 2


def test_a_study_is_named_after_what_is_tuned() -> None:
    arm = TriedOptions(arm=("--xla_a=1",))
    assert asked("python", "-u", "train_llm.py", "--lr=1", tried=arm).directory.match(
        "counterpoint-studies/2*-train_llm"
    )
    assert asked(predict=("steps/llama.py:make_step",), target="8xH100").directory.name.endswith(
        "-llama"
    )
    assert asked(*TRAIN, tried=arm, out=Path("here")).directory == Path("here")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ((), 2, "nothing to tune"),
        (("--predict",), 2, "--predict takes one workload"),
        (("--predict", "a", "b", "--target", "8xH100"), 2, "not a b"),
        (("--predict", "step.py:make"), 2, "--predict requires --target"),
        (("--predict", "step.py:make", "--target", "8xh1000"), 2, "8xh1000"),
        (("--predict", "--target", "8xH100", "--confirm", "3", "--", "true"), 2, "runs nothing"),
        (
            ("--predict", "a", "--target", "8xH100", "--confirm", "3"),
            2,
            "can be predicted but not run",
        ),
        (
            ("--predict", "a", "--target", "8xH100", "--budget", "2h"),
            2,
            "--budget applies to trials",
        ),
        (("--confirm", "3", "--", "true"), 2, "use --target 8xH100, with the name of your GPUs"),
        (("--confirm", "3", "--arm", "xla_a=1", "--", "true"), 2, "next: omit --confirm"),
        (("no-such.py:make",), 2, "use --predict --target 8xH100"),
        (
            ("a.b:make", "--target", "v5e-8"),
            2,
            "next: omit --confirm, use --predict",
        ),
        (("--predict", "no.py:make", "--target", "8xH100"), 3, "error: no.py: no such file"),
        (("--predict", "no.hlo", "--target", "8xH100"), 3, "error: no.hlo: no such file"),
        (("--nccl-table", "x", "--", "true"), 2, "--nccl-table requires --target"),
        (
            ("--predict", "a", "--target", "8xH100", "--compile-timeout", "0"),
            2,
            "--compile-timeout takes a number of seconds above 0",
        ),
        (("--predict", "a", "--target", "8xH100", "--cap", "4"), 2, "--cap applies to trials"),
        (("--budget", "20", "--", "true"), 2, "20 has no unit"),
        (("--target-gain", "2", "--", "true"), 2, "--target-gain takes a share"),
        (("--indifferent", "x", "--", "true"), 2, "--indifferent takes a share"),
        (("--cap", "1", "--", "true"), 2, "--cap takes a number of at least 2"),
        (("--cap", "2.5", "--", "true"), 2, "whole number"),
        (("--steps", "0", "--", "true"), 2, "--steps takes a number of at least 1"),
        (("--steps", "4", "--", "true"), 2, "--steps 4 is too few"),
        (("--target-gain", "-5%", "--", "true"), 2, "share of the step from 0 to 50%, not '-5%'"),
        (("--loss-tolerance", "5", "--", "true"), 2, "a share of the loss from 0 to 50%"),
        (("--budget", "-2h", "--", "true"), 2, "--budget takes a time"),
        (("--budget", "2h,3h", "--", "true"), 2, "twice: 2 h and 3 h"),
        (("--timeout", "-3", "--", "true"), 2, "--timeout takes a number"),
        (("--space", "no.toml", "--", "true"), 3, "--space no.toml: no such file"),
        (("--space", "/", "--", "true"), 2, "--space /: is a directory"),
        (("--arm", "no-such", "--", "true"), 2, "--arm no-such"),
        (("--arm", "--dry-run", "--", "true"), 2, "--dry-run is a switch of tune"),
        (("--set", "x", "--", "true"), 2, "--set x: not a setting"),
        (("--env", "1=2", "--", "true"), 2, "--env 1=2: not a variable"),
        (("--recipe", "no-such", "--", "true"), 2, "no-such"),
        (("--executor", "k8s", "--", "true"), 2, "k8s"),
        (("--top", "0", "--", "true"), 2, "--top takes a number"),
        (
            ("-o", "s3://x/y", "--arm", "--xla_a=1", "--", "true"),
            2,
            "URLs can be read, not written",
        ),
        (
            ("--env", "MY=1", "--arm", "env:MY=1", "--dry-run", "--", "true"),
            2,
            "env:MY=1: it changes nothing: the base has it already",
        ),
        (("--", "no-such-program"), 2, "next: command -v no-such-program"),
        (("shwo", "x"), 2, "counterpoint tune show x"),
        (("show",), 2, "counterpoint tune show needs STUDY"),
        (("show", "no-such"), 3, "no such directory"),
    ],
    ids=lambda it: " ".join(it) if isinstance(it, tuple) else "",
)
def test_a_bad_value_is_one_clear_error_before_anything_runs(
    run: Run, tmp_path: Path, words: tuple[str, ...], code: int, said: str
) -> None:
    got, out, err = run(*words)
    assert (got, out) == (code, "")
    assert err.startswith("error: ")
    assert err.count("error: ") == 1
    assert said in err
    assert not list(tmp_path.iterdir()), "something was begun"


@pytest.mark.system
@pytest.mark.parametrize(
    ("words", "exported", "said"),
    [
        (("--set", "xla_zzz=1"), "", "error: the base (--set, --env, --recipe): jaxlib "),
        (("--env", "XLA_FLAGS=--xla_zzz=1"), "", "error: the base (--set, --env, --recipe): "),
        ((), "--xla_zzz=1", "error: XLA_FLAGS of your environment: jaxlib "),
    ],
)
def test_a_flag_of_the_base_that_its_jaxlib_does_not_know_is_refused_at_once(
    run: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    exported: str,
    said: str,
) -> None:
    pytest.importorskip("jaxlib")
    monkeypatch.setenv("XLA_FLAGS", exported)
    code, _, err = run(*words, "--arm", "env:A=1", "--", sys.executable, "-c", "pass")
    assert code == 2
    assert err.startswith(said)
    assert err.splitlines()[0].endswith(" xla_zzz")
    assert err.count("xla_zzz: No known") == 1
    assert not list(tmp_path.iterdir()), "something was begun"


def test_flags_of_the_base_that_its_jaxlib_knows_are_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("jaxlib")
    monkeypatch.setenv("XLA_FLAGS", "--xla_force_host_platform_device_count=2")
    base = BaseSettings(set_=("xla_gpu_autotune_level=2",))
    given = TriedOptions(base=base, arm=("env:A=1",))
    assert asked(sys.executable, "-c", "pass", tried=given).base.xla


def test_show_is_a_command_and_behind_dashes_a_program(run: Run) -> None:
    assert run("show", "x")[2].startswith("error: x: ")
    assert run("--", "show", "x")[2].startswith("error: show ")


@pytest.mark.parametrize("mode", [("--arm", "env:A=1"), ("--target", "8xH100", "--predict")])
@pytest.mark.parametrize("words", [("python", "-u", "gone.py", "--lr=1"), ("sh", "gone.sh")])
def test_a_script_that_does_not_exist_begins_no_study(
    run: Run, tmp_path: Path, mode: tuple[str, ...], words: tuple[str, ...]
) -> None:
    code, _, told = run(*mode, "--", *words)
    assert (code, "study" in told) == (2, False)
    assert re.search(r"error: gone\.\w+ was not found", told)
    assert not (tmp_path / "counterpoint-studies").exists()


def test_a_workload_before_predict_is_no_command(tmp_path: Path) -> None:
    done = in_process("tune", "gone.mlir", "--predict", "--target", "8xH100", cwd=tmp_path)
    assert done.returncode == 3
    assert done.stderr.startswith("error: gone.mlir: ")
