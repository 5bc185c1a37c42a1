"""Inputs without an end, and pipes: refused, waited for with a limit, or read."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from command_line import in_process
from counterpoint.core import opening
from counterpoint.core.opening import read_input


@pytest.mark.parametrize(
    "words",
    [
        ("explain", "@"),
        ("compare", "@", "@"),
        ("network", "@"),
        ("convert", "@", "out"),
        ("pgle", "show", "@"),
        ("predict", "@", "--target", "8xH100"),
        ("predict", "x.mlir", "--target", "@"),
        ("predict", "x.mlir", "--target", "8xH100", "--nccl-table", "@"),
        ("flags", "check", "@"),
        ("flags", "thresholds", "--program", "@"),
        ("tune", "show", "@"),
        ("upgrade", "@"),
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("pipe", [False, True], ids=["device", "pipe"])
def test_an_input_without_an_end(
    words: tuple[str, ...], pipe: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "_WAIT_S", 0.1)
    (tmp_path / "x.mlir").write_text("module @x {}")
    for name in ("endless", "endless.toml"):
        if pipe:
            os.mkfifo(tmp_path / name)
        else:
            (tmp_path / name).symlink_to("/dev/zero")
    place = "endless.toml" if "--target" in words and words[3] == "@" else "endless"
    done = in_process(*(place if word == "@" else word for word in words), cwd=tmp_path)
    assert "Traceback" not in done.stderr
    assert done.returncode in (2, 3), done.stderr
    assert place in done.stderr


def test_a_pipe_with_a_writer_is_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(read_input, tmp_path / "pipe")
        (tmp_path / "pipe").write_bytes(b"a" * 200_000)
        assert reading.result() == b"a" * 200_000


def test_a_slow_pipe_of_the_shell_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "_WAIT_S", 0.0)
    slow = [sys.executable, "-c", "import time; time.sleep(0.3); print('late')"]
    with subprocess.Popen(slow, stdout=subprocess.PIPE) as process:
        assert process.stdout
        assert read_input(f"/dev/fd/{process.stdout.fileno()}") == b"late\n"
