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

from counterpoint.flags import Settings, environment
from counterpoint.flags import versions as releases
from counterpoint.flags.text import render_xla_flags
from counterpoint.flags.versions import (
    async_collectives_off,
    expect_pgle_known,
    lhs_flag_needed,
    scheduler_can_be_disabled,
    scheduler_off,
    scheduler_on,
    version_number,
)

pytestmark = pytest.mark.system

HOPPER, AMPERE = 9, 8


@pytest.mark.parametrize(
    ("version", "chip", "profile", "needed"),
    [
        ("0.5.0", "H100", True, True),
        ("0.5.1", "H100", True, False),
        ("0.10.2", "NVIDIA A100-SXM4-40GB", True, False),
        ("0.6.2", "H100", False, True),
        ("0.7.0", "NVIDIA H100 80GB HBM3", False, False),
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


def schedule(chip: int, settings: Settings, inherited: str = "") -> dict[str, Any]:
    """What the real compiler makes of a step for eight absent GPUs."""
    if importlib.util.find_spec("jax_plugins") is None:
        pytest.skip("jax's CUDA plugin is not here")
    base = {**os.environ, "XLA_FLAGS": inherited, "JAX_PLATFORMS": "cpu"}
    script = Path(__file__).with_name("compile_step.py")
    done = subprocess.run(
        [sys.executable, str(script), str(chip)],
        env=environment(settings, base),
        capture_output=True,
        text=True,
        check=False,
    )
    if "PTX compilation provider" in done.stderr or "libdevice not found" in done.stderr:
        pytest.skip("no PTX toolchain is here")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def usual() -> dict[str, Any]:
    return schedule(HOPPER, Settings())


def test_hopper_is_scheduled_unasked(usual: dict[str, Any]) -> None:
    assert usual["asynchronous"] > 0
    assert usual["between"] > 0


def test_whether_its_flag_stops_the_scheduler_on_hopper(usual: dict[str, Any]) -> None:
    told = schedule(HOPPER, Settings(((releases.LHS, "false"),)))
    if scheduler_can_be_disabled(importlib.metadata.version("jaxlib")):
        assert told["between"] == 0
    else:
        assert told == usual


def test_a_profile_needs_the_scheduler(tmp_path: Path) -> None:
    """Inherited `=false` keeps a newer compiler from reading the profile; asking for it helps."""
    off = f"--{releases.LHS}=false"
    settings = profiled(tmp_path)
    told = schedule(HOPPER, settings, off)
    assert (told["between"] == 0) == scheduler_can_be_disabled(importlib.metadata.version("jaxlib"))
    assert schedule(HOPPER, settings.merged(Settings(scheduler_on())), off)["between"] > 0


def profiled(directory: Path) -> Settings:
    profile = directory / "profile.pbtxt"
    profile.write_text('costs { name: "all-gather-start" cost_us: 100 }\n')
    return Settings(((releases.PROFILE, str(profile)),))


def test_without_the_scheduler_each_collective_is_waited_for(usual: dict[str, Any]) -> None:
    """Whatever the user asked for, the program before scheduling being the same."""
    off = Settings(scheduler_off("0.10.2"))
    inherited = f"--{releases.LHS}=true --{releases.DISABLED_PASSES}=rematerialization"
    told = schedule(HOPPER, off, inherited)
    assert told["between"] == 0
    assert told["fingerprint"] == usual["fingerprint"]


def test_it_stays_off_where_jax_replaces_the_disabled_passes(usual: dict[str, Any]) -> None:
    """As JAX does when its remat pass is off: what stands beside the pass must do."""
    *others, _ = scheduler_off("0.10.2")
    told = schedule(HOPPER, Settings(tuple(others)))
    assert told["between"] == 0
    assert told["fingerprint"] == usual["fingerprint"]


def test_synchronous_collectives_are_another_program(usual: dict[str, Any]) -> None:
    told = schedule(HOPPER, Settings(async_collectives_off("0.10.2")))
    assert told["asynchronous"] == 0
    assert told["blocking"] >= usual["asynchronous"]
    assert told["fingerprint"] != usual["fingerprint"]


def test_older_chips_are_scheduled_when_asked_or_with_a_profile(tmp_path: Path) -> None:
    assert schedule(AMPERE, Settings())["between"] == 0
    assert schedule(AMPERE, Settings(((releases.LHS, "true"),)))["between"] > 0
    assert schedule(AMPERE, profiled(tmp_path))["between"] > 0
