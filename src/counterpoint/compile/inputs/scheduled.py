"""Scheduled modules: what a run's own compiler made of its program, which can't be compiled again.

A prediction can use such a schedule as it is, and compare its own with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from counterpoint.compile.inputs.artifacts import Artifact
from counterpoint.compile.inputs.candidates import candidates, hlo_flops, is_scheduled
from counterpoint.compile.inputs.workload import Workload, artifacts_of, form_of
from counterpoint.compile.job import ProgramForm
from counterpoint.core import InputError, UsageError
from counterpoint.hlo.model.program import Program
from counterpoint.hlo.reader import read_program

_MANY: Final = 12


def own_programs(workload: Workload) -> Iterator[Program]:
    """Yield the scheduled modules of the run that left the workload; skip damaged ones."""
    for artifact in workload.scheduled:
        try:
            yield read_program(artifact.read())
        except InputError:
            continue


def load_scheduled(path: Path | str, module: str | None = None) -> Program | None:
    """Return the scheduled module at a path; None if there are modules that can be compiled.

    Of several it is the one with the most FLOPs, or the one of that name.
    """
    path = Path(path)
    artifacts = artifacts_of(path)
    if len(artifacts) == 1 and path.is_file():
        return _scheduled_program(artifacts[0])
    files = [artifact for artifact in artifacts if is_scheduled(artifact)]
    if not files or candidates(artifacts):
        return None
    return _chosen_program(path, [_with_text(artifact.read()) for artifact in _once(files)], module)


def _scheduled_program(artifact: Artifact) -> Program | None:
    data = artifact.read()
    if form_of(data) not in (ProgramForm.HLO_PROTO, ProgramForm.HLO_TEXT):
        return None
    if (
        form_of(data) is ProgramForm.HLO_TEXT
        and b"is_scheduled=true" not in data.partition(b"\n\n")[0]
    ):
        return None
    program = _with_text(data)
    return program if program.is_scheduled else None


def _with_text(data: bytes) -> Program:
    """Read a program and keep its text, which is stored with a prediction of it."""
    return replace(read_program(data), written=data)


def _once(files: list[Artifact]) -> list[Artifact]:
    """Keep one file per module: XLA dumps text and proto, and the proto has more data."""
    protos = [artifact for artifact in files if artifact.name.endswith(".pb")]
    stems = {artifact.name.removesuffix(".hlo.pb") for artifact in protos}
    texts = [artifact for artifact in files if not artifact.name.endswith(".pb")]
    return [*protos, *(text for text in texts if text.name.removesuffix(".txt") not in stems)]


def _chosen_program(path: Path, programs: list[Program], wanted: str | None) -> Program:
    if wanted is None:
        return max(programs, key=hlo_flops)
    for matches in (
        [program for program in programs if program.name == wanted],
        [program for program in programs if wanted in program.name],
    ):
        if matches:
            return max(matches, key=hlo_flops)
    names = list(dict.fromkeys(program.name for program in programs))
    raise UsageError(
        f"{wanted}: not a module of {path}",
        why=f"it holds {', '.join(names[:_MANY])}",
        next=f"name one of them: {names[0]}",
    )
