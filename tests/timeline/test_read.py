"""`read` finds profiles wherever they lie, and says clearly what is no profile."""

from __future__ import annotations

import gzip
import os
import shutil
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Thread

import fsspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from riegeli_builder import RiegeliWriter

from counterpoint.core.errors import InputError, UsageError
from counterpoint.timeline.hosts.assemble import assemble
from counterpoint.timeline.reading import read
from counterpoint.timeline.storage.parquet import write_parquet
from golden_files import Golden, cases
from recordings import Span, recording
from refusals import refusal

GEMM = "jax_gemm_mi300x.xplane.pb"


@pytest.fixture
def gemm(shared: Path) -> Path:
    return shared / "data/traces" / GEMM


@pytest.fixture
def logdir(tmp_path: Path, gemm: Path) -> Path:
    """A directory as jax.profiler leaves it after two captures."""
    for run in ("2026_01_01_00_00_00", "2026_01_02_00_00_00"):
        (tmp_path / "plugins/profile" / run).mkdir(parents=True)
        shutil.copy(gemm, tmp_path / "plugins/profile" / run / "host.xplane.pb")
    return tmp_path


def other_host(data: bytes) -> bytes:
    """The same profile with another op: a copy would count once."""
    return data.replace(b"wrapped_broadcast", b"wrapped_breadcast")


class TestPlaces:
    def test_a_log_directory_gives_its_newest_run(self, logdir: Path, gemm: Path) -> None:
        made = read(logdir)
        assert made.spans.equals(read(gemm).spans)
        assert any("2 runs found" in note and ": 2026_01_02" in note for note in made.notes)

    def test_so_does_a_run_directory(self, logdir: Path) -> None:
        assert len(read(logdir / "plugins/profile/2026_01_01_00_00_00").devices) == 1

    def test_xplane_is_read_where_trace_json_lies_beside(self, logdir: Path) -> None:
        run = logdir / "plugins/profile/2026_01_02_00_00_00"
        (run / "host.trace.json.gz").write_bytes(gzip.compress(b'{"traceEvents": []}'))
        assert len(read(run).hosts) == 1

    def test_a_glob_may_stand_for_several_hosts(self, logdir: Path) -> None:
        second = logdir / "plugins/profile/2026_01_02_00_00_00/host.xplane.pb"
        second.write_bytes(other_host(second.read_bytes()))
        made = read(f"{logdir}/plugins/profile/*/host.xplane.pb")
        assert len(made.hosts) == 2
        assert [device.host for device in made.devices] == [0, 1]

    def test_a_compressed_profile(self, tmp_path: Path, gemm: Path) -> None:
        packed = tmp_path / "host.xplane.pb.gz"
        packed.write_bytes(gzip.compress(gemm.read_bytes()))
        assert read(packed).spans.equals(read(gemm).spans)

    def test_an_archive_of_profiles(self, tmp_path: Path, gemm: Path) -> None:
        archive = tmp_path / "run.zip"
        with zipfile.ZipFile(archive, "w") as packed:
            packed.write(gemm, "plugins/profile/run/a.xplane.pb")
            packed.writestr("plugins/profile/run/b.xplane.pb", other_host(gemm.read_bytes()))
            packed.writestr("readme.txt", "hello")
        assert len(read(archive).hosts) == 2

    def test_a_url(self, gemm: Path) -> None:
        memory = fsspec.filesystem("memory")
        memory.pipe("/bucket/host.xplane.pb", gemm.read_bytes())
        assert read("memory://bucket/host.xplane.pb").spans.equals(read(gemm).spans)

    def test_a_pipe(self, tmp_path: Path, gemm: Path) -> None:
        pipe = tmp_path / "pipe"
        os.mkfifo(pipe)
        writer = Thread(target=lambda: pipe.write_bytes(gemm.read_bytes()), daemon=True)
        writer.start()
        assert read(pipe).spans.equals(read(gemm).spans)
        writer.join()

    def test_a_database_behind_a_url(self, shared: Path, tmp_path: Path) -> None:
        data = (shared / "data/traces/pytorch_h100_2gpu.nsys.sqlite").read_bytes()
        fsspec.filesystem("memory").pipe("/bucket/x.sqlite", data)
        direct = tmp_path / "x.sqlite"
        direct.write_bytes(data)
        made = read("memory://bucket/x.sqlite")
        assert made.spans.equals(read(direct).spans)
        assert made.hosts[0].source == "memory://bucket/x.sqlite"

    def test_a_file_named_twice_is_read_once(self, gemm: Path, tmp_path: Path) -> None:
        link = tmp_path / "link.xplane.pb"
        link.symlink_to(gemm)
        made = read(gemm, link)
        assert len(made.hosts) == 1
        assert any("read once" in note for note in made.notes)

    def test_a_damaged_host_of_several_is_left_out_and_named(self, logdir: Path) -> None:
        run = logdir / "plugins/profile/2026_01_02_00_00_00"
        (run / "other.xplane.pb").write_bytes(b"")
        made = read(run)
        assert len(made.hosts) == 1
        assert any("left out" in note and "other.xplane.pb" in note for note in made.notes)


