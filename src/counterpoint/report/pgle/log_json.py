"""`pgle check --log` as JSON: docs/reference/pgle-json.md."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from counterpoint.core.field import Field
from counterpoint.report.json import At, CountOf, Result, fill, json_text
from counterpoint.report.pgle.feedback_json import LogComplaintJson

if TYPE_CHECKING:
    from counterpoint.workflow.feedback import LogProof


class ModuleInLog(Result):
    """One compile of one module. Counts are XLA's own."""

    module: Annotated[str, Field("its name")]
    use: Annotated[
        str,
        Field("`used`, `not used`, `failed` (the compile failed for lack of costs) or `unknown`"),
    ]
    reason: Annotated[str, Field("how that is known")]
    source: Annotated[str | None, Field("the file of costs; null: the log names none")]
    found: Annotated[int | None, Field("costs found; null: not counted")]
    missing: Annotated[int | None, Field("instructions without a cost; null: not counted")]
    looked_up: Annotated[
        int,
        CountOf("looked_up"),
        Field(
            "instructions with a line of their own that a cost was found; 0 unless the log is "
            "verbose"
        ),
    ]
    missed: Annotated[
        int,
        CountOf("missed"),
        Field(
            "instructions with a line of their own that none was found; 0 unless the log is verbose"
        ),
    ]


class PgleLog(Result, tag_field="schema", tag="counterpoint.pgle-log/1"):
    """What a log proves of a profile: `counterpoint pgle check --log FILE --json`."""

    where: Annotated[
        str, Field("the log, or that of the rank which speaks most against the profile")
    ]
    given: Annotated[str | None, Field("the profile that XLA's flag names; null: unknown, or none")]
    use: Annotated[
        str,
        Field("`used`, `not used`, `failed` (the compile failed for lack of costs) or `unknown`"),
    ]
    reason: Annotated[str, Field("how that is known")]
    sources: Annotated[
        tuple[str, ...], At("evidence.sources"), Field("files of costs that XLA opened")
    ]
    from_cache: Annotated[
        tuple[str, ...],
        At("evidence.from_cache"),
        Field("modules that were loaded from the compilation cache"),
    ]
    modules: Annotated[
        tuple[ModuleInLog, ...], At("evidence.modules"), Field("the compiles, in order")
    ]
    complaints: Annotated[
        tuple[LogComplaintJson, ...], At("evidence.complaints"), Field("problems in the log")
    ]
    next: Annotated[str, Field("the command to run next")]


def pgle_log_json(proof: LogProof, next: str) -> str:
    """Return `pgle check --log` as text."""
    return json_text(fill(PgleLog, proof, next=next))
