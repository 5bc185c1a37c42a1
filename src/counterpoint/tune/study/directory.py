"""The directory of a study: created once, resumed any number of times, never overwritten.

STUDY/journal.jsonl   the records of what happened: the study itself
STUDY/runs/           a Run per trial
STUDY/steps/          Timelines of predicted steps: the base's, and those of the best few arms
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from os.path import isdir, lexists
from pathlib import Path
from typing import Final

from counterpoint.core import (
    CounterpointError,
    InputError,
    UsageError,
    WriteError,
    parse_json,
    unused_path,
)
from counterpoint.core.records import RecordError, from_plain, to_plain
from counterpoint.tune.arm import Predicted
from counterpoint.tune.plan import StudyPlan
from counterpoint.tune.study.journal import Disk, Journal, begin_anew, read_journal
from counterpoint.tune.study.ledger import Ledger, stamp
from counterpoint.tune.study.records import Record, Resumed, StudyBegan
from counterpoint.tune.study.study import ImpossibleRecord, Study, fold, follow

JOURNAL: Final = "journal.jsonl"
RUNS: Final = "runs"
_COMMAND: Final = "the command"
_REAL: Final = Disk()
PLAN: Final = "plan"


def is_study(path: Path) -> bool:
    """Return True if the directory holds a study, or the beginning of one."""
    try:
        return (path / JOURNAL).is_file()
    except OSError:
        return False  # not readable: what reads it reports that


@contextmanager
def open_study(path: Path, first: StudyBegan, disk: Disk = _REAL) -> Generator[Ledger]:
    """Begin a study, or resume one that has the same question.

    Raises a UsageError if the directory holds anything else: nothing is overwritten. A study that
    fails before it has any result is removed, with the directories that were made for it, so that
    the corrected command can use the directory.
    """
    made = [place for place in (path, *path.parents) if not lexists(place)]
    journal = _open(path, first, disk)
    with journal:
        study = _folded(journal.path, journal.records or (first,))
        waiting: list[Record] = []
        if not journal.records:
            journal.append(first)
        elif study.options != first.options or (len(journal.records) > 1 and not study.is_done):
            again = Resumed(options=first.options, version=first.version, at=stamp())
            study = follow(study, again)
            waiting.append(again)
        ledger = Ledger(study, partial(_append, journal, waiting))
        try:
            yield ledger
        except CounterpointError:
            if ledger.study == Study(began=ledger.study.began):
                _withdraw(path, made)
            raise
        _append(journal, waiting)  # record the new options even if nothing came of them


def read_study(path: Path) -> Study:
    """Read the current state of a study, even while another process is working on it."""
    if not isdir(path):  # noqa: PTH112 - Path.is_dir fails for a name that is too long
        raise InputError(
            f"{path} is not a directory" if lexists(path) else f"{path}: no such directory",
            next=f"ls {shlex.quote(str(path.absolute().parent))}",
        )
    records = read_journal(path / JOURNAL).records
    if not records:
        raise InputError(
            f"{path}: the study is empty",
            why="the tuner died before it wrote the first record",
            next="repeat the command of the study",
        )
    return _folded(path / JOURNAL, records)


def _folded(journal: Path, records: Sequence[Record]) -> Study:
    try:
        return fold(records)
    except ImpossibleRecord as error:
        raise InputError(
            f"{journal}: damaged: {error}",
            why="its lines are intact, so it was changed by hand",
            next=begin_anew(journal),
        ) from None


def step_path(study: Path, figures: Predicted) -> Path:
    """Return where the Timeline of a predicted step is kept, if it is: in order of their times."""
    return study / "steps" / f"{figures.step_s * 1e6:012.0f}us-{figures.program[:16]}"


def _append(journal: Journal, waiting: list[Record], *records: Record) -> None:
    """Append records; waiting records are written only with the first result.

    So an error before that, such as a changed workload, leaves the study as it was.
    """
    while waiting:
        journal.append(waiting[0])
        del waiting[0]
    for record in records:
        journal.append(record)


def _open(path: Path, first: StudyBegan, disk: Disk) -> Journal:
    if is_study(path):
        journal = Journal.open(path / JOURNAL, disk)
        try:
            _refuse_other(path, journal, first)
        except BaseException:
            journal.close()
            raise
        return journal
    _claim(path)
    try:
        return Journal.create(path / JOURNAL, first, disk)
    except FileExistsError:  # another process was faster
        return _open(path, first, disk)
    except OSError as failure:
        raise _unwritable(path, failure) from None


def _claim(path: Path) -> None:
    if path.is_file():
        raise UsageError(
            f"{path} is a file, but a study is a directory", next=f"use -o {unused_path(path)}"
        )
    try:
        path.mkdir(parents=True, exist_ok=True)
        used = any(path.iterdir())
    except OSError as failure:
        raise _unwritable(path, failure) from None
    if used:
        raise UsageError(
            f"{path} is not empty, and not a study",
            why="tune never overwrites other files",
            next=f"use -o {unused_path(path)}",
        )


def _withdraw(path: Path, made: list[Path]) -> None:
    with suppress(OSError):
        (path / JOURNAL).unlink()
        for place in made:
            place.rmdir()


def _refuse_other(path: Path, journal: Journal, first: StudyBegan) -> None:
    recorded = journal.records[0] if journal.records else None
    if not isinstance(recorded, StudyBegan) or recorded.question == first.question:
        return
    differs = "; ".join(_differences(recorded, first))
    raise UsageError(
        f"{path} holds another study: {recorded.workload}",
        why=f"{differs}: its measurements can't be compared with new ones",
        next=f"use -o {unused_path(path)}",
    )


def _differences(recorded: StudyBegan, first: StudyBegan) -> list[str]:
    pairs = (
        ("the workload", recorded.workload, first.workload),
        ("the target", recorded.target, first.target),
        ("the executor", recorded.executor, first.executor),
        ("the working directory", recorded.cwd, first.cwd),
    )
    found = [f"{what} changed from {old} to {new}" for what, old, new in pairs if old != new]
    if recorded.base != first.base:
        found.append("the base's settings changed")
    then = dict(recorded.parts)
    parts = [part for part, now in first.parts if part in then and then[part] != now]
    same_workload = recorded.workload == first.workload  # else the command is named above
    found += [f"{part} changed" for part in parts if part != _COMMAND or same_workload]
    return found or ["the space or the process layout changed"]


def _unwritable(path: Path, failure: OSError) -> UsageError:
    return WriteError(path, failure, next="choose a writable directory with -o")


def options_of(
    plan: StudyPlan, others: Mapping[str, str] | None = None
) -> tuple[tuple[str, str], ...]:
    """Return the plan and the user's other options, by name."""
    return ((PLAN, json.dumps(to_plain(plan))), *(others or {}).items())


def plan_of(study: Study) -> StudyPlan:
    """Return the current plan of a study."""
    text = dict(study.options).get(PLAN)
    try:
        return StudyPlan() if text is None else from_plain(StudyPlan, parse_json(text))
    except (RecordError, ValueError) as error:
        raise InputError(
            f"the study's plan can't be read: {error}",
            why="another version of Counterpoint wrote it",
            next="pip install --upgrade counterpoint",
        ) from None
