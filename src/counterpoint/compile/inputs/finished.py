"""`load_scheduled`: a module that XLA is through with, which can be simulated as it is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

from counterpoint.compile.inputs.candidates import candidates, hlo_flops, is_scheduled
from counterpoint.compile.inputs.shelf import Paper
from counterpoint.compile.inputs.workload import form_of, papers_of
from counterpoint.compile.workers.job import Form
from counterpoint.core.errors import UsageError
from counterpoint.hlo import Program, read_program

_MANY: Final = 12


def load_scheduled(path: Path | str, module: str | None = None) -> Program | None:
    """The scheduled module at a path that holds nothing to compile again; None where it does.

    Of several the one with the most FLOPs, or the one of that name.
    """
    path = Path(path)
    found = papers_of(path)
    if len(found) == 1 and path.is_file():
        return _single(found[0])
    papers = [paper for paper in found if is_scheduled(paper)]
    if not papers or candidates(found):
        return None
    return _chosen(path, [_with_text(paper.read()) for paper in _once(papers)], module)


def _single(paper: Paper) -> Program | None:
    data = paper.read()
    if form_of(data) not in (Form.HLO_PROTO, Form.HLO_TEXT):
        return None
    if form_of(data) is Form.HLO_TEXT and b"is_scheduled=true" not in data.partition(b"\n\n")[0]:
        return None
    program = _with_text(data)
    return program if program.is_scheduled else None


def _with_text(data: bytes) -> Program:
    """With what it was read from: a prediction of it is kept with its program."""
    return replace(read_program(data), written=data)


def _once(papers: list[Paper]) -> list[Paper]:
    """XLA dumps a module as text and as proto: the proto tells more."""
    protos = [paper for paper in papers if paper.name.endswith(".pb")]
    stems = {paper.name.removesuffix(".hlo.pb") for paper in protos}
    return [*protos, *(it for it in papers if it.name.removesuffix(".txt") not in stems
                       and not it.name.endswith(".pb"))]  # fmt: skip


def _chosen(path: Path, programs: list[Program], wanted: str | None) -> Program:
    if wanted is None:
        return max(programs, key=hlo_flops)
    for matches in (
        [it for it in programs if it.name == wanted],
        [it for it in programs if wanted in it.name],
    ):
        if matches:
            return max(matches, key=hlo_flops)
    names = list(dict.fromkeys(it.name for it in programs))
    raise UsageError(
        f"{wanted}: no module of {path}",
        why=f"it holds {', '.join(names[:_MANY])}",
        next=f"name one of them: {names[0]}",
    )
