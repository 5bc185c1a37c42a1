"""The input of the rules: a Timeline's typical steps, with tables computed on first use."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import numpy as np
import polars as pl

from counterpoint.core import Basis
from counterpoint.core.stopwatch import Stopwatch
from counterpoint.diagnose.attribution import attribute
from counterpoint.diagnose.finding import Evidence
from counterpoint.diagnose.ops import op_profile
from counterpoint.diagnose.selection import Selection, select_everywhere
from counterpoint.diagnose.self_time import self_times
from counterpoint.diagnose.step import Breakdown, breakdown
from counterpoint.hlo.model.program import Program
from counterpoint.timeline.kernel_names import kernel_label
from counterpoint.timeline.model import Timeline

if TYPE_CHECKING:
    from counterpoint.flags.settings import Settings
    from counterpoint.hardware.target import Target
    from counterpoint.runs.run import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """The context of a Timeline; every field may be missing.

    A bare profile records neither settings nor network.
    """

    run: Run | None = None
    target: Target | None = None
    flags: Mapping[str, str] | None = None  # XLA flags as given, without dashes
    environment: Mapping[str, str] | None = None  # relevant variables, as far as they are known
    jaxlib: str | None = None  # for example 0.10.2


def context_of(
    run: Run | None = None,
    target: Target | None = None,
    settings: Settings | None = None,
    jaxlib: str | None = None,
) -> Context:
    """Return the context recorded by a Run or given by Settings; empty if there is neither."""
    jaxlib = jaxlib or (run.versions.get("jaxlib") if run is not None else None)
    if settings is not None:
        return Context(
            run=run,
            target=target,
            flags={**settings.flags, **dict(settings.options)},
            environment=settings.variables,
            jaxlib=jaxlib,
        )
    if run is None:
        return Context(target=target, jaxlib=jaxlib)
    return Context(
        run=run,
        target=target,
        flags=dict(run.settings.xla),
        environment=dict(run.settings.env),
        jaxlib=jaxlib,
    )


_T = TypeVar("_T")

_ROWS: Final = 5


def longest_rows(table: pl.DataFrame) -> tuple[int, ...]:
    """Return `row` of a few of the longest in a table of events, the longest first."""
    longest = table.sort("dur_ps", "row", descending=[True, False]).head(_ROWS)
    return tuple(longest["row"].to_list())


@dataclass(frozen=True, eq=False, kw_only=True)
class StepData:
    """The typical steps of a Timeline and their context.

    Rules read these tables; a table that several rules need belongs here. Times are milliseconds of
    a median step, mean over devices, unless a column says otherwise.
    """

    selection: Selection
    context: Context
    stopwatch: Stopwatch = field(default_factory=Stopwatch, repr=False)
    tables: dict[Callable[[StepData], Any], Any] = field(
        default_factory=dict[Callable[["StepData"], Any], Any], init=False, repr=False
    )

    @property
    def timeline(self) -> Timeline:
        return self.selection.timeline

    @property
    def basis(self) -> Basis:
        """Basis of the tables: measured or predicted."""
        return self.timeline.basis

    @property
    def step_ms(self) -> float:
        """Length of the step whose parts are shown; 0 if no step was found."""
        return self.selection.shown_ms if self.selection.lengths_ms else 0.0

    @cached_property
    def program(self) -> Program | None:
        """The step's program, if the profile contains its HLO."""
        index = self.timeline.step_program
        with self.stopwatch.measure("program"):
            return None if index is None else self.timeline.programs[index].hlo()

    @cached_property
    def spans(self) -> pl.DataFrame:
        """Spans of the selected steps, with `row` (in the Timeline) and `step`."""
        with self.stopwatch.measure("table spans"):
            return self.selection.spans()

    @cached_property
    def attributed(self) -> pl.DataFrame:
        """Time per device, step, state and phase; see `step.attribute`."""
        with self.stopwatch.measure("table attributed"):
            return attribute(self.selection, self.spans)

    @cached_property
    def breakdown(self) -> Breakdown:
        """Parts of the step."""
        return breakdown(self.selection, self.attributed)

    @cached_property
    def timed(self) -> pl.DataFrame:
        """The spans in steps: op, device, step, run, and `self_ps`, the time of nothing nested."""
        with self.stopwatch.measure("table timed"):
            inside = self.spans.select(
                "op", "device", "step", "run", "line", "start_ps", "dur_ps"
            ).filter(pl.col("step").is_not_null())
            return inside.select(
                *("op", "device", "step", "run"),
                self_ps=pl.Series(self_times(inside), dtype=pl.Int64),
            )

    @cached_property
    def ops(self) -> pl.DataFrame:
        """The op profile; see `ops.op_profile`."""
        with self.stopwatch.measure("table ops"):
            return op_profile(self.selection, self.timed)

    def cached(self, make: Callable[[StepData], _T]) -> _T:
        """Return `make(data)`, computed once and cached: `data.cached(slack_table)`.

        This way, tables that depend on `StepData` can be shared without this module importing them.
        """
        if make not in self.tables:
            with self.stopwatch.measure(f"table {make.__name__}"):
                self.tables[make] = make(self)
        return cast("_T", self.tables[make])

    def evidence(self, row: dict[str, Any], ms: str) -> Evidence:
        """Return a row of `ops` or `collectives` as evidence; `ms` names the column of its cost."""
        cost = row[ms]
        return Evidence(
            what=str(row["op"]),
            ms=float(cost) if isinstance(cost, float) else None,
            spans=self.longest(self.rows_of(row)),
        )

    def rows_of(self, row: dict[str, Any]) -> list[int]:
        """Return the rows of the Timeline's ops that a row of `ops` or `collectives` aggregates."""
        return self._rows_of_name.get((row["program"], row["op"]), [])

    @cached_property
    def _rows_of_name(self) -> dict[tuple[int | None, str], list[int]]:
        """The rows of the Timeline's ops by program and name: their own, and that of their pair."""
        rows_of: dict[tuple[int | None, str], list[int]] = {}
        names = self.named_ops.select("op_row", "program", "shown", "op")
        for row, program, shown, own in names.iter_rows():
            for name in {shown, own} - {None}:
                rows_of.setdefault((program, name), []).append(row)
        return rows_of

    def longest(self, ops: Sequence[int]) -> tuple[int, ...]:
        """Return the rows of the longest spans of some ops, given as rows of the Timeline's ops."""
        op, length, row = (self.spans[name].to_numpy() for name in ("op", "dur_ps", "row"))
        rows = np.flatnonzero(op == ops[0] if len(ops) == 1 else np.isin(op, ops))
        first = rows[np.argsort(-length[rows], kind="stable")[:_ROWS]]
        return tuple(row[first].tolist())

    @cached_property
    def named_ops(self) -> pl.DataFrame:
        """The Timeline's ops with `op_row` and `shown`, the name of their op or pair."""
        return self.timeline.ops.with_row_index("op_row").with_columns(
            shown=pl.coalesce("pair", "op", "name")
        )


def everywhere(data: StepData) -> StepData:
    """Return the same steps on all devices: all take part in a collective, chosen or not."""
    if len(data.selection.devices) == len(data.timeline.devices):
        return data
    return StepData(selection=select_everywhere(data.selection), context=data.context)


def place_of(row: dict[str, Any]) -> str:
    """Return an op with its source location: `all-gather-start.3 (model.py:7)`."""
    where = row.get("source") or row.get("scope")
    name = kernel_label(str(row["op"]))
    return f"{name} ({where})" if where else name
