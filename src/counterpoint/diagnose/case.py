"""Case: what the rules look at. Each table is made once, when a rule first asks for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, TypeVar, cast

import polars as pl

from counterpoint.core import Basis
from counterpoint.diagnose.finding import Evidence
from counterpoint.diagnose.metrics.attribution import attribute
from counterpoint.diagnose.metrics.ops import op_profile
from counterpoint.diagnose.selection import Selection
from counterpoint.diagnose.step import Breakdown, breakdown
from counterpoint.flags import Settings
from counterpoint.hardware import Target
from counterpoint.hlo import Program
from counterpoint.runs import Run
from counterpoint.timeline import Timeline


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """All of it may be missing: a bare file tells neither its settings nor its network."""

    run: Run | None = None
    target: Target | None = None
    flags: Mapping[str, str] | None = None  # XLA flags that were given, without dashes
    environment: Mapping[str, str] | None = None  # variables that matter, as far as they are known
    jaxlib: str | None = None  # its version, e.g. 0.10.2


def context_of(
    run: Run | None = None, target: Target | None = None, settings: Settings | None = None
) -> Context:
    """What a Run or Settings tell; nothing where there are none."""
    if settings is not None:
        return Context(
            run=run,
            target=target,
            flags={**settings.flags, **dict(settings.options)},
            environment=settings.variables,
        )
    if run is None:
        return Context(target=target)
    return Context(
        run=run,
        target=target,
        flags=dict(run.settings.xla),
        environment=dict(run.settings.env),
        jaxlib=run.versions.get("jaxlib"),
    )


_T = TypeVar("_T")

_ROWS: Final = 5


@dataclass(frozen=True, eq=False, kw_only=True)
class Case:
    """The typical steps of a Timeline, and what is known around it.

    Rules read these tables and make none of their own that another could use. Times are
    milliseconds of a median step, mean over devices, unless a column says otherwise.
    """

    selection: Selection
    context: Context
    made: dict[Callable[[Case], Any], Any] = field(
        default_factory=dict[Callable[["Case"], Any], Any], repr=False
    )

    @property
    def timeline(self) -> Timeline:
        return self.selection.timeline

    @property
    def basis(self) -> Basis:
        """Of what the tables hold: measured or predicted."""
        return self.timeline.basis

    @property
    def step_ms(self) -> float:
        """The median step; 0 where no step was found."""
        return self.selection.median_ms if self.selection.lengths_ms else 0.0

    @cached_property
    def program(self) -> Program | None:
        """The step's program, where the profile carries its HLO."""
        index = self.timeline.step_program
        return None if index is None else self.timeline.programs[index].hlo()

    @cached_property
    def spans(self) -> pl.DataFrame:
        """Spans of the selected steps, with `row` (in the Timeline) and `step`."""
        return self.selection.spans()

    @cached_property
    def attributed(self) -> pl.DataFrame:
        """Time per device, step, state and phase: `metrics.attribution`."""
        return attribute(self.selection, self.spans)

    @cached_property
    def breakdown(self) -> Breakdown:
        """Parts of the step."""
        return breakdown(self.selection, self.attributed)

    @cached_property
    def ops(self) -> pl.DataFrame:
        """The op profile: `metrics.ops`."""
        return op_profile(self.selection, self.spans)

    def ask(self, make: Callable[[Case], _T]) -> _T:
        """What is made of this case by a function, made once: `case.ask(slack_table)`.

        Tables that know cases stay above this module that way, whoever shares them.
        """
        if make not in self.made:
            self.made[make] = make(self)
        return cast("_T", self.made[make])

    def evidence(self, row: dict[str, Any], ms: str) -> Evidence:
        """A row of `ops` or `collectives` as evidence; `ms` names the column of its cost."""
        cost = row[ms]
        return Evidence(
            what=str(row["op"]),
            ms=float(cost) if isinstance(cost, float) else None,
            spans=self.longest(self.rows_of(row)),
        )

    def rows_of(self, row: dict[str, Any]) -> list[int]:
        """The rows of the Timeline's ops that a row of `ops` or `collectives` sums up."""
        shown = self._shown.filter(
            pl.col("program").eq_missing(pl.lit(row["program"], pl.UInt16))
            & ((pl.col("shown") == row["op"]) | (pl.col("op") == row["op"]))
        )
        return shown["op_row"].to_list()

    def longest(self, ops: Sequence[int], count: int = _ROWS) -> tuple[int, ...]:
        """Rows of the longest spans of some ops (rows of the Timeline's ops)."""
        spans = self.spans.filter(pl.col("op").is_in(ops))
        return tuple(spans.sort("dur_ps", descending=True)["row"].head(count).to_list())

    @cached_property
    def _shown(self) -> pl.DataFrame:
        return self.timeline.ops.with_row_index("op_row").with_columns(
            shown=pl.coalesce("pair", "op", "name")
        )


def place_of(row: dict[str, Any]) -> str:
    """An op with where it comes from: `all-gather-start.3 (model.py:7)`."""
    where = row.get("source") or row.get("scope")
    return f"{row['op']} ({where})" if where else str(row["op"])
