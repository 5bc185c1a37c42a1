"""A file or directory takes its name complete, and in one step."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from counterpoint.core.outputs import whole_directory, whole_file, write_whole


def names(place: Path) -> list[str]:
    return sorted(path.name for path in place.iterdir())


def test_a_file_appears_when_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "new.txt"
    with whole_file(path, overwrite=False) as part:
        part.write_text("all of it")
        assert not path.exists()
    assert path.read_text() == "all of it"
    assert names(tmp_path) == ["new.txt"]


def test_an_error_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")

    def fail() -> None:
        with whole_file(path, overwrite=True) as part:
            part.write_text("half of")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert path.read_text() == "old"
    assert names(tmp_path) == ["a.txt"]


def test_another_s_file_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"

    def write() -> None:
        with whole_file(path, overwrite=False) as part:
            part.write_text("mine")
            path.write_text("of another")

    with pytest.raises(FileExistsError):
        write()
    assert path.read_text() == "of another"
    assert names(tmp_path) == ["a.txt"]


def test_a_replaced_file_keeps_its_mode_and_a_link_stays(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    path.chmod(0o640)
    (tmp_path / "link").symlink_to("a.txt")
    write_whole(tmp_path / "link", b"new")
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("new", 0o640)
    assert (tmp_path / "link").is_symlink()


@pytest.mark.parametrize("system", ["exchanges names", "can't"])
def test_a_directory_is_replaced_as_a_whole(
    tmp_path: Path, system: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if system == "can't":
        monkeypatch.setattr("ctypes.CDLL", lambda *_, **__: object())
    place = tmp_path / "many"
    place.mkdir()
    (place / "old").touch()
    with whole_directory(place, overwrite=True) as part:
        (part / "new").touch()
        assert names(place) == ["old"]
    assert names(place) == ["new"]
    assert names(tmp_path) == ["many"]


def test_a_directory_of_another_is_not_replaced(tmp_path: Path) -> None:
    place = tmp_path / "many"

    def write() -> None:
        with whole_directory(place, overwrite=False) as part:
            (part / "mine").touch()
            place.mkdir()
            (place / "of another").touch()

    with pytest.raises(FileExistsError):
        write()
    assert names(place) == ["of another"]
    assert names(tmp_path) == ["many"]


@pytest.mark.parametrize("make", [Path.touch, Path.mkdir], ids=["file", "directory"])
def test_what_a_killed_process_left_is_removed(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    left, other, young = (
        tmp_path / name for name in (".a.txt.1-f.part", ".b.txt.1-f.part", ".a.txt.2-f.part")
    )
    for path in (left, other, young):
        make(path)
    then = time.time() - 3600
    for path in (left, other):
        os.utime(path, (then, then))
    write_whole(tmp_path / "a.txt", b"")
    assert names(tmp_path) == [".a.txt.2-f.part", ".b.txt.1-f.part", "a.txt"]


def test_a_part_that_is_being_written_stays(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    with whole_file(path, overwrite=True) as part:
        then = time.time() - 3600
        os.utime(part, (then, then))
        write_whole(path, b"of another")
        assert part.exists()
