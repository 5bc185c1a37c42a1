"""The report of `pgle check --log`: what a log proves of a profile."""

from __future__ import annotations

from typing import Final

from counterpoint.pgle.compiler_log import ModuleUse, ProfileUse
from counterpoint.report import units
from counterpoint.report.document import (
    Document,
    Fact,
    FactList,
    Section,
    Tone,
    places,
    table,
    words,
)
from counterpoint.report.pgle.feedback_document import compiler_facts
from counterpoint.workflow.feedback import LogProof

USE: Final = {
    ProfileUse.USED: "used",
    ProfileUse.NOT_USED: "NOT used",
    ProfileUse.FAILED: "NOT used: the compile failed",
    ProfileUse.UNKNOWN: "in doubt",
}
"""The verdict on a profile, as the first words of a line."""
_MODULES: Final = 10


def pgle_log_document(proof: LogProof, next: str) -> Document:
    """Return the report; `next` is the command, or what to do, after it."""
    tone = Tone.PLAIN if proof.use is ProfileUse.USED else Tone.WARNING
    rows = [Fact("because", proof.reason, tone), Fact("log", proof.where)]
    if proof.given is not None:
        rows.append(Fact("flag", proof.given))
    rows += [Fact("opened", source) for source in proof.evidence.sources]
    rows += [Fact("from the cache", name) for name in proof.evidence.from_cache]
    complaints = compiler_facts(None, proof.evidence.complaints)
    sections = [Section("The profile is", USE[proof.use], (FactList(tuple(rows)), complaints))]
    if proof.evidence.modules:
        sections.append(_modules(proof.evidence.modules))
    return Document(sections=tuple(sections), legend="", next=next)


def _modules(modules: tuple[ModuleUse, ...]) -> Section:
    """List the compiles that XLA wrote of, those with a profile first."""
    shown = sorted(modules, key=lambda module: not module.guided)[:_MODULES]
    rows = table(
        words("module", [module.module for module in shown]),
        words("profile", [str(module.use) for module in shown]),
        words("costs found", [_count(module.found, module.looked_up) for module in shown]),
        words("missing", [_count(module.missing, module.missed) for module in shown]),
        places("because", [module.reason for module in shown], 1),
    )
    more = f", {len(shown)} shown" if len(modules) > len(shown) else ""
    return Section("Compiles", f"{len(modules)}{more}", (rows,))


def _count(counted: int | None, named: frozenset[str]) -> str:
    """Return XLA's own count, or else that of the instructions that a verbose log names."""
    if counted is not None:
        return units.count(counted)
    return units.count(len(named)) if named else ""
