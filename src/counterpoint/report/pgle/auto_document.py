"""The report of `pgle auto`: whether a program used JAX's measurements, and the speedup."""

from __future__ import annotations

import shlex

from counterpoint.report.document import Document, Fact, FactList, Section, Tone, printable
from counterpoint.report.pgle.feedback_document import compiler_facts, times_section
from counterpoint.workflow.feedback import AutoResult


def auto_document(auto: AutoResult) -> Document:
    """Return the report on one AutoPGLE workflow."""
    sections = [_verdict(auto)]
    if auto.before is not None and auto.after is not None and auto.scores is not None:
        rows = (("before", auto.before, auto.scores[0]), ("after", auto.after, auto.scores[1]))
        sections.append(times_section(rows, auto.comparison))
    return Document(sections=tuple(sections), legend="", next=_next(auto))


def _verdict(auto: AutoResult) -> Section:
    tone = Tone.PLAIN if auto.used else Tone.WARNING
    rows = [Fact("because", printable(reason), tone) for reason in auto.reasons]
    rows += [
        Fact("conflict", printable(f"{conflict.who}: {conflict.effect}"), Tone.WARNING)
        for conflict in auto.conflicts
    ]
    rows += [
        Fact(
            "ahead of time",
            printable(f"{function.name or '?'} at {function.where or '?'}"),
            Tone.QUIET,
        )
        for function in auto.ahead_of_time[:3]
    ]
    module = next((use for use in reversed(auto.evidence.modules) if use.source), None)
    # Complaints about missing kernels apply to GPUs; elsewhere the reason is sufficient.
    complaints = auto.evidence.complaints if auto.on_gpu else ()
    blocks = (FactList(tuple(rows)), compiler_facts(module, complaints))
    return Section("AutoPGLE", "used" if auto.used else "NOT USED", blocks)


def _next(auto: AutoResult) -> str:
    directory = shlex.quote(str(auto.directory))
    if auto.ahead_of_time and not auto.used:
        return f"counterpoint pgle manual -- {shlex.join(auto.optimise.command)}"
    if auto.after is not None and auto.after.profiles:
        return f"counterpoint explain {shlex.quote(str(auto.after.path))}"
    return f"counterpoint runs {directory}"
