"""Files that a command writes: whole or not at all, and nothing of another's is lost."""

from __future__ import annotations

import os
import resource
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

import counterpoint
from command_line import in_process
from counterpoint.cli.output import write_output
from counterpoint.core.errors import UsageError
from counterpoint.timeline.model import Timeline
from counterpoint.timeline.storage.trace_json import write_perfetto
from timelines import two_devices


@contextmanager
def full_disk() -> Generator[None]:
    """No file can have more than a few bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_file_that_can_t_be_written_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "job.sh"
    path.write_text("the old one")
    with full_disk(), pytest.raises(UsageError, match="can't write"):
        write_output(path, "more than eight bytes")
    assert path.read_text() == "the old one"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_keeps_its_mode_and_a_link_stays(tmp_path: Path) -> None:
    path = tmp_path / "job.sh"
    path.write_text("old")
    path.chmod(0o750)
    (tmp_path / "link.sh").symlink_to(path)
    write_output(tmp_path / "link.sh", "new")
    assert (tmp_path / "link.sh").is_symlink()
    assert path.read_text() == "new"
    assert path.stat().st_mode & 0o777 == 0o750


def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(path.read_text)
        write_output(path, "text")
        assert reading.result() == "text"
    assert path.is_fifo()


def test_rendered_settings_replace_a_file_as_a_whole(tmp_path: Path) -> None:
    (tmp_path / "a.env").write_text("NCCL_DEBUG=INFO\n")
    out = tmp_path / "out.sh"
    out.write_text("old\n")
    out.chmod(0o755)
    done = in_process("flags", "render", "a.env", "-o", "out.sh", "--force", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "NCCL_DEBUG" in out.read_text()
    assert out.stat().st_mode & 0o777 == 0o755
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.env", "out.sh"]


class TestTwoWriters:
    """Of two processes that write one output, one wins and the other is told."""

    @pytest.fixture
    def timeline(self) -> Timeline:
        return two_devices()

    @pytest.mark.parametrize("name", ["t.parquet", "t.pftrace", "t.json.gz"])
    def test_the_second_is_told(
        self, timeline: Timeline, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = tmp_path / name
        write = counterpoint.write_parquet if name == "t.parquet" else write_perfetto
        write(timeline, tmp_path / f"first-{name}")
        checked = Path.exists

        def taken_afterwards(self: Path) -> bool:
            found = checked(self)
            if self == path and not found:
                (tmp_path / f"first-{name}").rename(path)
            return found

        monkeypatch.setattr(Path, "exists", taken_afterwards)
        with pytest.raises(UsageError, match=f"{name} exists") as refused:
            write(timeline, path)
        monkeypatch.undo()
        assert refused.value.why
        assert [entry.name for entry in tmp_path.iterdir()] == [name]
        assert name != "t.parquet" or counterpoint.read(path).spans.equals(timeline.spans)

    def test_a_stored_timeline_is_replaced_as_a_whole(
        self, timeline: Timeline, tmp_path: Path
    ) -> None:
        path = counterpoint.write_parquet(timeline, tmp_path / "t.parquet")
        with full_disk(), pytest.raises(UsageError, match=r"t\.parquet"):
            counterpoint.write_parquet(timeline, path, overwrite=True)
        assert counterpoint.read(path).spans.equals(timeline.spans)
        counterpoint.write_parquet(timeline, path, overwrite=True)
        assert [entry.name for entry in tmp_path.iterdir()] == ["t.parquet"]
