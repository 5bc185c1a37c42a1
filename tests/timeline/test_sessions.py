"""Sessions of one run lie in directories that each host names by its own clock."""

from __future__ import annotations

from pathlib import Path

import pytest

from counterpoint.timeline.sessions import in_order
from counterpoint.timeline.source import find_sources


def session(log: Path, stamp: str, *hosts: str) -> None:
    place = log / "plugins" / "profile" / stamp
    place.mkdir(parents=True, exist_ok=True)
    for host in hosts:
        (place / f"{host}.xplane.pb").write_bytes(b"")


def found(log: Path) -> tuple[list[str], list[str]]:
    sources, notes = find_sources(str(log))
    return [
        str(source.path.relative_to(log)).removesuffix(".xplane.pb") for source in sources
    ], notes


def test_hosts_whose_stamps_differ_by_seconds_are_one_run(tmp_path: Path) -> None:
    for host, second in (("host-0", "07"), ("host-1", "05"), ("host-2", "59")):
        session(tmp_path, f"2026_01_01_10_00_{second}", host)
    paths, notes = found(tmp_path)
    assert [path.rpartition("/")[2] for path in paths] == ["host-0", "host-1", "host-2"]
    assert "3 sessions" in notes[0]
    assert "within 54 s" in notes[0]


def test_a_host_that_comes_twice_is_read_once_from_its_newest(tmp_path: Path) -> None:
    session(tmp_path, "2026_01_01_10_00_00", "host-0", "host-1")
    session(tmp_path, "2026_01_01_10_02_00", "host-0")
    session(tmp_path, "2026_01_01_10_02_01", "host-1")
    paths, notes = found(tmp_path)
    assert len(paths) == 2
    assert all("10_02" in path for path in paths)
    assert notes[1].startswith("left out")
    assert notes[1].endswith(": 2026_01_01_10_00_00")


def test_profiles_of_another_kind_beside_are_left_out_and_named(tmp_path: Path) -> None:
    """One stray XPlane was read in place of all bundles, without a word."""
    for name in ("a.xplane.pb", "a.trace.json.gz", "a.zip", "b.zip", "c.zip", "notes.txt"):
        (tmp_path / name).write_bytes(b"")
    paths, (note,) = found(tmp_path)
    assert paths == ["a"]
    assert note.endswith(": b.zip, c.zip")


def test_hours_apart_are_two_runs(tmp_path: Path) -> None:
    session(tmp_path, "2026_01_01_10_00_00", "host-0")
    session(tmp_path, "2026_01_01_13_00_00", "host-1")
    paths, notes = found(tmp_path)
    assert paths == ["plugins/profile/2026_01_01_13_00_00/host-1"]
    (note,) = notes
    assert note.startswith("2 runs found")
    assert note.endswith(": 2026_01_01_13_00_00 (others: 2026_01_01_10_00_00)")


def test_each_host_may_have_a_log_directory_of_its_own(tmp_path: Path) -> None:
    for number in (10, 2):
        session(tmp_path / f"worker-{number}", f"2026_01_01_10_00_{number:02}", "same-name")
    paths, _ = found(tmp_path)
    assert [path.partition("/")[0] for path in paths] == ["worker-2", "worker-10"]


@pytest.mark.parametrize(
    ("logs", "second"), [(("first", "second"), 7), (("run-1", "run-2"), 55)], ids=["names", "times"]
)
def test_a_host_that_ran_twice_into_a_directory_each_ran_twice(
    logs: tuple[str, str], second: int, tmp_path: Path
) -> None:
    """Levanter writes each run to ./logs/RUN_ID."""
    session(tmp_path / logs[0] / "profiler", "2026_01_01_10_00_00", "vm")
    session(tmp_path / logs[1] / "profiler", f"2026_01_01_10_00_{second:02}", "vm")
    paths, (note,) = found(tmp_path)
    assert [path.partition("/")[0] for path in paths] == [logs[1]]
    assert note.startswith("2 runs found, the newest is read")


def test_sessions_that_were_copied_out_of_their_log_are_found(tmp_path: Path) -> None:
    for second in (1, 2):
        place = tmp_path / f"2026_01_01_10_00_0{second}"
        place.mkdir()
        (place / f"host-{second}.xplane.pb").write_bytes(b"")
    assert len(found(tmp_path)[0]) == 2


@pytest.mark.parametrize("names", [["host-10", "host-2", "host-1"], ["b", "a10", "a9"]])
def test_numbers_in_names_count_as_numbers(names: list[str]) -> None:
    ordered = [str(path) for path in in_order(map(Path, names))]
    assert ordered == sorted(names, key=lambda name: (name.rstrip("0123456789"), len(name), name))
