"""The reports of `pgle manual`, `nsys` and `auto`: proof first, then what moved, then the gain."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from statistics import median
from typing import Final

from counterpoint.core import Unknown
from counterpoint.core.arguments import option_words
from counterpoint.pgle.checking.check import Coverage
from counterpoint.pgle.compiler_log import ModuleUse
from counterpoint.pgle.complaints import LogComplaint
from counterpoint.report import units
from counterpoint.report.document import (
    Document,
    Fact,
    FactList,
    Prose,
    Section,
    Tone,
    names,
    numbers,
    table,
    words,
)
from counterpoint.report.pgle.movement import movement_section
from counterpoint.runs.run import Run
from counterpoint.runs.scores import Score
from counterpoint.workflow.feedback import AutoResult, ComparedRuns, Feedback, RunComparison

_SOURCES: Final = {
    "annotation": "the program's step annotations",
    "api": "StepProfiler",
    "log": "lines that name a step",
    "profile": "the profile",
}


def times_section(
    rows: Iterable[tuple[str, Run, Score | Unknown]], comparison: RunComparison | Unknown
) -> Section:
    """Return the step times of the runs, and how certain their difference is."""
    runs = list(rows)
    scores = [_score(score) for _, _, score in runs]
    times = table(
        words("", [arm for arm, _, _ in runs]),
        names("run", [run.path.name for _, run, _ in runs]),
        numbers("median step", [median for median, _, _ in scores]),
        numbers("steps", [steps for _, steps, _ in scores]),
        words("counted by", [source for _, _, source in scores]),
    )
    blocks = (times, Prose(_reach(comparison), Tone.QUIET))
    return Section("Step times", _change(comparison), blocks)


def times_line(
    without: Iterable[Score | Unknown],
    with_profile: Iterable[Score | Unknown],
    comparison: RunComparison | Unknown,
) -> str:
    """Return the step times without and with the profile in a line, as medians over runs."""
    medians = f"{_median(without)} without, {_median(with_profile)} with the profile"
    return f"{medians}: {_change(comparison)}"


def _median(scores: Iterable[Score | Unknown]) -> str:
    known = [score.seconds for score in scores if not isinstance(score, Unknown)]
    return units.milliseconds(median(known) * 1e3) if known else units.UNKNOWN


def _score(score: Score | Unknown) -> tuple[str, str, str]:
    if isinstance(score, Unknown):
        return units.UNKNOWN, units.UNKNOWN, score.reason
    source = _SOURCES.get(score.source, score.source)
    return units.milliseconds(score.seconds * 1e3), units.count(score.steps), source


def _change(comparison: RunComparison | Unknown) -> str:
    if isinstance(comparison, Unknown):
        return "not compared"
    way = "shorter" if comparison.change < 0 else "longer"
    if not comparison.decided:
        return f"{abs(comparison.change):.1%} {way}, not decided"
    return f"{comparison.verdict}: {abs(comparison.change):.1%} {way}"


def _reach(comparison: RunComparison | Unknown) -> str:
    if isinstance(comparison, Unknown):
        return comparison.reason
    if isinstance(comparison.range, Unknown):
        return f"measured; {comparison.range.reason}. More pairs: --repeats 3"
    low, high = comparison.range.low, comparison.range.high
    pairs = len(comparison.without_s)
    return (
        f"measured; 95% range of the change, from {pairs} pairs of runs: {low:+.1%} to {high:+.1%}"
    )


def compiler_facts(use: ModuleUse | None, complaints: Iterable[LogComplaint]) -> FactList:
    """Return what the compiler's log says of a profile, and what to do about its complaints."""
    rows: list[Fact] = []
    if use is not None:
        rows.append(Fact("module", use.module))
        if use.source:
            rows.append(Fact("costs from", use.source))
        if use.found is not None:
            rows.append(Fact("costs", f"{use.found:,} found, {use.missing or 0:,} missing"))
        elif use.looked_up:
            rows.append(Fact("costs", f"{len(use.looked_up):,} found, {len(use.missed):,} missing"))
        if use.fallback:
            rows.append(Fact("fallback", use.fallback))
    for complaint in complaints:
        rows.append(Fact("log", complaint.text, Tone.WARNING))
        rows.append(Fact("next", complaint.next, Tone.QUIET))
    return FactList(tuple(rows))