class TestRefusals:
    """Each one an InputError that names the file, and says why or what to do next."""

    @pytest.mark.parametrize(
        ("name", "content", "said"),
        [
            ("x.xplane.pb", b"", r"empty \(0 bytes\)"),
            ("x.xplane.pb", b"<!DOCTYPE html><html>", "a web page"),
            ("x.xplane.pb", b"version https://git-lfs.github.com/spec/v1\n", "Git LFS pointer"),
            ("x.xplane.pb", b"\x89PNG\r\n\x1a\n0000", "not a known profile"),
            ("x.xplane.pb", b"hello world", "not a known profile"),
            ("x.xplane.pb", b"\x0a\xff\xff\x03\x01\x02", "not a complete XPlane profile"),
            ("x.xplane.pb", b"\x12\x02ok", "not a known profile|no named planes"),
            ("x.xplane.riegeli", b"\x83\xaf\x70\xd1", "Riegeli"),
            ("x.zip", b"PK\x03\x04broken", "damaged zip"),
            ("x.xplane.pb.gz", b"\x1f\x8bbroken", "damaged or cut off"),
            ("x.sqlite", b"SQLite format 3\x00broken", "x.sqlite"),
            ("x.pftrace", b"\x0a\x04\x50\x01\x68\x01", "a Perfetto trace"),
            ("x.pb", b"\x0a\x04\x50\x01\x68\x01\x0a\x02\x50\x01", "a Perfetto trace"),
            ("x.hlo.pb", b"\x0a\x08jit_step\x12\x04main", "an HLO module, not a profile"),
            ("x.hlo.pb", b"\x0a\x10\x0a\x08jit_step\x12\x04main", "an HLO module"),
            ("x.txt", b"HloModule jit_step\n", "an HLO module"),
            ("x.tar", b"\x00" * 257 + b"ustar", "a tar archive"),
        ],
    )
    def test_what_is_no_profile(self, tmp_path: Path, name: str, content: bytes, said: str) -> None:
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(InputError, match=said) as refused:
            read(path)
        assert str(path) in refused.value.what

    def test_only_an_empty_capture_was_too_large(self, tmp_path: Path) -> None:
        (tmp_path / "x.xplane.pb").touch()
        with pytest.raises(InputError) as refused:
            read(tmp_path / "x.xplane.pb")
        assert "2 GB" in (refused.value.why or "")
        os.mkfifo(tmp_path / "pipe")
        with ThreadPoolExecutor(1) as pool:
            pool.submit((tmp_path / "pipe").write_bytes, b"")
            with pytest.raises(InputError, match="empty") as refused:
                read(tmp_path / "pipe")
        assert refused.value.why is None

    def test_a_truncated_profile(self, tmp_path: Path, gemm: Path) -> None:
        cut = tmp_path / "cut.xplane.pb"
        cut.write_bytes(gemm.read_bytes()[:50_000])
        with pytest.raises(InputError, match="complete XPlane profile"):
            read(cut)

    def test_a_profile_that_went_through_a_text_conversion(self, shared: Path) -> None:
        with pytest.raises(InputError, match="complete XPlane profile") as refused:
            read(shared / "data/traces/corrupt_utf8_mangled.xplane.pb")
        assert "text conversion" in (refused.value.why or "")

    def test_a_missing_file(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="no such file"):
            read(tmp_path / "nowhere" / "x.xplane.pb")

    def test_where_to_look_for_a_missing_file(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        place = tmp_path / "two words"
        place.mkdir()
        monkeypatch.chdir(place)
        with pytest.raises(InputError) as refused:
            read("x.xplane.pb")
        assert f"ls '{place}'" in str(refused.value.next)

    def test_a_stored_timeline_among_others(self, gemm: Path, tmp_path: Path) -> None:
        stored = write_parquet(read(gemm), tmp_path / "t.parquet")
        for paths in ((stored, gemm), (gemm, stored), (stored, stored)):
            with pytest.raises(InputError, match="can't be combined"):
                read(*paths)
        (stored / "timeline.json").unlink()
        with pytest.raises(InputError, match=r"timeline\.json is missing"):
            read(stored)

    @pytest.mark.parametrize("path", [None, ["x.pb"], b"x.pb", 7, ""])
    def test_what_is_no_path(self, path: str) -> None:
        with pytest.raises(UsageError):
            read(path)

    def test_a_missing_driver_is_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "adlfs", None)
        with pytest.raises(InputError, match="can't be opened") as refused:
            read("abfs://bucket/x.pb")
        assert refused.value.next == "pip install adlfs"

    def test_a_broken_link_whose_name_looks_like_a_pattern(self, tmp_path: Path) -> None:
        link = tmp_path / "a*b.xplane.pb"
        link.symlink_to(tmp_path / "gone")
        with pytest.raises(InputError, match="no such file"):
            read(link)

    def test_a_pattern_that_matches_nothing(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="nothing matches"):
            read(f"{tmp_path}/*.pb")

    def test_a_directory_without_profiles(self, tmp_path: Path) -> None:
        (tmp_path / "notes.txt").write_text("hello")
        with pytest.raises(InputError, match=r"notes\.txt"):
            read(tmp_path)

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
    def test_an_unreadable_directory(self, tmp_path: Path) -> None:
        tmp_path.chmod(0)
        try:
            with pytest.raises(InputError, match="no permission"):
                read(tmp_path)
        finally:
            tmp_path.chmod(0o700)

    def test_an_archive_without_profiles(self, tmp_path: Path) -> None:
        with zipfile.ZipFile(tmp_path / "x.zip", "w") as packed:
            packed.writestr("readme.txt", "hello")
        with pytest.raises(InputError, match="no profile in"):
            read(tmp_path / "x.zip")

    @pytest.mark.parametrize("url", ["memory://nowhere/x.pb", "nosuch://bucket/x.pb"])
    def test_urls_that_lead_nowhere(self, url: str) -> None:
        with pytest.raises(InputError, match=r"not found|can't be opened"):
            read(url)

    def test_nothing_named(self) -> None:
        with pytest.raises(InputError, match="no profile given"):
            read()


