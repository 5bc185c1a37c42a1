"""`--target` of every command that takes one: read alike, and refused alike."""

from __future__ import annotations

from pathlib import Path

import pytest

from counterpoint.cli.app import main

COMMANDS = (
    ("predict", "PROFILE"),
    ("tune", "--dry-run", "--target", "TARGET", "--", "true"),
    ("tune", "--predict", "PROFILE"),
    ("explain", "PROFILE"),
    ("network", "PROFILE"),
    ("calibrate", "PROFILE"),
    ("pgle", "apply", "step.pbtxt", "--program", "PROFILE"),
    ("flags", "recommend", "--for", "fsdp"),
    ("flags", "check", "--xla_gpu_enable_triton_gemm=false"),
    ("flags", "thresholds", "--params", "7B"),
)


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_refuses_a_host_that_nobody_sells(
    words: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    profile = tmp_path / "step.mlir"
    profile.write_text("module {}\n")
    given = [str(profile) if it == "PROFILE" else it for it in words]
    if "TARGET" not in given:
        given += ["--target", "TARGET"]
    code = main(["512xH100" if it == "TARGET" else it for it in given])
    told = capsys.readouterr()
    assert code == 2
    assert told.out == ""
    assert "--target 512xH100: one host of 512 H100" in told.err
    (proposed,) = (it for it in told.err.splitlines() if it.startswith("  next: "))
    assert "--target 64x8xH100:400G" in proposed
    assert ": 64 hosts of 8, 400 Gb/s " in proposed
