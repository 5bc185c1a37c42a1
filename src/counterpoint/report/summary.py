"""Summary: a result as one flat list of numbers, for experiment trackers.

Each number has a fixed name, unit and meaning (`FIGURES`; docs/reference/summary.md) and a basis.
A number that is not known is left out, never 0. The findings are a table beside the numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

from counterpoint.core import Basis, Range, Unknown
from counterpoint.core.field import Field
from counterpoint.report.json import Result, fill, json_text

if TYPE_CHECKING:
    from counterpoint.diagnose.explanation import Explanation
    from counterpoint.diagnose.finding import Finding
    from counterpoint.runs.run import Run
    from counterpoint.tune.conclusion import Conclusion

__all__ = [
    "FIGURES",
    "FINDING_COLUMNS",
    "Summary",
    "SummaryFigure",
    "summarize_explanation",
    "summarize_run",
    "summarize_study",
    "summary_json",
]

FIGURES: Final[Mapping[str, tuple[str, str]]] = {
    "step_ms": ("ms", "step time: the median over steps; of a study, that of the best settings"),
    "step_min_ms": ("ms", "the shortest step of the profile"),
    "step_max_ms": ("ms", "the longest step of the profile"),
    "steps": ("count", "steps behind step_ms"),
    "run_step_ms": (
        "ms",
        (
            "step time by the Run's own count: the median of its steps without compilation or"
            " profiling if there are three, otherwise of all but the first"
        ),
    ),
    "run_step_min_ms": ("ms", "the shortest step behind run_step_ms"),
    "run_step_max_ms": ("ms", "the longest step behind run_step_ms"),
    "run_steps": ("count", "steps behind run_step_ms"),
    "tokens_per_s": (
        "tokens/s",
        (
            "tokens of a step, by the trainer's batch and sequence, over run_step_ms, or over"
            " step_ms if the Run counted no steps"
        ),
    ),
    "tokens_per_s_device": ("tokens/s", "tokens_per_s over the devices of the Run"),
    "window_ms": ("ms", "what the parts and phases below add up to: usually a median step"),
    "compute_ms": ("ms", "time in which a kernel computes"),
    "exposed_ms": ("ms", "time in which only collectives run: the step waits for them"),
    "hidden_ms": ("ms", "the part of compute_ms that a collective overlaps"),
    "copies_ms": ("ms", "time in which only copies run"),
    "idle_ms": ("ms", "time in which nothing runs"),
    "forward_ms": ("ms", "busy time of the forward pass"),
    "backward_ms": ("ms", "busy time of the backward pass"),
    "remat_ms": ("ms", "busy time of recomputation"),
    "optimizer_ms": ("ms", "busy time of the optimizer"),
    "other_ms": ("ms", "busy time of no known phase"),
    "busy_share": ("fraction", "share of the window in which something runs"),
    "mfu": (
        "fraction",
        (
            "operations of the model, without recomputation, as a share of the chip's dense bf16"
            " peak; where phases are not known, recomputation is in it"
        ),
    ),
    "hfu": (
        "fraction",
        "operations that ran, recomputation included, as a share of the chip's dense bf16 peak",
    ),
    "flops_known_share": (
        "fraction",
        (
            "share of compute time in ops whose operations are known; below 1, mfu and hfu are"
            " lower bounds"
        ),
    ),
    "hbm_share": ("fraction", "bytes moved, as a share of the memory's peak bandwidth"),
    "flops_per_s": ("FLOP/s", "operations that ran, per second and device"),
    "devices": ("count", "devices of the profile"),
    "losses": ("count", "findings that could save time"),
    "largest_saving_ms": ("ms", "the most that one finding could save; savings overlap"),
    "peak_memory_bytes": ("bytes", "largest memory in use on a device, as its allocator counts"),
    "base_step_ms": ("ms", "step time of a study's own settings"),
    "gain": ("fraction", "share of the base's step that the best settings save"),
    "gain_low": ("fraction", "lower end of the range of the gain"),
    "gain_high": ("fraction", "upper end of the range of the gain"),
    "noise": ("fraction", "how much identical runs differ: one standard deviation"),
    "arms": ("count", "settings that a study looked at, its own included"),
    "trials": ("count", "runs that a study made"),
    "spent_s": ("s", "time that a study's runs took together"),
    "confirmed": ("0 or 1", "1 if fresh runs confirmed the gain"),
}
"""Unit and meaning of each number, by name; times are of a step, and means over devices."""
_IN_PROFILE: Final = "this one is from the profile"
_BY_COUNT: Final = "this one is from the Run's own count"
FINDING_COLUMNS: Final = ("code", "title", "saves_low_ms", "saves_high_ms", "basis", "remedy")
FindingRow: TypeAlias = tuple[str, str, float | None, float | None, str, str]


@dataclass(frozen=True, slots=True)
class SummaryFigure:
    """A number with its unit, basis and meaning."""

    name: Annotated[str, Field("its name, which stays the same")]
    value: Annotated[float, Field("the number")]
    unit: Annotated[str, Field("its unit")]
    basis: Annotated[str, Field("`measured`, `predicted` or `rule of thumb`")]
    meaning: Annotated[str, Field("what it is")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The numbers, in the order of FIGURES, and the findings with the columns FINDING_COLUMNS."""

    title: str
    figures: tuple[SummaryFigure, ...]
    findings: tuple[FindingRow, ...] = ()

    @property
    def numbers(self) -> dict[str, float]:
        """The numbers by name."""
        return {figure.name: figure.value for figure in self.figures}


