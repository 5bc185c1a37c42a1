"""`counterpoint memory`: what fills the device, whose it is, and what would fit."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Final

from counterpoint.cli.options import (
    BaseSettings,
    CompileTimeout,
    Digest,
    Force,
    Json,
    Output,
    OutputPath,
    Top,
    Where,
    Words,
    flat,
)
from counterpoint.cli.profiles import write_answer, write_digest
from counterpoint.cli.progress import Progress
from counterpoint.cli.subject import command_of, named_workload
from counterpoint.compile.task import TIMEOUT_S
from counterpoint.core.bounds import check_number
from counterpoint.workflow.forecast.options import ForecastOptions, PredictionOptions

DOES_NOT_FIT: Final = 1
_EXAMPLE: Final = "counterpoint memory --target 8xH100 -- python train.py"
_PEAK: Final = "peak"


def memory(  # noqa: PLR0913 - the options of the command
    workload: str | None = None,
    *command: Words,
    where: Where = Where(),
    base: BaseSettings = BaseSettings(),
    forecast: Annotated[ForecastOptions, flat] = ForecastOptions(),
    timeout_s: CompileTimeout = TIMEOUT_S,
    at: str = _PEAK,
    fit: bool = False,
    top: Top = 12,
    json: Json = False,
    short: Digest = Digest(),
    out: OutputPath = None,
    force: Force = False,
) -> int:
    """Show what a step holds in memory, whose it is, and what would make it fit.

    Exit code 1 if it does not fit.

    Args:
        workload: StableHLO, a dump, a Run, HLO; file.py:function, which runs the file; or `-- CMD`.
            Of a dump's *.after_optimizations.hlo.pb the plan is read, and nothing is compiled.
        command: The command to start, after `--`: the step is lowered, and nothing is trained.
        where.program: The program; by default the one with the most FLOPs.
        at: `peak`, or an instruction of the schedule.
        fit: Compile and price changes of the settings that could make it fit.
        out: Write to this file: .json as JSON, .txt or .md as text.
    """
    named = named_workload(workload, _EXAMPLE)
    check_number("--top", top, 1)
    output = Output(json=json, out=out, force=force)
    output.check()
    size = short.size(json=json, out=out)
    target = where.read()

    from counterpoint.report.memory.memory_digest import memory_digest
    from counterpoint.report.memory.memory_document import memory_document
    from counterpoint.report.memory.memory_json import memory_json
    from counterpoint.report.memory.next_command import next_command
    from counterpoint.workflow.memory.request import MemoryRequest, requested_memory

    options = PredictionOptions(
        **vars(forecast),
        settings=base.read(chip=None if target is None else target.gpu),
        recipes=base.recipe,
        timeout_s=timeout_s,
    )
    options.check()
    request = MemoryRequest(
        workload=named,
        command=command_of(named, command) or (),
        target=target,
        program=where.program,
        options=options,
        at=None if at == _PEAK else at,
        fit=fit,
    )
    with Progress("reading the program") as progress:
        report = requested_memory(request, progress.say)
    following = next_command(report, request)
    if size is not None:
        write_digest(memory_digest(report, following).text(size), out)
    else:
        write_answer(
            partial(memory_document, report, top, following), partial(memory_json, report), output
        )
    return DOES_NOT_FIT if report.short_by is not None else 0
