"""MemoryReport: the memory of a step against its budget, and what is not known without a device."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

import polars as pl

from counterpoint.core import InputError, as_html
from counterpoint.hardware.target import Target
from counterpoint.hlo.category import Category, category
from counterpoint.hlo.memory.owners import Owner
from counterpoint.hlo.memory.plan import BufferPlan, plan_from_proto
from counterpoint.hlo.model.program import Program, launched
from counterpoint.workflow.forecast.ranking import Forecast
from counterpoint.workflow.memory.analysis import MemoryAnalysis, analyze_memory
from counterpoint.workflow.memory.budget import Budget, Verdict, budget_of, verdict_of
from counterpoint.workflow.memory.causes import MemoryCause, causes_of
from counterpoint.workflow.memory.fit import FitTry


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MemoryReport:
    """What a step needs, and whether it fits."""

    name: str
    target: str | None
    basis: str
    analysis: MemoryAnalysis
    budget: Budget | None
    verdict: Verdict
    unknown: tuple[str, ...]
    causes: tuple[MemoryCause, ...] = ()
    tries: tuple[FitTry, ...] = ()
    notes: tuple[str, ...] = ()
    is_compiled: bool = False  # it was read compiled, and can't be compiled with other settings

    def __repr__(self) -> str:
        needs = self.analysis.needs / 2**30
        return f"<MemoryReport {self.name!r}: {needs:,.1f} GiB, {self.verdict}>"

    def _repr_html_(self) -> str | None:
        return as_html(self)

    @property
    def needs(self) -> int:
        """Bytes of the device that a step allocates."""
        return self.analysis.needs

    @property
    def owners(self) -> pl.DataFrame:
        """Bytes of the device by owner, largest first."""
        rows = [(str(owner), size) for owner, size in self.analysis.by_owner.items()]
        return pl.DataFrame(rows, {"owner": pl.String, "bytes": pl.Int64}, orient="row")

    @property
    def arrays(self) -> pl.DataFrame:
        """The arrays that are held, largest first."""
        rows = [
            (
                str(row.owner),
                row.name,
                row.bytes,
                None if row.shape is None else str(row.shape),
                row.layers,
                row.count,
                row.source,
            )
            for row in self.analysis.held
        ]
        return pl.DataFrame(rows, _ARRAYS, orient="row")

    @property
    def short_by(self) -> int | None:
        """Bytes that are missing; None if it fits, or if that is not known."""
        if self.verdict != Verdict.DOES_NOT or self.budget is None:
            return None
        limit = self.budget.pool_bytes if self.budget.is_limit else self.budget.device_bytes
        return None if limit is None else self.analysis.needs - limit


def memory_report(
    program: Program,
    plan: BufferPlan,
    target: Target | None,
    *,
    environment: Mapping[str, str] | None = None,
    flags: Mapping[str, str] | None = None,
    fraction: float | None = None,
    at: str | None = None,
) -> MemoryReport:
    """Return the report of a scheduled program with the plan of its buffers."""
    on_tpus = target is not None and target.tpu is not None
    analysis = analyze_memory(program, plan, on_tpus=on_tpus, at=at)
    budget = None
    verdict = Verdict.UNKNOWN
    if target is not None:
        spaces = [space for space in analysis.spaces if space.on_device]
        budget = budget_of(
            target,
            environment or {},
            flags or {},
            sum(space.arguments for space in spaces),
            sum(space.outputs for space in spaces),
            fraction,
        )
        verdict = verdict_of(analysis.needs, budget, on_tpus=on_tpus)
    named = () if analysis.has_names else (_NO_NAMES,)
    return MemoryReport(
        name=program.name,
        target=None if target is None else str(target),
        basis="predicted",
        analysis=analysis,
        budget=budget,
        verdict=verdict,
        causes=tuple(causes_of(analysis.owners, analysis, budget)),
        unknown=() if on_tpus else tuple(_unknown(program)),
        notes=named,
    )


_ARRAYS: Final = {
    "owner": pl.String,
    "name": pl.String,
    "bytes": pl.Int64,
    "shape": pl.String,
    "layers": pl.Int64,
    "count": pl.Int64,
    "source": pl.String,
}
_NO_NAMES = (
    "the program has no names: owners follow from its data flow alone, and phases are not known"
)


def _unknown(program: Program) -> Iterator[str]:
    """Yield what is not in the plan of a GPU because it needs the device."""
    attention = [
        it
        for computation in launched(program)
        for it in computation.instructions
        if category(program, it) is Category.ATTENTION and "cudnn" in it.custom_call_target.lower()
    ]
    if attention:
        yield (
            f"workspaces of cuDNN's attention ({len(attention)} calls): planned as 0 without the"
            " device"
        )
    yield "what NCCL, CUDA, cuBLAS and kernels take outside of the pool"


def report_of_forecast(
    forecast: Forecast, target: Target, *, at: str | None = None
) -> MemoryReport:
    """Return the report of a compiled step; of several programs, of the one that needs most."""
    compiled = _largest(forecast)
    if compiled.compiled is None:
        raise InputError(
            "this program is scheduled already, and its file has no plan of its memory",
            why="XLA's plan is in *.after_optimizations.hlo.pb of a dump, or made by a compile",
            next="pass the program before XLA's passes",
        )
    plan = plan_from_proto(compiled.compiled.buffers)
    if plan is None:
        raise InputError(
            "this compiler does not tell the plan of its memory",
            why="libtpu tells it where it only schedules" if target.tpu is not None else None,
            next="use --schedule-only" if target.tpu is not None else "use another jaxlib",
        )
    report = memory_report(
        compiled.program,
        plan,
        target,
        environment=compiled.settings.variables,
        flags={**compiled.settings.flags, **dict(compiled.settings.options)},
        fraction=compiled.memory.fraction,
        at=at,
    )
    about = tuple(note for note in compiled.notes if "memory" in note)
    return replace(report, notes=(*report.notes, *about))


def _largest(forecast: Forecast) -> Forecast:
    """Return the program of a step that needs most."""
    return max(forecast.parts or (forecast,), key=lambda it: it.memory.peak_bytes or 0)


def largest_owners(forecast: Forecast, count: int) -> list[tuple[Owner, int]]:
    """Return the owners that hold most at the peak; none if the plan is not known."""
    part = _largest(forecast)
    plan = None if part.compiled is None else plan_from_proto(part.compiled.buffers)
    if plan is None:
        return []
    return list(analyze_memory(part.program, plan).by_owner.items())[:count]
