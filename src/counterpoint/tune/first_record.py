"""The first record of a journal: the request, with hashes of what must not change later.

A study continues only under the same request; of its parts, those that differ are named. Files of
the command may change, and the user is told which did.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from counterpoint import __version__
from counterpoint.core.records import to_plain
from counterpoint.tune.request import TuneRequest
from counterpoint.tune.study.directory import options_of
from counterpoint.tune.study.ledger import stamp
from counterpoint.tune.study.records import FORMAT, StudyBegan
from counterpoint.workflow.prediction import PredictionOptions

_FILE: Final = "the file "
_WRITTEN: Final = (".py", ".sh", ".yaml", ".yml", ".toml", ".gin")
"""Suffixes of files that people write. Other files may be written by the program itself."""


def file_parts(command: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield each file named in the command, with a hash of its content."""
    for word in dict.fromkeys(command):
        path = Path(word)
        with suppress(OSError, ValueError):
            if path.suffix in _WRITTEN and path.is_file():
                yield f"{_FILE}{word}", hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def changed_files_note(first: StudyBegan, now: StudyBegan) -> str | None:
    """Return a note that names the files that were changed; None if none was.

    This is not an error: a study is identified by its command, and the change may be harmless.
    """
    before = dict(first.parts)
    names = [
        name.removeprefix(_FILE)
        for name, digest in now.parts
        if name.startswith(_FILE) and before.get(name, digest) != digest
    ]
    if not names:
        return None
    return (
        f"{', '.join(names)} changed since the study began: earlier measurements are of another"
        " program; use -o ANOTHER for a new study"
    )


def first_record(request: TuneRequest, executor: str | None, cwd: Path) -> StudyBegan:
    """Return the first record of the journal."""
    target = None if request.target is None else str(request.target)
    return StudyBegan(
        format=FORMAT,
        version=__version__,
        question=_question(request, target, executor, cwd),
        workload=request.name,
        command=request.command if request.measure else (),
        target=target,
        executor=executor,
        base=request.base,
        options=options_of(request.plan, _other_options(request)),
        at=stamp(),
        cwd=str(cwd),
        words=request.words,
        parts=_parts(request),
    )


def _other_options(request: TuneRequest) -> dict[str, str]:
    given = request.executor_options.given
    options = {f"executor {name.replace('_', '-')}": value for name, value in given.items()}
    if request.confirm is not None:
        options["confirm"] = str(request.confirm)
    return options


def _question(request: TuneRequest, target: str | None, executor: str | None, cwd: Path) -> str:
    """Return a hash of what makes measurements comparable, and the search the same.

    Budgets, time limits and the number of arms may change from one session to the next.
    """
    plan, prediction = request.plan, request.prediction or PredictionOptions()
    question: dict[str, Any] = {
        "workload": request.workload,
        "program": request.program,
        "command": request.command,
        "cwd": str(cwd),
        "target": target,
        "executor": executor,
        "measure": request.measure,
        "base": to_plain(request.base),
        "arms": request.arms,
        "space": _content(plan.space_file),
        "shape": to_plain(plan.shape),
        "steps": plan.limits.steps,
        "prices": [_content(path) for path in _price_files(prediction)],
        **({"schedule_only": True} if prediction.schedule_only else {}),
    }
    return _hash(question)[:16]


def _parts(request: TuneRequest) -> tuple[tuple[str, str], ...]:
    """Return hashes of the parts of the question that the first record does not contain in full.

    Each names its arguments, so that a report of a difference says what to change.
    """
    plan, prediction = request.plan, request.prediction or PredictionOptions()
    parts: dict[str, object] = {
        "the program (--program)": request.program,
        "the command": request.command,
        "whether anything is measured": request.measure,
        "the arms (--arm)": request.arms,
        "the space file (--space)": _content(plan.space_file),
        "the process layout (--nodes, --per, --ranks-per-node)": to_plain(plan.shape),
        "the length of a trial (--steps)": plan.limits.steps,
        "the prices of the prediction (tables, --profile, --calibration)": [
            _content(path) for path in _price_files(prediction)
        ],
        "how far libtpu compiles (--schedule-only)": prediction.schedule_only,
    }
    files = file_parts(request.command) if request.measure else ()
    return (*((name, _hash(part)[:8]) for name, part in parts.items()), *files)


def _hash(plain: object) -> str:
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()


def _price_files(options: PredictionOptions) -> list[Path | str | None]:
    return [
        *options.nccl_table,
        options.gemm_table,
        options.kernel_table,
        options.calibration,
        options.profile,
    ]


def _content(path: Path | str | None) -> str | None:
    """Return a hash of a file's content, independent of its path; for a directory, its name."""
    if path is None:
        return None
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except OSError:
        return str(path)
