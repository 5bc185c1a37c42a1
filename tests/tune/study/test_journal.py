"""Whatever happens at whichever write: what was told to be on disk is there, and it goes on."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
import zlib
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterpoint.cli.app import main
from counterpoint.core.basis import Range
from counterpoint.core.errors import InputError, UsageError
from counterpoint.core.records import to_plain
from counterpoint.flags.settings import Settings
from counterpoint.runs.steady import Steady
from counterpoint.tune.arm import Arm, ArmChange, Predicted
from counterpoint.tune.study.directory import JOURNAL
from counterpoint.tune.study.journal import Journal, Unwritable, read_journal
from counterpoint.tune.study.lines import DamagedLine, NewerFormat, line_of, read_lines
from counterpoint.tune.study.records import (
    FORMAT,
    ArmEntered,
    Paused,
    Record,
    StudyBegan,
    StudyEnded,
    TrialEnded,
    TrialStarted,
)
from counterpoint.tune.trial.report import Losses, Purpose, TrialFailure, TrialReport
from faulty_disk import Fault, FaultyDisk, Killed

BEGAN = StudyBegan(
    format=FORMAT,
    version="0.1.0",
    question="q",
    workload="python train.py",
    command=("python", "train.py", "--name", "größe \udc80"),
    target=None,
    executor="local",
    base=Settings((("xla_gpu_autotune_level", "4"),), (("NCCL_DEBUG", "INFO"),)),
    options=(("budget", "20 trials"),),
    at="2026-01-01T00:00:00+00:00",
)
ARM = Arm(
    name="all-gather threshold 512 MiB",
    settings=BEGAN.base,
    changes=(ArmChange(dimension="all-gather threshold", choice="512 MiB"),),
    predicted=Predicted(
        step_s=0.5,
        range_s=Range(0.4, 0.6),
        gain=0.03,
        gain_range=Range(-0.01, 0.07),
        program="abc",
    ),
)
AFTER: tuple[Record, ...] = (
    ArmEntered(arm=ARM, at="1"),
    TrialStarted(
        number=1, arm="base", purpose=Purpose.NOISE, row=0, allocation=1, directory="runs/1", at="2"
    ),
    TrialEnded(
        number=1,
        report=TrialReport(
            steady=Steady(median_s=0.5, steps=30, warm_up=2, spread=0.01, source="log"),
            failure=TrialFailure.NAN,
            losses=Losses(steps=(1, 2), values=(2.5, float("inf"))),
        ),
        wall_s=12.5,
        at="3",
    ),
    Paused(why="Ctrl-C", at="4"),
    StudyEnded(why="decided", at="5"),
)
ALL = (BEGAN, *AFTER)


def write_all(path: Path, disk: FaultyDisk, written: list[Record]) -> None:
    """Begin or go on; `written` gets each record that the journal said is on disk."""
    journal = Journal.open(path, disk) if path.exists() else Journal.create(path, BEGAN, disk)
    with journal:
        written[:] = journal.records
        for record in ALL[len(journal.records) :]:
            journal.append(record)
            written.append(record)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    with Journal.create(path, BEGAN) as journal:
        for record in AFTER:
            journal.append(record)
    assert read_journal(path).records == ALL
    with Journal.open(path) as journal:
        assert journal.records == ALL


@pytest.mark.parametrize("fault", Fault, ids=lambda it: it.name.lower())
def test_a_fault_at_any_operation_loses_nothing_that_was_told(tmp_path: Path, fault: Fault) -> None:
    operations = FaultyDisk(fault, -1)
    write_all(tmp_path / "whole.jsonl", operations, [])
    assert operations.done > 2 * len(ALL)
    for at in range(operations.done):
        path = tmp_path / f"{at}.jsonl"
        written: list[Record] = []
        disk = FaultyDisk(fault, at)
        with pytest.raises((Killed, Unwritable, OSError)):
            write_all(path, disk, written)
        if path.exists():
            found = read_journal(path).records
            assert found == ALL[: len(found)], at
            assert len(found) >= len(written)  # no record is gone
        write_all(path, FaultyDisk(fault, -1), [])
        assert read_journal(path).records == ALL, at


@pytest.mark.parametrize("fault", [Fault.FULL, Fault.HALF_FULL])
def test_a_disk_that_has_room_again_is_written_on_by_the_same_journal(
    tmp_path: Path, fault: Fault
) -> None:
    operations = FaultyDisk(fault, -1)
    write_all(tmp_path / "whole.jsonl", operations, [])
    for at in range(4, operations.done):  # the first four make the file
        path = tmp_path / f"{at}.jsonl"
        with Journal.create(path, BEGAN, FaultyDisk(fault, at)) as journal:
            for record in AFTER:
                with suppress(Unwritable):
                    journal.append(record)
                    continue
                journal.append(record)
        assert read_journal(path).records == ALL, at


def test_after_a_torn_line_that_can_t_be_cut_off_nothing_more_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    with Journal.create(path, BEGAN, FaultyDisk(Fault.FULL_FOR_GOOD, 4)) as journal:
        with pytest.raises(Unwritable, match="No space left"):
            journal.append(AFTER[0])
        torn = path.stat().st_size
        with pytest.raises(Unwritable):
            journal.append(AFTER[0])
    assert path.stat().st_size == torn
    with Journal.open(path) as journal:
        assert journal.records == (BEGAN,)
        journal.append(AFTER[0])
    assert read_journal(path).records == ALL[:2]


@given(at=st.integers(0), flip=st.integers(1, 255))
@settings(deadline=None)
def test_a_byte_that_changes_never_makes_another_study(at: int, flip: int) -> None:
    data = bytearray(b"".join(line_of(it, number) for number, it in enumerate(ALL)))
    at %= len(data)
    joined = data[at] == ord("\n")  # with the line after it
    data[at] ^= flip
    try:
        read = read_lines(bytes(data))
    except (DamagedLine, NewerFormat):
        return
    assert read.records == ALL[: len(read.records)]
    assert len(read.records) >= len(ALL) - 1 - joined


@given(size=st.integers(0, 10_000))
def test_a_file_that_is_cut_off_anywhere_is_a_shorter_study(size: int) -> None:
    data = b"".join(line_of(it, number) for number, it in enumerate(ALL))[:size]
    read = read_lines(data)
    assert read.records == ALL[: len(read.records)]
    assert len(read.records) >= data.count(b"\n")


def test_damage_in_the_middle_is_named_and_nothing_is_touched(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    lines = [line_of(it, number) for number, it in enumerate(ALL)]
    lines[2] = lines[2].replace(b"noise", b"noize")
    path.write_bytes(b"".join(lines))
    with pytest.raises(InputError, match="line 3: its checksum"):
        Journal.open(path)
    assert path.read_bytes() == b"".join(lines)


def test_a_line_that_is_gone_is_missed(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    lines = [line_of(it, number) for number, it in enumerate(ALL)]
    path.write_bytes(b"".join([*lines[:2], *lines[3:]]))
    with pytest.raises(InputError, match="line 3: it has number 3 instead of 2"):
        read_journal(path)


def test_a_record_of_a_newer_version_is_told_from_damage(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"

    class StudyTurned(Paused):
        """What a later version may write."""

    newer = line_of(StudyTurned(why="x", at="1"), 1)
    path.write_bytes(line_of(BEGAN, 0) + newer)
    with pytest.raises(InputError, match="StudyTurned"):
        read_journal(path)


def test_two_tunes_can_t_write_to_one_journal(tmp_path: Path) -> None:
    path = tmp_path / "study" / "journal.jsonl"
    path.parent.mkdir()
    with Journal.create(path, BEGAN), pytest.raises(UsageError, match="another tune"):
        Journal.open(path)
    Journal.open(path).close()


@pytest.mark.system
def test_the_lock_ends_with_the_process_that_has_it(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_bytes(line_of(BEGAN, 0))
    program = f"""
        import os, signal, pathlib
        from counterpoint.tune.study.journal import Journal
        journal = Journal.open(pathlib.Path({str(path)!r}))
        os.kill(os.getpid(), signal.SIGKILL)
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=False)
    Journal.open(path).close()


