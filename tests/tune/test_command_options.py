"""Arms of the command's own options: which command they run, and where they are refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from counterpoint.core.errors import UsageError
from counterpoint.hardware.targets import parse_target
from counterpoint.tune.arm import BASE, Acts
from counterpoint.tune.command_options import is_of_command, options_in, varied, with_options
from counterpoint.tune.named_arms import named_arms
from counterpoint.tune.plan import StudyPlan
from counterpoint.tune.race.combinations import combined
from counterpoint.tune.race.jobs import job_of
from counterpoint.tune.request import TuneRequest, check
from counterpoint.tune.trial.report import Purpose
from tune_studies import Made

COMMAND = ("python", "train.py", "--batch", "8", "--lr=-1e-3", "data", "--remat")
ASKED = TuneRequest(command=COMMAND, directory=Path("study"))


@pytest.mark.parametrize(
    ("text", "is_option"),
    [
        ("--batch 16", True),
        ("-b 16", True),
        ("--remat", True),
        ("--lr=3 --batch 16", True),
        ("--xla_gpu_autotune_level=0", False),
        ("--xla_force_host_platform_device_count 4", False),
        ("NCCL_NVLS_ENABLE=1", False),
        ("env:lr=3", False),
        ("-3", False),
        ("'", False),
        ("", False),
    ],
)
def test_flags_of_xla_and_variables_are_no_options_of_the_command(
    text: str, *, is_option: bool
) -> None:
    assert is_of_command(text) is is_option


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("--batch 16", "python train.py --batch 16 --lr=-1e-3 data --remat"),
        ("--batch=16", "python train.py --batch=16 --lr=-1e-3 data --remat"),
        ("--lr 3", "python train.py --batch 8 --lr 3 data --remat"),
        ("--lr -3", "python train.py --batch 8 --lr -3 data --remat"),
        ("--remat", "python train.py --batch 8 --lr=-1e-3 data --remat"),
        ("--mesh 2 4", "python train.py --batch 8 --lr=-1e-3 data --remat --mesh 2 4"),
        (
            "--batch 16 --steps 3",
            "python train.py --batch 16 --lr=-1e-3 data --remat --steps 3",
        ),
    ],
)
def test_what_the_command_has_is_replaced_and_the_rest_appended(text: str, command: str) -> None:
    assert " ".join(with_options(COMMAND, options_in(text))) == command


def test_each_value_of_vary_is_an_arm_in_the_spelling_of_the_command() -> None:
    assert varied("batch=16,32", COMMAND) == ("--batch 16", "--batch 32")
    assert varied("--lr=1e-3,2e-3", COMMAND) == ("--lr=1e-3", "--lr=2e-3")
    for wrong in ("batch", "batch=", "=16", "batch=,"):
        with pytest.raises(UsageError, match="no option with values"):
            varied(wrong, COMMAND)


def test_an_arm_runs_the_command_with_its_options_and_what_the_base_has_is_left_out() -> None:
    space, arms = named_arms(replace(ASKED, arms=("--batch 16 --steps 3", "--batch 8", "--remat")))
    (arm,) = arms
    assert arm.acts is Acts.RUNTIME
    assert [str(it) for it in arm.changes] == ["--batch 16", "--steps 3"]
    assert {it.name for it in space.left_out if it.named} == {"--batch 8", "--remat"}
    made = Made(arm, base=space.base).entered(arm).opened()
    made.started(BASE, Purpose.SCREEN, 0)
    made.started(arm.name, Purpose.SCREEN, 0)
    of_base, of_arm = (
        job_of(made.study, StudyPlan(), trial, Path("study")).command for trial in made.study.trials
    )
    assert of_base == made.study.began.command
    assert of_arm == (*of_base, "--batch", "16", "--steps", "3")


def test_options_combine_but_not_two_values_of_one() -> None:
    space, arms = named_arms(replace(ASKED, arms=("--batch 16", "--steps 3", "--batch 32")))
    found = combined(space.base, arms, arms)
    assert found is not None
    assert found.options == (("--batch", "16"), ("--steps", "3"))


def test_where_options_can_t_be_tried_it_is_said() -> None:
    asked = replace(ASKED, arms=("--batch 16",))
    with pytest.raises(UsageError, match="another program"):
        check(replace(asked, target=parse_target("8xH100")))
    with pytest.raises(UsageError, match="text of bash -c"):
        check(replace(asked, command=("bash", "-c", "python train.py")))
    check(replace(asked, command=("bash", "train.sh")))
