"""Scratch directories of processes that were killed go with the next command."""

from __future__ import annotations

import os
import signal
import tempfile
from pathlib import Path

import pytest

from counterpoint.core.scratch import ScratchDirectory, scratch_directory, sweep


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def killed(place: Path) -> Path:
    """What a process leaves that is killed while it has a scratch directory."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        directory = ScratchDirectory("killed")
        (directory.path / "large").write_bytes(bytes(1000))
        os.write(write, b"x")
        signal.pause()
        os._exit(1)
    os.read(read, 1)
    (left,) = place.glob("*killed*")
    sweep(place, young_s=-1)
    assert (left / "large").exists()  # the process lives
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return left


def test_what_a_killed_process_left_is_removed(place: Path) -> None:
    left = killed(place)
    with scratch_directory("mine") as mine:
        assert left.exists()  # it is young
        os.utime(left, (0, 0))
        sweep(place)
        assert not left.exists()
        assert mine.is_dir()
    assert list(place.iterdir()) == []


def test_the_rest_stays(place: Path) -> None:
    with scratch_directory("held") as held:
        (place / "counterpoint-tune-x").mkdir()  # of an earlier version
        (place / "counterpoint-scratch-link").symlink_to(place / "counterpoint-tune-x")
        (place / "other").mkdir()
        sweep(place, young_s=-1)
        assert held.is_dir()
    assert len(list(place.iterdir())) == 3


def test_an_exception_leaves_nothing(place: Path) -> None:
    with pytest.raises(FileNotFoundError), scratch_directory("x") as directory:
        (directory / "none" / "file").touch()
    assert list(place.iterdir()) == []
