"""GPUs as the driver lists them, as a target."""

from __future__ import annotations

from pathlib import Path

import pytest

from counterpoint.tune.target import own_gpus

LISTS = """#!/bin/sh
printf '%s'
"""


def listing(directory: Path, *names: str) -> str:
    tool = directory / "nvidia-smi"
    tool.write_text(LISTS % "".join(f"{it}\\n" for it in names))
    tool.chmod(0o755)
    return str(directory)


@pytest.mark.parametrize(
    ("names", "shown", "target"),
    [
        (["NVIDIA H100 80GB HBM3"] * 8, None, "8xH100"),
        (["NVIDIA H200"], None, "1xH200"),
        (["NVIDIA A100-SXM4-80GB"] * 8, "0,1", "2xA100-80GB"),
        (["NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB"], None, None),
        (["NVIDIA H100 NVL"], None, None),
        (["NVIDIA H100 80GB HBM3"], "", None),
        ([], None, None),
    ],
)
def test_gpus_of_one_known_kind_are_a_target(
    tmp_path: Path, names: list[str], shown: str | None, target: str | None
) -> None:
    environment = {"PATH": listing(tmp_path, *names)}
    if shown is not None:
        environment["CUDA_VISIBLE_DEVICES"] = shown
    found = own_gpus(environment)
    assert (None if found is None else str(found)) == target


def test_without_the_driver_s_tool_there_are_none(tmp_path: Path) -> None:
    assert own_gpus({"PATH": str(tmp_path)}) is None