@given(st.binary(max_size=400), st.sampled_from([".xplane.pb", ".json", ".zip", ".sqlite", ".gz"]))
def test_no_bytes_at_all_crash_it(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, ending: str
) -> None:
    path = tmp_path_factory.mktemp("any") / f"x{ending}"
    path.write_bytes(content)
    with suppress(InputError):
        assert read(path).inputs == (str(path),)


def test_how_a_path_is_refused(golden: Golden, tmp_path: Path) -> None:
    made = assemble([recording([Span("fusion.1", 0, 5, run=0)])], ["made"])
    for name in ("no manifest.parquet", "no spans.parquet", "spans of another.parquet"):
        write_parquet(made, tmp_path / name)
    (tmp_path / "no manifest.parquet" / "timeline.json").write_bytes(b"{")
    (tmp_path / "no spans.parquet" / "spans.parquet").write_bytes(b"{")
    six = [Span(f"fusion.{k}", 10 * k, 5, run=k) for k in range(6)]
    larger = write_parquet(assemble([recording(six)], ["other"]), tmp_path / "larger")
    shutil.copy(larger / "spans.parquet", tmp_path / "spans of another.parquet")
    with zipfile.ZipFile(tmp_path / "notes.zip", "w") as packed:
        packed.writestr("readme.txt", "hello")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "notes.txt").write_text("hello")
    (tmp_path / "empty.xplane.pb").write_bytes(b"")
    (tmp_path / "cut.xplane.pb").write_bytes(b"\n\xff\x01cut")
    for kind, data in (("t", b"b\0"), ("r", b"z\1\0\0"), ("x", b"")):
        with (tmp_path / f"{kind}.xplane.riegeli").open("wb") as file:
            RiegeliWriter(file).write_chunk(kind, data, 1, 1)
    paths = (
        "gone/x.xplane.pb",
        "*.nothing",
        "notes",
        "notes.zip",
        "empty.xplane.pb",
        "cut.xplane.pb",
        "t.xplane.riegeli",
        "r.xplane.riegeli",
        "x.xplane.riegeli",
        "no manifest.parquet",
        "no spans.parquet",
        "spans of another.parquet",
    )
    golden(
        "read_refused.txt",
        cases({name: refusal(lambda name=name: read(tmp_path / name), tmp_path) for name in paths}),
    )
