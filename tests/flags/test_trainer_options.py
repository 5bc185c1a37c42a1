"""Options of trainers among settings: Levanter's for its profiler, wherever they are given."""

from __future__ import annotations

import shlex

import pytest

from counterpoint.cli.app import main
from counterpoint.flags.check.examination import check
from counterpoint.flags.parse.source import read_command
from counterpoint.flags.parsed import ParsedSource
from counterpoint.flags.settings import Channel, Settings
from flag_sources import manifest, script

COMMAND = "python -m levanter.main.train_lm --config_path c.yaml"
OPTIONS = "--trainer.profiler true --trainer.profiler_num_steps 100"
YAML = """
trainer:
  num_train_steps: 400000
  per_device_parallelism: -1
  profiler:
    enabled: true
    num_steps: 25
"""


def options(written: ParsedSource) -> dict[str, str]:
    return {one.name: one.meant for one in written.through(Channel.TRAINER)}


def remarks(written: ParsedSource) -> list[str]:
    return [f"{one.code} {one.severity} {one.name}" for one in check(written, version="0.10.2")]


def test_they_are_read_from_a_script_and_a_command() -> None:
    known = {"trainer.profiler": "true", "trainer.profiler_num_steps": "100"}
    others = "--trainer.num_train_steps 9 --trainer.per_device_parallelism 4"
    for given in (OPTIONS, OPTIONS.replace("true", "=true").replace("r =", "r=")):
        line = f"{COMMAND} {given} {others}"
        assert options(script(line)) == known
        assert options(read_command(shlex.split(line), {})) == known
    assert not remarks(script(f"{COMMAND} {OPTIONS} {others}"))
    assert script(f"{COMMAND} {OPTIONS}").settings == Settings()


def test_they_are_read_from_yaml() -> None:
    assert options(manifest(YAML)) == {
        "trainer.profiler.enabled": "true",
        "trainer.profiler.num_steps": "25",
    }
    assert not manifest(YAML).notes
    assert not options(manifest("model: {profiler: true}"))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("--trainer.profiler treu", "FLAG507 error trainer.profiler"),
        ("--trainer.profilr_num_steps 5", "FLAG507 error trainer.profilr_num_steps"),
        ("--trainer.profiler_num_steps -1", "FLAG507 error trainer.profiler_num_steps"),
        (
            "--trainer.profiler.enabled true --trainer.profiler_num_steps 5",
            "FLAG507 warning trainer.profiler_num_steps",
        ),
    ],
)
def test_what_levanter_refuses_is_told(given: str, told: str) -> None:
    assert remarks(script(f"{COMMAND} {given}")) == [told]


def test_the_same_in_yaml() -> None:
    assert remarks(manifest(YAML.replace("num_steps", "num_setps"))) == [
        "FLAG507 error trainer.profiler.num_setps"
    ]


def test_the_recipe_is_its_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["flags", "render", "levanter-profiler"]) == 0
    said = capsys.readouterr()
    assert said.out.startswith("--trainer.profiler true --trainer.profiler_start_step 5 ")
    assert not said.err
    assert main(["run", "--settings", "levanter-profiler", "--", "python", "train.py"]) == 2
    assert "next: counterpoint flags render levanter-profiler" in capsys.readouterr().err
    assert main(["flags", "show", "trainer.profiler"]) == 0
    assert "counterpoint flags render levanter-profiler" in "".join(capsys.readouterr())
