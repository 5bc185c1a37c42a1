"""The program as the run that left the workload had compiled it, on its own devices."""

from __future__ import annotations

from collections.abc import Iterator

from counterpoint.compile.inputs.workload import Workload
from counterpoint.core.errors import InputError
from counterpoint.hlo import Program, read_program


def own_programs(workload: Workload) -> Iterator[Program]:
    """Each scheduled module that lies beside the workload; a damaged one is no evidence."""
    for paper in workload.scheduled:
        try:
            yield read_program(paper.read())
        except InputError:
            continue
