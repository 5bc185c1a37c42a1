"""`pgle manual` and `pgle nsys` as a Document: proof first, then what moved and what it gained."""

from __future__ import annotations

import shlex

from counterpoint.core.basis import Unknown
from counterpoint.pgle.check import Coverage
from counterpoint.report import units
from counterpoint.report.document import Document, Fact, Facts, Section, Tone, printable
from counterpoint.report.movement_section import movement_section
from counterpoint.report.workflow_sections import compiler_facts, times_section
from counterpoint.runs import Run
from counterpoint.runs.score import Score
from counterpoint.workflow.feedback.feedback import Arm, Feedback


def feedback_document(feedback: Feedback, top: int = 10) -> Document:
    """The report on one workflow."""
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
    rows = Facts(tuple(Fact("because", printable(it), tone) for it in proof.reasons))
    said = "used, as the compiler says" if proof.used else "NOT PROVED to be used"
    return Section("The profile is", said, (rows, compiler_facts(proof.module, proof.complaints)))


def _profile(feedback: Feedback) -> Section:
    measured = feedback.measurement
    rows = [
        Fact("file", printable(str(measured.path))),
        Fact("costs", units.count(len(measured.profile.costs))),
        Fact("of its program", _covers(measured.coverage)),
    ]
    if feedback.proof.coverage is not None:
        rows.append(Fact("of what ran", _covers(feedback.proof.coverage)))
    rows += [Fact("note", printable(note), Tone.QUIET) for note in measured.notes]
    return Section("Profile", "", (Facts(tuple(rows)),))


def _covers(coverage: Coverage | Unknown) -> str:
    if isinstance(coverage, Unknown):
        return f"{units.UNKNOWN}   {printable(coverage.reason)}"
    said = [
        f"{units.percent(coverage.instructions.share)} of the instructions XLA asks for",
        f"{units.percent(coverage.collectives.share)} of the collectives",
    ]
    if not isinstance(coverage.time, Unknown):
        said.append(f"{units.percent(coverage.time.share)} of their device time")
    return ", ".join(said)


def _arm(name: str, arm: Arm) -> list[tuple[str, Run, Score | Unknown]]:
    return [(name, run, score) for run, score in zip(arm.runs, arm.scores, strict=True)]


def _next(feedback: Feedback) -> str:
    if not feedback.used:
        stderr = feedback.with_profile.runs[0].ranks[0].stderr
        return f"less {shlex.quote(str(stderr))}"
    setting = f"xla_gpu_pgle_profile_file_or_directory_path={feedback.measurement.path}"
    command = feedback.with_profile.runs[0].command
    return printable(shlex.join(["counterpoint", "run", "--set", setting, "--", *command]))
