"""`pgle check --log` as JSON: docs/reference/pgle-json.md."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from counterpoint.report.json import At, CountOf, Result, fill, json_text
from counterpoint.report.pgle.feedback_json import LogComplaintJson

if TYPE_CHECKING:
    from counterpoint.workflow.feedback import LogProof


class ModuleInLog(Result):
    """One compile of one module. Counts are XLA's own; null if it wrote none."""

    module: str
    use: str
    reason: str
    source: str | None
    found: int | None
    missing: int | None
    looked_up: Annotated[int, CountOf("looked_up")]
    missed: Annotated[int, CountOf("missed")]


class PgleLog(Result, tag_field="schema", tag="counterpoint.pgle-log/1"):
    """What a log proves of a profile: `counterpoint pgle check --log FILE --json`."""

    where: str
    given: str | None
    use: str
    reason: str
    sources: Annotated[tuple[str, ...], At("evidence.sources")]
    from_cache: Annotated[tuple[str, ...], At("evidence.from_cache")]
    modules: Annotated[tuple[ModuleInLog, ...], At("evidence.modules")]
    complaints: Annotated[tuple[LogComplaintJson, ...], At("evidence.complaints")]
    next: str


def pgle_log_json(proof: LogProof, next: str) -> str:
    """Return `pgle check --log` as text."""
    return json_text(fill(PgleLog, proof, next=next))
