"""Profiles of many hosts as one Timeline: read side by side, and what may be wrong with a set."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from counterpoint.core.errors import InputError, UsageError
from counterpoint.diagnose.explanation import explain
from counterpoint.runs.timeline import read
from counterpoint.timeline.model import Timeline

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from synthetic_hosts import Cluster, host_spaces

SMALL = Cluster(hosts=4, devices=2, steps=7, layers=3, kernels=2, host_events=30, slow=5)
SESSION = "plugins/profile/2026_01_01_00_00_00"


def write(cluster: Cluster, into: Path) -> Path:
    into.mkdir(parents=True, exist_ok=True)
    for name, data in host_spaces(cluster):
        (into / f"{name}.xplane.pb").write_bytes(data)
    return into


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(SMALL, tmp_path_factory.mktemp("small"))


@pytest.fixture
def hosts(small: Path, tmp_path: Path) -> Path:
    """A copy to be spoilt."""
    return Path(shutil.copytree(small, tmp_path / "hosts"))


def noted(timeline: Timeline, words: str) -> str:
    """The one note with these words."""
    found = [note for note in timeline.notes if words in note]
    assert len(found) == 1, timeline.notes
    return found[0]


def tables(timeline: Timeline) -> Iterator[pl.DataFrame]:
    for name in ("ops", "spans", "runs", "steps", "host_events", "transfers"):
        yield getattr(timeline, name)


class TestSideBySide:
    @pytest.mark.system
    @pytest.mark.parametrize("kind", ["gpu", "tpu"])
    def test_however_many_processes_read_the_timeline_is_the_same(
        self, kind: str, tmp_path: Path
    ) -> None:
        made = write(replace(SMALL, kind=kind), tmp_path / kind)
        (made / "host-09.xplane.pb").write_bytes(b"\x0a\xffdamaged")
        one, ahead, two = (read(made, jobs=jobs) for jobs in (1, None, 2))
        for other in (ahead, two):
            for mine, theirs in zip(tables(one), tables(other), strict=True):
                assert_frame_equal(mine, theirs)
        for name in ("hosts", "devices", "lines", "notes", "host_names", "environment"):
            assert getattr(one, name) == getattr(two, name)
        assert [(p.name, p.fingerprints) for p in one.programs] == [
            (p.name, p.fingerprints) for p in two.programs
        ]
        program, other = one.programs[0].hlo(), two.programs[0].hlo()
        assert program is not None
        assert other is not None
        assert len(program.computations) == len(other.computations)

    @pytest.mark.system
    def test_a_host_that_cannot_be_read_is_named_by_whoever_read_it(self, hosts: Path) -> None:
        damaged = hosts / "host-02.xplane.pb"
        damaged.write_bytes(damaged.read_bytes()[:-1000])
        for jobs in (1, None, 2):
            made = read(hosts, jobs=jobs)
            assert len(made.hosts) == 3
            assert "host-02" in noted(made, "left out: /")
            with pytest.raises(InputError, match="host-02"):
                read(*sorted(hosts.iterdir()), jobs=jobs)

    @pytest.mark.system
    @pytest.mark.smoke
    def test_progress_counts_the_hosts(self, small: Path) -> None:
        for jobs in (1, None, 2):
            told: list[str] = []
            read(small, jobs=jobs, progress=lambda what, _done, _of, told=told: told.append(what))
            assert any("(host 4 of 4)" in what for what in told)

    def test_a_process_that_is_killed_is_named_with_what_it_read(
        self, small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "killed_reader.py").write_text(
            "import os, sys\nsys.stdin.readline()\nos.kill(os.getpid(), 9)\n"
        )
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.setattr("counterpoint.timeline.parallel_reading._SERVE", "import killed_reader")
        with pytest.raises(InputError, match=r"host-0.*ended early \(signal 9\)") as failed:
            read(small, jobs=2)
        assert "memory" in (failed.value.why or "")
        assert "--jobs 1" in str(failed.value.next)

    def test_no_process_reads_nothing(self, small: Path) -> None:
        with pytest.raises(UsageError, match="--jobs 0"):
            read(small, jobs=0)

    @pytest.mark.system
    def test_an_interrupt_leaves_no_process_and_no_file(self, small: Path, tmp_path: Path) -> None:
        program = (
            "import sys, counterpoint\n"
            "say = lambda *told: print('reading', flush=True)\n"
            "while True: counterpoint.read(sys.argv[1], jobs=2, progress=say)\n"
        )
        temporary = tmp_path / "tmp"
        temporary.mkdir()
        reading = subprocess.Popen(
            [sys.executable, "-c", program, str(small)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"PATH": "/usr/bin:/bin", "TMPDIR": str(temporary)},
            start_new_session=True,
        )
        assert reading.stdout is not None
        with reading.stdout as told:
            told.readline()
            reading.send_signal(signal.SIGINT)
            assert reading.wait(120) != 0
        assert not list(temporary.iterdir())
        deadline = time.monotonic() + 120
        while _children_of_session(reading.pid) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not _children_of_session(reading.pid)


def _children_of_session(leader: int) -> list[str]:
    found: list[str] = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if fields[3] == str(leader) and fields[0] != "Z":
            found.append(stat.parent.name)
    return found


class TestWhatHostsShare:
    def test_ops_that_are_the_same_are_one_row(self, small: Path) -> None:
        made, alone = read(small), read(small / "host-00.xplane.pb")
        assert len(made.ops) == len(alone.ops)
        assert len(made.spans) == 4 * len(alone.spans)

    def test_their_program_is_parsed_once(self, small: Path) -> None:
        entry = read(small).programs[0]
        assert {id(entry.hlo(host)) for host in range(4)} == {id(entry.hlo(0))}

    def test_the_slow_device_is_who_the_others_wait_for(self, small: Path) -> None:
        collectives = explain(read(small)).collectives
        assert collectives["wait_ms"].null_count() == 0
        assert float(collectives["wait_ms"].sum()) > 0


class TestClocks:
    def test_what_is_left_is_what_clocks_differ_by(self, small: Path) -> None:
        made = read(small)
        assert "at least 7 shared" in noted(made, "clocks are")
        ends = made.runs.filter(pl.col("index") == 3)["end_ps"].to_list()
        assert max(ends) - min(ends) < 1e9  # a millisecond: they end together

    @pytest.mark.parametrize("milliseconds", [10.0, 5e3, 7.2e6])
    def test_clocks_far_apart_change_nothing(self, milliseconds: float, tmp_path: Path) -> None:
        near = explain(read(write(SMALL, tmp_path / "near")))
        far = explain(read(write(replace(SMALL, clocks_ms=milliseconds), tmp_path / "far")))
        columns = ["op", "wait_ms", "transfer_ms", "exposed_ms"]
        assert_frame_equal(near.collectives[columns], far.collectives[columns])
        assert near.steps == far.steps

    def test_hours_apart_may_be_two_runs(self, tmp_path: Path) -> None:
        made = read(write(replace(SMALL, clocks_ms=7.2e6), tmp_path))
        assert "of different runs" in noted(made, "without overlap")


class TestBadSets:
    @pytest.mark.parametrize("named", [("a", "b"), ("[ab]",)], ids=["names", "pattern"])
    def test_one_machine_twice_is_two_runs(self, named: tuple[str, ...], tmp_path: Path) -> None:
        """Two runs, seconds apart, were averaged as two processes of one."""
        for seed, run in enumerate(("a", "b")):
            single = replace(SMALL, hosts=1, slow=1, clocks_ms=3e4, seed=seed)
            write(single, tmp_path / run / SESSION)
        with pytest.raises(InputError, match="are of different runs") as refused:
            read(*(str(tmp_path / name) for name in named))
        assert "host-00 recorded them one after the other" in str(refused.value.why)

    def test_missing_hosts_are_counted_and_named(self, hosts: Path) -> None:
        (hosts / "host-02.xplane.pb").unlink()
        made = read(hosts)
        note = noted(made, "3 of 4 hosts")
        assert "host-02" in note
        assert all(count in note for count in ("8 devices", "6 of them"))
        # A collective of all still ends at once on those that are here.
        assert all(host.clock_offset_ps is not None for host in made.hosts)
        across = explain(made).collectives.filter(pl.col("group_size") < 8)
        assert across["wait_ms"].null_count() == len(across)

    def test_a_host_on_whose_devices_nothing_ran_is_left_out(self, hosts: Path) -> None:
        from xspace_builder import host, step_marker, xspace

        threads = host()
        step_marker(threads, "python", 1, 0, 1000)
        (hosts / "host-03.xplane.pb").write_bytes(xspace(threads, hostnames=["host-03"]))
        made = read(hosts)
        assert len(made.hosts) == 3
        assert "host-03" in noted(made, "left out: /")

    def test_an_empty_file_is_left_out(self, hosts: Path) -> None:
        (hosts / "host-03.xplane.pb").write_bytes(b"")
        assert "host-03" in noted(read(hosts), "left out: /")

    def test_the_same_file_twice_is_read_once(self, small: Path) -> None:
        one = small / "host-00.xplane.pb"
        assert "given twice" in noted(read(one, one), "host-00")

    def test_a_copy_under_another_name_is_read_once(self, hosts: Path) -> None:
        shutil.copy(hosts / "host-01.xplane.pb", hosts / "again.xplane.pb")
        made = read(hosts)
        assert [host.name for host in made.hosts] == ["host-01", "host-00", "host-02", "host-03"]
        assert "host-01.xplane.pb" in noted(made, "a copy of")

    def test_other_chips_are_named_and_utilisation_is_of_all(self, hosts: Path) -> None:
        profile = hosts / "host-01.xplane.pb"
        data = profile.read_bytes()
        other = data.replace(b"NVIDIA H100 80GB HBM3", b"NVIDIA A100 80GB PCIe")
        assert other != data
        profile.write_bytes(other)
        made = read(hosts)
        assert "6 x NVIDIA H100 80GB HBM3, 2 x NVIDIA A100 80GB PCIe" in noted(made, "chips differ")
        assert explain(made).utilization.hbm_share is not None

    def test_gpus_and_tpus_are_refused(self, hosts: Path, tmp_path: Path) -> None:
        tpus = write(replace(SMALL, kind="tpu"), tmp_path / "tpu")
        shutil.copy(tpus / "host-01.xplane.pb", hosts / "host-01.xplane.pb")
        with pytest.raises(InputError, match=r"gpu in .*tpu in"):
            read(hosts)


@pytest.mark.system
def test_nothing_is_left_in_the_temporary_directory(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # other tests read at the same time
    read(small, jobs=2)
    left = list(tmp_path.glob("counterpoint-*/hlo"))
    assert not left
