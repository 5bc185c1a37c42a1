"""What each release needs: told by the table, and shown by the compiler that is installed."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from counterpoint.flags import versions as releases
from counterpoint.flags.settings import Settings, environment
from counterpoint.flags.text import render_xla_flags
from counterpoint.flags.versions import (
    async_collectives_off,
    expect_pgle_known,
    false_stops_scheduler,
    lhs_flag_needed,
    scheduler_off,
    scheduler_on,
    version_number,
)

HOPPER, AMPERE = 9, 8


@pytest.mark.parametrize(
    ("version", "chip", "profile", "needed"),
    [
        ("0.5.0", "H100", True, True),
        ("0.5.1", "H100", True, False),
        ("0.10.2", "NVIDIA A100-SXM4-40GB", True, False),
        ("0.6.2", "H100", False, True),
        ("0.7.1", "NVIDIA H100 80GB HBM3", False, True),
        ("0.7.2", "NVIDIA H100 80GB HBM3", False, False),
        ("0.10.2", "B200", False, False),
        ("0.10.2", "NVIDIA GH200 480GB", False, False),
        ("0.10.2", "NVIDIA A100-SXM4-40GB", False, True),
        ("0.10.2", "AMD Instinct MI300X", False, True),
        ("0.10.2", None, False, True),
        (None, "H200", False, False),
    ],
)
def test_who_needs_the_schedulers_flag(
    version: str | None, chip: str | None, profile: bool, needed: bool
) -> None:
    assert lhs_flag_needed(version, chip, profile=profile) is needed


@pytest.mark.parametrize(
    ("version", "alone", "with_profile"),
    [
        ("0.5.0", True, True),
        ("0.7.1", True, False),
        ("0.7.2", False, False),
        ("0.11.1", False, False),
        ("0.11.2", True, True),
        (None, True, True),
    ],
)
def test_which_releases_obey_false(version: str | None, alone: bool, with_profile: bool) -> None:
    assert false_stops_scheduler(version) is alone
    assert false_stops_scheduler(version, profile=True) is with_profile


def test_versions_are_compared_by_their_numbers() -> None:
    assert version_number("0.10.2") > version_number("0.9.2")
    assert version_number("0.5.3.dev20250401+abc") == (0, 5, 3)
    assert version_number("?") == version_number(None) > version_number("1.0")


def test_collectives_that_a_release_knows() -> None:
    assert ("xla_gpu_enable_async_all_gather", "false") in async_collectives_off("0.4.26")
    assert "RAGGEDALLTOALL" not in dict(async_collectives_off("0.4.35"))[releases.SYNCHRONOUS]
    assert "RAGGEDALLTOALL" in dict(async_collectives_off("0.10.2"))[releases.SYNCHRONOUS]


def test_the_cache_is_told_of_pgle_from_0_5_1_on() -> None:
    assert not expect_pgle_known("0.5.0")
    assert expect_pgle_known("0.5.1")


def test_the_installed_xla_takes_all_of_them(xla: Callable[[str], object]) -> None:
    jaxlib = pytest.importorskip("jaxlib.version")
    version: str = jaxlib.__version__
    pairs = [
        *scheduler_off(version),
        *async_collectives_off(version),
    ]
    assert xla(render_xla_flags(pairs)) is not None


Schedule = dict[str, Any]
OFF = Settings(((releases.LHS, "false"),))
ON = Settings(((releases.LHS, "true"),))
OFF_FLAG = f"--{releases.LHS}=false"
PASSES_FLAG = f"--{releases.LHS}=true --{releases.DISABLED_PASSES}=rematerialization"
*_BESIDE_THE_PASSES, _ = scheduler_off("0.10.2")


def profiled(directory: Path) -> Settings:
    profile = directory / "profile.pbtxt"
    profile.write_text('costs { name: "all-gather-start" cost_us: 100 }\n')
    return Settings(((releases.PROFILE, str(profile)),))


@pytest.fixture(scope="module")
def schedules(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Schedule]:
    """What the real compiler makes of a step for eight absent GPUs, by settings, in one process."""
    if importlib.util.find_spec("jax_plugins") is None:
        pytest.skip("jax's CUDA plugin is not here")
    profile = profiled(tmp_path_factory.mktemp("profile"))
    compiles = {
        "usual": (HOPPER, Settings(), ""),
        "off": (HOPPER, OFF, ""),
        "profile, off before": (HOPPER, profile, OFF_FLAG),
        "profile, on over off": (HOPPER, profile.merged(Settings(scheduler_on())), OFF_FLAG),
        "surely off, on before": (HOPPER, Settings(scheduler_off("0.10.2")), PASSES_FLAG),
        "off without passes": (HOPPER, Settings(tuple(_BESIDE_THE_PASSES)), ""),
        "synchronous": (HOPPER, Settings(async_collectives_off("0.10.2")), ""),
        "older chip": (AMPERE, Settings(), ""),
        "older chip, on": (AMPERE, ON, ""),
        "older chip, profile": (AMPERE, profile, ""),
    }
    base = {**os.environ, "JAX_PLATFORMS": "cpu"}
    asked = {
        name: (chip, environment(settings, {**base, "XLA_FLAGS": inherited}))
        for name, (chip, settings, inherited) in compiles.items()
    }
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("compile_step.py"))],
        input=json.dumps(asked),
        env=base,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told: dict[str, Schedule] = json.loads(done.stdout)
    failed = [one["error"] for one in told.values() if "error" in one]
    if any("PTX compilation provider" in it or "libdevice not found" in it for it in failed):
        pytest.skip("no PTX toolchain is here")
    assert not failed, failed[0]
    return told


@pytest.mark.system
class TestTheCompiler:
    def test_hopper_is_scheduled_unasked(self, schedules: dict[str, Schedule]) -> None:
        assert schedules["usual"]["asynchronous"] > 0
        assert schedules["usual"]["between"] > 0

    def test_whether_its_flag_stops_the_scheduler_on_hopper(
        self, schedules: dict[str, Schedule]
    ) -> None:
        if false_stops_scheduler(importlib.metadata.version("jaxlib")):
            assert schedules["off"]["between"] == 0
        else:
            assert schedules["off"] == schedules["usual"]

    def test_a_profile_needs_the_scheduler(self, schedules: dict[str, Schedule]) -> None:
        """Inherited `=false` keeps a newer compiler from reading the profile; asking helps."""
        unread = schedules["profile, off before"]["between"] == 0
        installed = importlib.metadata.version("jaxlib")
        assert unread == false_stops_scheduler(installed, profile=True)
        assert schedules["profile, on over off"]["between"] > 0

    @pytest.mark.parametrize("name", ["surely off, on before", "off without passes"])
    def test_without_the_scheduler_each_collective_is_waited_for(
        self, name: str, schedules: dict[str, Schedule]
    ) -> None:
        """Whatever the user asked for, and where JAX replaces the disabled passes.

        It does that when its remat pass is off. The program before scheduling is the same.
        """
        assert schedules[name]["between"] == 0
        assert schedules[name]["fingerprint"] == schedules["usual"]["fingerprint"]

    def test_synchronous_collectives_are_another_program(
        self, schedules: dict[str, Schedule]
    ) -> None:
        told, usual = schedules["synchronous"], schedules["usual"]
        assert told["asynchronous"] == 0
        assert told["blocking"] >= usual["asynchronous"]
        assert told["fingerprint"] != usual["fingerprint"]

    def test_older_chips_are_scheduled_when_asked_or_with_a_profile(
        self, schedules: dict[str, Schedule]
    ) -> None:
        assert schedules["older chip"]["between"] == 0
        assert schedules["older chip, on"]["between"] > 0
        assert schedules["older chip, profile"]["between"] > 0