def summarize_explanation(explanation: Explanation, title: str, run: Run | None = None) -> Summary:
    """Return the summary of a profile, and of its Run if it has one."""
    numbers: dict[str, float | None] = {**_step(explanation), **_parts(explanation)}
    use = explanation.utilization
    savings = [it.saves_ms.high for it in explanation.findings if isinstance(it.saves_ms, Range)]
    numbers |= {
        "busy_share": use.busy_share,
        "mfu": use.mfu,
        "hfu": use.hfu,
        "flops_known_share": use.flops_known_share,
        "hbm_share": use.hbm_share,
        "flops_per_s": use.flops_per_s,
        "devices": explanation.device_count,
    }
    if explanation.breakdown is not None:
        numbers["losses"] = len(savings)
    bases: dict[str, str] = {}
    if savings:
        numbers["largest_saving_ms"] = max(savings)
        bases["largest_saving_ms"] = _basis_of_largest(explanation)
    notes = {"step_ms": _IN_PROFILE}
    if run is not None:
        counted = _of_run(run, explanation)
        if "step_ms" in counted:  # another duration than the profile's shortest and longest
            notes = {"step_ms": _BY_COUNT}
            numbers |= dict.fromkeys(("step_min_ms", "step_max_ms"))
        counted |= _tokens(run, counted.get("run_step_ms") or _marked_step_ms(explanation))
        numbers |= counted
        bases |= dict.fromkeys(counted, str(Basis.MEASURED))
    return Summary(
        title=title,
        figures=tuple(_figures(numbers, str(explanation.basis), bases, notes)),
        findings=tuple(map(_row, explanation.findings)),
    )


def _step(explanation: Explanation) -> dict[str, float | None]:
    steps = explanation.steps
    numbers: dict[str, float | None] = {
        "step_ms": steps.median_ms,
        "step_min_ms": steps.min_ms,
        "step_max_ms": steps.max_ms,
        "window_ms": steps.window_ms,
    }
    if steps.median_ms is not None:
        numbers["steps"] = steps.count
    return numbers


def _parts(explanation: Explanation) -> dict[str, float | None]:
    parts, phases = explanation.breakdown, explanation.phases
    numbers: dict[str, float | None] = {}
    if parts is not None:
        numbers |= {
            "compute_ms": parts.compute_ms,
            "exposed_ms": parts.collective_exposed_ms,
            "hidden_ms": parts.collective_hidden_ms,
            "copies_ms": parts.copy_exposed_ms,
            "idle_ms": parts.idle_ms,
        }
    if phases is not None:
        numbers |= {
            "forward_ms": phases.forward_ms,
            "backward_ms": phases.backward_ms,
            "remat_ms": phases.remat_ms,
            "optimizer_ms": phases.optimizer_ms,
            "other_ms": phases.other_ms,
        }
    return numbers


def _of_run(run: Run, explanation: Explanation) -> dict[str, float]:
    """Return the numbers that the Run knows better than its profile, or alone."""
    from counterpoint.report.explain.step_time import own_step

    own = own_step(explanation, run)
    numbers = {} if own is None else {"step_ms": own.seconds * 1e3, "steps": own.steps}
    return {**numbers, **_counted(run), **_memory(run)}


def _counted(run: Run) -> dict[str, float]:
    """Return the step times that the Run itself counted, in or outside a profile."""
    from counterpoint.runs.scores import seen_steps

    timing = seen_steps(run)
    if isinstance(timing, Unknown) or timing.compiled:  # a step that compiles is no step time
        return {}
    return {
        "run_step_ms": timing.seconds * 1e3,
        "run_step_min_ms": min(timing.each_s) * 1e3,
        "run_step_max_ms": max(timing.each_s) * 1e3,
        "run_steps": timing.steps,
    }


def _marked_step_ms(explanation: Explanation) -> float | None:
    """Return the step time of a profile if it has step markers: a guess may be part of a step."""
    from counterpoint.report.explain.step_time import is_guess

    return None if is_guess(explanation) else explanation.steps.median_ms


