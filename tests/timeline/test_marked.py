"""The steps and programs of a large capture, known before it is read."""

from __future__ import annotations

import gzip
from pathlib import Path

import polars as pl
import pytest
from test_window import EVERY, STEPS, Loop, waiting
from test_xplane_reader import tensor_core
from xspace_builder import US, xspace

import counterpoint
from counterpoint.timeline import marked
from counterpoint.timeline.marked import HOST_MARKS, is_large, marked_steps
from counterpoint.timeline.model import Timeline


@pytest.fixture(autouse=True)
def _any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marked, "LARGE", 1)


def of(content: bytes, directory: Path) -> Timeline | None:
    path = directory / "host.xplane.pb"
    path.write_bytes(content)
    return marked_steps([str(path)])


def test_steps_are_those_that_the_host_marks(tmp_path: Path) -> None:
    found = of(waiting(), tmp_path)
    assert found is not None
    assert found.spans.is_empty()
    assert found.steps["step"].to_list() == [*range(STEPS)]
    assert found.steps["start_ps"].diff().drop_nulls().unique().to_list() == [EVERY]
    assert found.step_rule == HOST_MARKS
    read = counterpoint.read(tmp_path / "host.xplane.pb")
    assert set(found.steps["step"]) == set(read.steps["step"])


def test_steps_and_programs_of_a_tpu_are_final(tmp_path: Path) -> None:
    found = of(xspace(tensor_core(0), tensor_core(1)), tmp_path)
    assert found is not None
    read = counterpoint.read(tmp_path / "host.xplane.pb")
    assert found.steps.equals(read.steps)
    assert found.runs.select("device", "start_ps", "end_ps").equals(
        read.runs.select("device", "start_ps", "end_ps")
    )
    assert [program.name for program in found.programs] == ["jit_train_step"]
    assert [device.chip for device in found.devices] == ["TPU v6 Lite"] * 2


def test_numbers_that_repeat_are_counted_as_when_it_is_read(tmp_path: Path) -> None:
    loop = Loop()
    for step in range(STEPS):
        loop.mark(step, number=step % 10)
        loop.work(step)
    found = of(loop.bytes(), tmp_path)
    assert found is not None
    assert found.steps.filter(pl.col("device") == 0)["step"].to_list() == [*range(STEPS)]


def test_of_several_hosts_the_first_that_marks_steps_is_shown(tmp_path: Path) -> None:
    silent = Loop()
    silent.work(0)
    for name, content in (
        ("host-1", silent.bytes()),
        ("host-2", waiting()),
        ("host-10", waiting()),
    ):
        (tmp_path / f"{name}.xplane.pb").write_bytes(content)
    found = marked_steps([str(tmp_path)])
    assert found is not None
    assert [host.name for host in found.hosts] == ["host-2", "host-1", "host-10"]
    alone = marked_steps([str(tmp_path / "host-2.xplane.pb")])
    assert alone is not None
    assert found.steps.equals(alone.steps)
    files = sorted(str(path) for path in tmp_path.iterdir())
    listed = marked_steps([file for file in files if "host-1." not in file])
    assert listed is not None
    assert listed.steps.equals(alone.steps)


def test_a_compressed_capture_has_none(tmp_path: Path) -> None:
    """It would be unpacked twice."""
    path = tmp_path / "host.xplane.pb.gz"
    path.write_bytes(gzip.compress(waiting()))
    assert is_large([str(path)])
    assert marked_steps([str(path)]) is None


def test_what_marks_no_steps_has_no_preview(tmp_path: Path) -> None:
    loop = Loop()
    loop.work(0)
    assert of(loop.bytes(), tmp_path) is None
    assert of(waiting()[:5000], tmp_path) is None
    assert of(b"SQLite format 3\0" + bytes(100), tmp_path) is None
    assert marked_steps([str(tmp_path / "absent")]) is None
    assert marked_steps(["a", "b"]) is None


def test_a_small_capture_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = waiting()
    monkeypatch.setattr(marked, "LARGE", len(content) + 1)
    assert of(content, tmp_path) is None
    assert not is_large([str(tmp_path / "host.xplane.pb")])
    monkeypatch.setattr(marked, "LARGE", len(content))
    assert of(content, tmp_path) is not None
    assert is_large([str(tmp_path)])
    assert not is_large([str(tmp_path / "absent")])


def test_times_count_from_one_origin_with_those_that_are_read(tmp_path: Path) -> None:
    found = of(waiting(), tmp_path)
    read = counterpoint.read(tmp_path / "host.xplane.pb")
    assert found is not None
    first = found.steps["start_ps"][0]
    launched = read.host_events.filter(pl.col("start_ps").is_between(first, first + 2 * US))
    assert len(launched) > 0