def test_what_is_no_journal_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"journal\.jsonl is missing"):
        read_journal(tmp_path / "journal.jsonl")
    path = tmp_path / "other.jsonl"
    path.write_text('{"step": 1}\n{"step": 2}\n')
    with pytest.raises(InputError, match="line 1: its checksum"):
        read_journal(path)


@given(st.builds(TrialReport))
def test_whatever_a_report_holds_comes_back(report: TrialReport) -> None:
    record = TrialEnded(number=1, report=report, wall_s=1.0, at="")
    (found,) = read_lines(line_of(record, 0)).records
    assert repr(found) == repr(record)  # NaN is not equal to itself


@pytest.mark.parametrize("place", ["xla", "env", "options"])
@pytest.mark.parametrize("name", ["NCCL_A;touch canary;B", "A\nB", "", "größe"])
def test_a_journal_that_was_made_up_brings_no_bad_names(
    place: str, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = to_plain(BEGAN)
    plain["base"][place] = [[name, "1"]]
    body = json.dumps({"n": 0, "is": "StudyBegan", "says": plain})[:-1]
    line = f'{body}, "crc": "{zlib.crc32(body.encode()):08x}"}}\n'
    (tmp_path / JOURNAL).write_text(line)
    assert main(["tune", "show", str(tmp_path), "--as", "bash"]) == InputError.exit_code
    printed = capsys.readouterr()
    assert printed.out == ""
    assert f"{tmp_path / JOURNAL}: {name!r}: not a setting" in printed.err
    assert "a newer Counterpoint" not in printed.err