def _tokens(run: Run, step_ms: float | None) -> dict[str, float]:
    from counterpoint.report.runs import tokens_in_step

    tokens = tokens_in_step(run)
    if tokens is None or not step_ms:
        return {}
    rate = tokens.count / step_ms * 1e3
    return {"tokens_per_s": rate, "tokens_per_s_device": rate / tokens.devices}


def _memory(run: Run) -> dict[str, float]:
    peaks = [
        size
        for rank in run.ranks
        for process in rank.processes
        for size in process.peak_memory.values()
    ]
    return {"peak_memory_bytes": max(peaks)} if peaks else {}


def _basis_of_largest(explanation: Explanation) -> str:
    priced = [it for it in explanation.findings if isinstance(it.saves_ms, Range)]
    return str(max(priced, key=_most).basis)


def _most(finding: Finding) -> float:
    return finding.saves_ms.high if isinstance(finding.saves_ms, Range) else 0.0


def _row(finding: Finding) -> FindingRow:
    saves = finding.saves_ms
    low, high = (None, None) if isinstance(saves, Unknown) else (saves.low, saves.high)
    return (
        finding.code,
        finding.title,
        low,
        high,
        str(finding.basis),
        finding.remedy.text,
    )


def summarize_run(run: Run) -> Summary:
    """Return the summary of a Run without a profile."""
    counted = _counted(run)
    numbers: dict[str, float | None] = {**counted, **_memory(run)}
    if counted:
        numbers |= {"step_ms": counted["run_step_ms"], "steps": counted["run_steps"]}
        numbers |= _tokens(run, counted["run_step_ms"])
    figures = _figures(numbers, str(Basis.MEASURED), {}, {"step_ms": _BY_COUNT})
    return Summary(title=run.name, figures=tuple(figures))


def summarize_study(conclusion: Conclusion, title: str) -> Summary:
    """Return the summary of a study."""
    from counterpoint.tune.conclusion import NOT_LOOKED_AT

    base = next((row for row in conclusion.rows if row.arm.is_base), None)
    winner = next(
        (row for row in conclusion.rows if conclusion.winner and row.arm == conclusion.winner), base
    )
    measured = conclusion.basis != str(Basis.PREDICTED)
    looked_at = sum(row.status != NOT_LOOKED_AT for row in conclusion.rows)
    numbers: dict[str, float | None] = {"arms": looked_at}
    for name, row in (("step_ms", winner), ("base_step_ms", base)):
        if row is not None:
            predicted = row.arm.predicted
            seconds = row.step_s if measured else (predicted.step_s if predicted else None)
            numbers[name] = None if seconds is None else seconds * 1e3
    if conclusion.winner is not None:
        numbers["gain"] = conclusion.gain
        numbers["confirmed"] = int(conclusion.confirmed)
        if conclusion.range is not None:
            numbers |= {"gain_low": conclusion.range.low, "gain_high": conclusion.range.high}
    if conclusion.noise is not None and not isinstance(conclusion.noise.sigma, Unknown):
        numbers["noise"] = conclusion.noise.sigma
    spent = conclusion.spent
    if spent is not None:
        numbers |= {"trials": spent.trials, "spent_s": spent.seconds}
    known: dict[str, str] = dict.fromkeys(("noise", "trials", "spent_s"), "measured")
    return Summary(title=title, figures=tuple(_figures(numbers, conclusion.basis, known)))


def _figures(
    numbers: Mapping[str, float | None],
    basis: str,
    bases: Mapping[str, str],
    notes: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[SummaryFigure]:
    for name, (unit, meaning) in FIGURES.items():
        value = numbers.get(name)
        if value is not None and math.isfinite(value):
            meant = f"{meaning}; {notes[name]}" if name in notes else meaning
            yield SummaryFigure(name, value, unit, bases.get(name, basis), meant)


class SummaryFinding(Result):
    """A finding of the summary."""

    code: Annotated[str, Field("code of the rule")]
    title: Annotated[str, Field("what is lost")]
    saves_low_ms: Annotated[float | None, Field("the least that mending it saves; null: unknown")]
    saves_high_ms: Annotated[float | None, Field("the most that mending it saves; null: unknown")]
    basis: Annotated[str, Field("`measured`, `predicted` or `rule of thumb`")]
    remedy: Annotated[str, Field("what to do")]


class SummaryJson(Result, tag_field="schema", tag="counterpoint.summary/1"):
    """The numbers that are logged to trackers: `counterpoint log --json`."""

    title: Annotated[str, Field("what it is a summary of")]
    figures: Annotated[
        tuple[SummaryFigure, ...],
        Field("[the numbers](summary.md); one that is not known is left out"),
    ]
    findings: Annotated[tuple[SummaryFinding, ...], Field("losses, largest expected saving first")]


def summary_json(summary: Summary) -> str:
    """Return the summary as text."""
    return json_text(fill(SummaryJson, summary))
