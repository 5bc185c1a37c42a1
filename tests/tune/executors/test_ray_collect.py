"""A Run whose ranks were on different disks comes together as one."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from counterpoint.core.errors import InputError
from counterpoint.runs import OutcomeKind, layout, read_run
from counterpoint.runs.outcome import Outcome
from counterpoint.runs.run import Given
from counterpoint.runs.writer import RankStart, RunWriter, Start
from counterpoint.tune.executors.collect import hash_of, merge, pack, unpack

START = Start("it", ("true",), "/", Given(), "openmpi", 2, "0", "job")


def packed(place: Path, rank: int) -> Path:
    """What one node has: its rank, and an archive of it."""
    run = place / f"node{rank}" / "run"
    writer = RunWriter.claim(run, START)
    directory = writer.add_rank(rank)
    dump = directory / layout.XLA
    dump.mkdir()
    (dump / "module_0001.step.gpu_after_optimizations.hlo.pb").write_bytes(b"\0hlo")
    (directory / layout.STDOUT).write_text(f"rank {rank} in {run}\n")
    writer.start_rank(RankStart(rank, xla_dump_to=str(dump)), pid=1)
    writer.end_rank(rank, Outcome(OutcomeKind.OK, 0))
    archive = place / f"node-{rank}.zip"
    pack(run, [rank], archive, manifest=True)
    return archive


def test_ranks_of_two_disks_are_one_run_that_knows_where_it_lies(tmp_path: Path) -> None:
    merged = tmp_path / "run.zip"
    archives = [packed(tmp_path, rank) for rank in range(2)]
    assert merge(archives, merged) == hash_of(merged)
    here = tmp_path / "study" / "runs" / "it"
    here.mkdir(parents=True)
    unpack(merged, here)
    run = read_run(here)
    assert (run.outcome.kind, run.world_size) == (OutcomeKind.OK, 2)
    for rank in run.ranks:
        (hlo,) = rank.hlo
        assert hlo.is_relative_to(here)
        assert rank.stdout.read_text().endswith(f"node{rank.number}/run\n")  # words stay as printed
    assert [it.name for it in here.parent.iterdir()] == ["it"]


def test_what_does_not_come_whole_leaves_nothing(tmp_path: Path) -> None:
    merged = tmp_path / "run.zip"
    merge([packed(tmp_path, 0)], merged)
    merged.write_bytes(merged.read_bytes()[:-100])
    here = tmp_path / "study" / "it"
    with pytest.raises(InputError, match="can't be brought here"):
        unpack(merged, here)
    assert not list(here.parent.iterdir())


def test_a_run_that_is_there_is_not_overwritten(tmp_path: Path) -> None:
    merged = tmp_path / "run.zip"
    merge([packed(tmp_path, 0)], merged)
    here = tmp_path / "it"
    here.mkdir()
    (here / "mine").touch()
    with pytest.raises(InputError):
        unpack(merged, here)
    assert [it.name for it in here.iterdir()] == ["mine"]


def test_names_that_lead_elsewhere_are_left_out(tmp_path: Path) -> None:
    inner, merged = tmp_path / "node-0.zip", tmp_path / "run.zip"
    with zipfile.ZipFile(inner, "w") as archive:
        archive.writestr("../../outside", "x")
        archive.writestr("rank0/inside", "y")
    merge([inner], merged)
    unpack(merged, tmp_path / "place" / "it")
    assert not list(tmp_path.rglob("outside"))
    assert (tmp_path / "place" / "it" / "rank0" / "inside").read_text() == "y"
