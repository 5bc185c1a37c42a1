"""The directory of a study: begun once, gone on with as often as it takes, never overwritten.

STUDY/journal.jsonl   what happened, record by record: the study itself
STUDY/runs/           a Run per trial
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final

from counterpoint.core import CounterpointError, InputError, UsageError, beside, parse_json
from counterpoint.core.records import Misfit, of_plain, to_plain
from counterpoint.tune.journal.journal import Disk, Journal, read_journal
from counterpoint.tune.journal.records import Record, Resumed, StudyBegan
from counterpoint.tune.plan import Plan
from counterpoint.tune.study.study import Ledger, Study, fold, follow, stamp

JOURNAL: Final = "journal.jsonl"
RUNS: Final = "runs"
_COMMAND: Final = "the command"
_REAL: Final = Disk()


def is_study(path: Path) -> bool:
    """Whether a study lies there, or the beginning of one."""
    return (path / JOURNAL).is_file()


@contextmanager
def open_study(path: Path, asked: StudyBegan, disk: Disk = _REAL) -> Generator[Ledger]:
    """Begin a study there, or go on with the one that asks the same.

    A UsageError where something else lies there: nothing is overwritten. One that fails before it
    has found out anything leaves nothing behind, so that the mended command may take its place.
    """
    journal = _open(path, asked, disk)
    with journal:
        study = fold(journal.records or (asked,))
        waiting: list[Record] = []
        if not journal.records:
            journal.append(asked)
        elif study.options != asked.options or (len(journal.records) > 1 and not study.is_done):
            again = Resumed(options=asked.options, version=asked.version, at=stamp())
            study = follow(study, again)
            waiting.append(again)
        ledger = Ledger(study, partial(_append, journal, waiting))
        try:
            yield ledger
        except CounterpointError:
            if ledger.study == Study(began=ledger.study.began):
                _withdraw(path)
            raise
        _append(journal, waiting)  # what the user says now stands, also where nothing came of it


def read_study(path: Path) -> Study:
    """A study as far as it has come, also while somebody works at it."""
    if not path.is_dir():
        raise InputError(
            f"{path}: no such directory" if not path.exists() else f"{path} is no directory",
            next="counterpoint tune show STUDY",
        )
    records = read_journal(path / JOURNAL).records
    if not records:
        raise InputError(
            f"{path}: the study was never begun",
            why="its journal is empty: the tuner died before it wrote the first line",
            next="give the command of the study again",
        )
    return fold(records)


def _append(journal: Journal, waiting: list[Record], *records: Record) -> None:
    """Going on is written down with the first thing that comes of it.

    So what is refused before, such as a workload that is another now, leaves the study as it was.
    """
    while waiting:
        journal.append(waiting[0])
        del waiting[0]
    for it in records:
        journal.append(it)


def _open(path: Path, asked: StudyBegan, disk: Disk) -> Journal:
    if is_study(path):
        journal = Journal.open(path / JOURNAL, disk)
        try:
            _refuse_other(path, journal, asked)
        except BaseException:
            journal.close()
            raise
        return journal
    _claim(path)
    try:
        return Journal.create(path / JOURNAL, asked, disk)
    except FileExistsError:  # somebody was faster
        return _open(path, asked, disk)
    except OSError as failure:
        raise _unwritable(path, failure) from None


def _claim(path: Path) -> None:
    if path.is_file():
        raise UsageError(
            f"{path} is a file, and a study is a directory",
            next=f"-o {shlex.quote(str(beside(path)))}",
        )
    try:
        path.mkdir(parents=True, exist_ok=True)
        used = any(path.iterdir())
    except OSError as failure:
        raise _unwritable(path, failure) from None
    if used:
        raise UsageError(
            f"{path} is not empty, and holds no study",
            why="nothing is overwritten",
            next=f"-o {shlex.quote(str(beside(path)))}",
        )


def _withdraw(path: Path) -> None:
    with suppress(OSError):
        (path / JOURNAL).unlink()
        path.rmdir()


def _refuse_other(path: Path, journal: Journal, asked: StudyBegan) -> None:
    first = journal.records[0] if journal.records else None
    if not isinstance(first, StudyBegan) or first.question == asked.question:
        return
    differs = "; ".join(_differences(first, asked))
    raise UsageError(
        f"{path} holds another study: {first.workload}",
        why=f"{differs}: what was measured there can't be compared",
        next=f"-o {shlex.quote(str(beside(path)))}",
    )


def _differences(first: StudyBegan, asked: StudyBegan) -> list[str]:
    pairs = (
        ("the workload", first.workload, asked.workload),
        ("the target", first.target, asked.target),
        ("the executor", first.executor, asked.executor),
        ("the working directory", first.cwd, asked.cwd),
    )
    found = [f"{what} was {old}, and is {new}" for what, old, new in pairs if old != new]
    if first.base != asked.base:
        found.append("the base's settings were others")
    then = dict(first.parts)
    parts = [it for it, now in asked.parts if it in then and then[it] != now]
    found += [f"{it} changed" for it in parts if it != _COMMAND or first.workload == asked.workload]
    return found or ["what may be tried, or how it is run, was another"]


def _unwritable(path: Path, failure: OSError) -> UsageError:
    return UsageError(
        f"can't write to {path}: {failure.strerror or failure}",
        next="name a directory that can be written to, with -o",
    )


PLAN: Final = "plan"


def options_of(plan: Plan, said: Mapping[str, str] | None = None) -> tuple[tuple[str, str], ...]:
    """The plan, and what else a user said, by name."""
    return ((PLAN, json.dumps(to_plain(plan))), *(said or {}).items())


def plan_of(study: Study) -> Plan:
    """The plan that a study goes by, as it was last told."""
    text = dict(study.options).get(PLAN)
    try:
        return Plan() if text is None else of_plain(Plan, parse_json(text))
    except (Misfit, ValueError) as error:
        raise InputError(
            f"the study's plan can't be read: {error}",
            why="another version of Counterpoint wrote it",
            next="pip install --upgrade counterpoint",
        ) from None
