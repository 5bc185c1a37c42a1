"""`pgle auto` as a Document: was a program compiled with what JAX measured, and is it faster."""

from __future__ import annotations

import shlex

from counterpoint.report.document import Document, Fact, Facts, Section, Tone, printable
from counterpoint.report.pgle.feedback_document import compiler_facts, times_section
from counterpoint.workflow.auto_pgle import Auto


def auto_document(auto: Auto) -> Document:
    """The report on one AutoPGLE workflow."""
    sections = [_verdict(auto)]
    if auto.before is not None and auto.after is not None and auto.scores is not None:
        rows = (("before", auto.before, auto.scores[0]), ("after", auto.after, auto.scores[1]))
        sections.append(times_section(rows, auto.comparison))
    return Document(sections=tuple(sections), legend="", next=_next(auto))


def _verdict(auto: Auto) -> Section:
    tone = Tone.PLAIN if auto.used else Tone.WARNING
    rows = [Fact("because", printable(reason), tone) for reason in auto.reasons]
    rows += [
        Fact("in the way", printable(f"{it.who}: {it.effect}"), Tone.WARNING)
        for it in auto.conflicts
    ]
    rows += [
        Fact("ahead of time", printable(f"{it.name or '?'} at {it.where or '?'}"), Tone.QUIET)
        for it in auto.ahead_of_time[:3]
    ]
    module = next((it for it in reversed(auto.evidence.modules) if it.source), None)
    # What is said of a lack of kernels is meant for GPUs; elsewhere the reason says it all.
    complaints = auto.evidence.complaints if auto.on_gpu else ()
    blocks = (Facts(tuple(rows)), compiler_facts(module, complaints))
    return Section("AutoPGLE", "used" if auto.used else "NOT USED", blocks)


def _next(auto: Auto) -> str:
    directory = shlex.quote(str(auto.directory))
    if auto.ahead_of_time and not auto.used:
        return f"counterpoint pgle manual -- {shlex.join(auto.optimise.command)}"
    if auto.after is not None and auto.after.profiles:
        return f"counterpoint explain {shlex.quote(str(auto.after.path))}"
    return f"counterpoint runs {directory}"