def feedback_document(feedback: Feedback, top: int = 10) -> Document:
    """Return the report of `pgle manual` or `pgle nsys`."""
    rows = [*_arm("without", feedback.without), *_arm("with", feedback.with_profile)]
    sections = (
        _proof(feedback),
        _profile(feedback),
        movement_section(feedback.movement, top),
        times_section(rows, feedback.comparison),
    )
    return Document(sections=sections, legend="", next=_next(feedback))


def _proof(feedback: Feedback) -> Section:
    proof = feedback.proof
    tone = Tone.PLAIN if proof.used else Tone.WARNING
    rows = FactList(tuple(Fact("because", reason, tone) for reason in proof.reasons))
    summary = "used, according to the compiler's log" if proof.used else "NOT PROVED to be used"
    return Section(
        "The profile is", summary, (rows, compiler_facts(proof.module, proof.complaints))
    )


def _profile(feedback: Feedback) -> Section:
    measured = feedback.measurement
    rows = [
        Fact("file", str(measured.path)),
        Fact("costs", units.count(len(measured.profile.costs))),
        Fact("covers its program", _covers(measured.coverage)),
    ]
    if feedback.proof.coverage is not None:
        rows.append(Fact("covers what ran", _covers(feedback.proof.coverage)))
    rows += [Fact("note", note, Tone.QUIET) for note in measured.notes]
    return Section("Profile", "", (FactList(tuple(rows)),))


def _covers(coverage: Coverage | Unknown) -> str:
    if isinstance(coverage, Unknown):
        return f"{units.UNKNOWN}   {coverage.reason}"
    shares = [
        f"{units.percent(coverage.instructions.share)} of the instructions XLA looks up",
        f"{units.percent(coverage.collectives.share)} of the collectives",
    ]
    if not isinstance(coverage.time, Unknown):
        shares.append(f"{units.percent(coverage.time.share)} of their device time")
    return ", ".join(shares)


def _arm(name: str, arm: ComparedRuns) -> list[tuple[str, Run, Score | Unknown]]:
    return [(name, run, score) for run, score in zip(arm.runs, arm.scores, strict=True)]


def _next(feedback: Feedback) -> str:
    if not feedback.used:
        stderr = feedback.with_profile.runs[0].ranks[0].stderr
        return f"less {shlex.quote(str(stderr))}"
    setting = f"xla_gpu_pgle_profile_file_or_directory_path={feedback.measurement.path}"
    command = feedback.with_profile.runs[0].command
    return shlex.join(["counterpoint", "run", *option_words({"set": setting}), "--", *command])


def auto_document(auto: AutoResult) -> Document:
    """Return the report of `pgle auto`."""
    sections = [_auto_verdict(auto)]
    if auto.before is not None and auto.after is not None and auto.scores is not None:
        rows = (("before", auto.before, auto.scores[0]), ("after", auto.after, auto.scores[1]))
        sections.append(times_section(rows, auto.comparison))
    return Document(sections=tuple(sections), legend="", next=_next_of_auto(auto))


def _auto_verdict(auto: AutoResult) -> Section:
    tone = Tone.PLAIN if auto.used else Tone.WARNING
    rows = [Fact("because", reason, tone) for reason in auto.reasons]
    rows += [
        Fact("conflict", f"{conflict.who}: {conflict.effect}", Tone.WARNING)
        for conflict in auto.conflicts
    ]
    rows += [
        Fact(
            "ahead of time",
            f"{function.name or '?'} at {function.where or '?'}",
            Tone.QUIET,
        )
        for function in auto.ahead_of_time[:3]
    ]
    module = next((use for use in reversed(auto.evidence.modules) if use.source), None)
    # Complaints about missing kernels apply to GPUs; elsewhere the reason is sufficient.
    complaints = auto.evidence.complaints if auto.on_gpu else ()
    blocks = (FactList(tuple(rows)), compiler_facts(module, complaints))
    return Section("AutoPGLE", "used" if auto.used else "NOT USED", blocks)


def _next_of_auto(auto: AutoResult) -> str:
    directory = shlex.quote(str(auto.directory))
    if auto.ahead_of_time and not auto.used:
        return f"counterpoint pgle manual -- {shlex.join(auto.optimise.command)}"
    if auto.after is not None and auto.after.profiles:
        return f"counterpoint explain {shlex.quote(str(auto.after.path))}"
    return f"counterpoint runs {directory}"
