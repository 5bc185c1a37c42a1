"""Profiles behind URLs: found as in a directory, kept by content, refused in one clear error."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from fsspec import AbstractFileSystem
from s3_server import S3Server, s3_bucket, s3_server
from web_store import WebStore, web_store
from xspace_builder import US, kernel, nvidia, xspace

from command_line import in_process
from counterpoint.core import InputError, UsageError
from counterpoint.timeline import remote, remote_cache
from counterpoint.timeline.reading import read
from counterpoint.timeline.source import find_sources

MODULE = ("jit_step", 7)


def profile(host: str) -> bytes:
    gpu = nvidia(0)
    for step in range(3):
        start = step * 10 * US + len(host)
        kernel(gpu, "Stream #20(Compute)", host, start, 5 * US, op="f.1", module=MODULE)
    return xspace(gpu, hostnames=[host])


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("COUNTERPOINT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(remote, "PAUSES_S", (0.01, 0.01, 0.01))
    return tmp_path / "cache/profiles"


@pytest.fixture
def web() -> Generator[WebStore]:
    with web_store() as store:
        store.files["/run/host-0.xplane.pb"] = profile("host-0")
        yield store


class TestFound:
    @pytest.fixture
    def log(self, web: WebStore) -> WebStore:
        """As two hosts of tpu-inference write it: each by its own clock, and an earlier run."""
        web.files.clear()
        for stamp, host in (
            ("2026_05_06_04_47_36", "node-1"),
            ("2026_05_06_04_47_38", "node-0"),
            ("2026_05_05_00_00_00", "node-0"),
        ):
            web.files[f"/log/plugins/profile/{stamp}/{host}.xplane.pb"] = profile(host)
        return web

    def test_hosts_of_one_run_with_a_directory_per_timestamp(self, log: WebStore) -> None:
        made = read(f"{log.base}/log/")
        assert [host.name for host in made.hosts] == ["node-0", "node-1"]
        assert any("2 sessions are read" in note for note in made.notes)

    def test_a_directory_of_a_web_server_without_its_final_slash(self, log: WebStore) -> None:
        assert read(f"{log.base}/log").spans.equals(read(f"{log.base}/log/").spans)
        found, _ = find_sources(f"{log.base}/log/plugins/profile/2026_05_06_04_47_36")
        assert [source.path.name for source in found] == ["node-1.xplane.pb"]

    def test_a_pattern_of_directories_and_files(self, log: WebStore) -> None:
        found, _ = find_sources(f"{log.base}/log/plugins/profile/2026_05_06_*/*.xplane.pb")
        assert [source.path.name for source in found] == ["node-1.xplane.pb", "node-0.xplane.pb"]
        assert len(find_sources(f"{log.base}/log/plugins/profile/2026_05_06_*")[0]) == 2

    def test_nothing_that_matches(self, log: WebStore) -> None:
        with pytest.raises(InputError, match="nothing matches"):
            read(f"{log.base}/log/*.zip")

    def test_a_file_url_is_a_path(self, tmp_path: Path) -> None:
        (tmp_path / "a host.xplane.pb").write_bytes(profile("a"))
        made = read((tmp_path / "a host.xplane.pb").as_uri())
        assert made.hosts[0].source == str(tmp_path / "a host.xplane.pb")


class TestKept:
    def test_the_same_content_is_fetched_once(self, web: WebStore) -> None:
        url = f"{web.base}/run/host-0.xplane.pb"
        assert read(url).spans.equals(read(url).spans)
        assert web.asked["GET /run/host-0.xplane.pb"] == 1
        web.files["/run/host-0.xplane.pb"] = profile("other")
        assert read(url).hosts[0].name == "other"

    def test_a_signature_is_neither_shown_nor_part_of_the_name(self, web: WebStore) -> None:
        url = f"{web.base}/run/host-0.xplane.pb"
        made = read(f"{url}?X-Amz-Signature=a")
        read(f"{url}?X-Amz-Signature=b")
        assert made.inputs == (url,)
        assert made.hosts[0].source == url
        assert web.asked["GET /run/host-0.xplane.pb"] == 1

    def test_equal_content_takes_room_once(self, web: WebStore, cache: Path) -> None:
        web.files["/copy.xplane.pb"] = web.files["/run/host-0.xplane.pb"]
        for path in web.files:
            read(web.base + path)
        assert len(list((cache / "objects").iterdir())) == 1
        assert len(list((cache / "names").iterdir())) == 2

    def test_the_oldest_goes_first(
        self, web: WebStore, cache: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        size = len(web.files["/run/host-0.xplane.pb"])
        monkeypatch.setenv(remote_cache.SIZE_VARIABLE, str(2.5 * size / 1e9))
        for number in range(4):
            web.files[f"/{number}.xplane.pb"] = profile(f"host-{number}")
            read(f"{web.base}/{number}.xplane.pb")
            for kept in (cache / "objects").iterdir():
                os.utime(kept, (kept.stat().st_atime - 10, kept.stat().st_mtime - 10))
        assert len(list((cache / "objects").iterdir())) == 2
        read(f"{web.base}/3.xplane.pb")
        assert web.asked["GET /3.xplane.pb"] == 1

    def test_a_file_of_no_known_version_is_not_kept(self, web: WebStore, cache: Path) -> None:
        web.has_tags = False
        for _ in range(2):
            read(f"{web.base}/run/host-0.xplane.pb")
        assert web.asked["GET /run/host-0.xplane.pb"] == 2
        assert not cache.exists()

    def test_without_a_cache(self, web: WebStore, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("COUNTERPOINT_CACHE", "off")
        assert len(read(f"{web.base}/run/host-0.xplane.pb").spans) == 3


class TestFaults:
    @pytest.fixture(autouse=True)
    def small_blocks(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(remote_cache, "BLOCK", 100)

    @pytest.mark.parametrize("faults", [[503, 429, 500], ["cut", "cut"], [503, "cut"]])
    def test_what_passes_is_tried_again(self, web: WebStore, faults: list[Any]) -> None:
        web.faults += faults
        path = "/run/host-0.xplane.pb"
        assert len(read(web.base + path).spans) == 3
        pieces = -(-len(web.files[path]) // 100)
        assert web.asked[f"GET {path}"] == pieces + len(faults)

    def test_a_server_without_ranges(self, web: WebStore) -> None:
        web.has_ranges = False
        web.faults.append("cut")
        assert len(read(f"{web.base}/run/host-0.xplane.pb").spans) == 3
        assert web.asked["GET /run/host-0.xplane.pb"] == 2

    def test_a_store_that_stays_silent(
        self, web: WebStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv(remote.TIMEOUT_VARIABLE, "0.1")
        web.late_s = 0.3
        web.faults += ["late"] * 4
        with pytest.raises(InputError, match="did not answer") as refused:
            read(f"{web.base}/run/host-0.xplane.pb")
        assert "no answer within 0.1 s" in (refused.value.why or "")

    def test_what_stays_cut_off_is_no_profile(self, web: WebStore, cache: Path) -> None:
        web.faults += ["cut"] * 4
        with pytest.raises(InputError, match="cut its answer"):
            read(f"{web.base}/run/host-0.xplane.pb")
        assert not list((cache / "objects").iterdir())

    @pytest.mark.parametrize(
        ("status", "text"), [(403, "refuses access"), (401, "refuses"), (404, "not found")]
    )
    def test_what_is_refused_is_asked_once(self, web: WebStore, status: int, text: str) -> None:
        web.status["/run/host-0.xplane.pb"] = status
        answer = in_process("explain", f"{web.base}/run/host-0.xplane.pb?sig=secret")
        assert answer.returncode == 3
        assert text in answer.stderr
        assert "secret" not in answer.stderr
        assert "Traceback" not in answer.stderr
        assert "bucket" not in answer.stderr
        assert web.asked["GET /run/host-0.xplane.pb"] == 1

    def test_an_empty_file_comes_through_no_pipe(self, web: WebStore) -> None:
        web.files["/run/host-0.xplane.pb"] = b""
        answer = in_process("explain", f"{web.base}/run/host-0.xplane.pb")
        assert answer.returncode == 3
        assert "empty (0 bytes)" in answer.stderr
        assert "capture fewer steps" in answer.stderr

    def test_nobody_listens(self) -> None:
        answer = in_process("explain", "http://127.0.0.1:9/x.xplane.pb")
        assert answer.returncode == 3
        assert "did not answer" in answer.stderr

    def test_a_bad_setting(self, web: WebStore, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in (remote.TIMEOUT_VARIABLE, remote_cache.SIZE_VARIABLE):
            with monkeypatch.context() as context:
                context.setenv(name, "-3")
                with pytest.raises(UsageError, match=name):
                    read(f"{web.base}/run/host-0.xplane.pb")


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with s3_server() as made:
        yield made


@pytest.mark.system
class TestS3:
    """Against a real server of S3's protocol, through the client that users have."""

    @pytest.fixture
    def bucket(
        self, server: S3Server, monkeypatch: pytest.MonkeyPatch
    ) -> Iterator[AbstractFileSystem]:
        with s3_bucket(server, "runs", monkeypatch) as system:
            yield system

    @pytest.mark.smoke
    def test_a_log_directory(self, bucket: AbstractFileSystem) -> None:
        for number in range(2):
            name = f"runs/a/plugins/profile/2026_05_06_04_47_3{number}/host-{number}.xplane.pb"
            bucket.pipe(name, profile(f"host-{number}"))
        assert [host.name for host in read("s3://runs/a").hosts] == ["host-0", "host-1"]
        made = read("s3://runs/a/plugins/profile/*/host-[01].xplane.pb")
        assert len(made.hosts) == 2
        answer = in_process("explain", "s3://runs/a", "--json")
        assert answer.returncode == 0, answer.stderr

    @pytest.mark.parametrize("url", ["s3://runs/none.xplane.pb", "s3://no-such-bucket/a/*.pb"])
    def test_what_is_not_there(self, bucket: AbstractFileSystem, url: str) -> None:
        del bucket
        answer = in_process("explain", url)
        assert answer.returncode == 3
        assert "not found" in answer.stderr or "nothing matches" in answer.stderr
        assert "Traceback" not in answer.stderr

    def test_a_profile_that_is_cut_off_once_is_fetched_again(
        self, bucket: AbstractFileSystem, server: S3Server
    ) -> None:
        bucket.pipe("runs/host-0.xplane.pb", profile("host-0"))
        server.faults.append(("GET", "host-0", "cut"))
        assert [host.name for host in read("s3://runs/host-0.xplane.pb").hosts] == ["host-0"]
        assert not server.faults

    def test_a_profile_that_is_refused_is_left_out(
        self, bucket: AbstractFileSystem, server: S3Server
    ) -> None:
        for number in range(2):
            bucket.pipe(f"runs/a/host-{number}.xplane.pb", profile(f"host-{number}"))
        server.refused.append(("GET", "host-1", 403))
        made = read("s3://runs/a")
        assert [host.name for host in made.hosts] == ["host-0"]
        assert any("host-1.xplane.pb" in note and "refuses access" in note for note in made.notes)
        alone = in_process("explain", "s3://runs/a/host-1.xplane.pb")
        assert (alone.returncode, "aws sts get-caller-identity" in alone.stderr) == (3, True)
