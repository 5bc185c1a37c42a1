"""ROWS: the rules that are one row each, by code; the page of each is pages/CODE.md."""

from __future__ import annotations

from typing import Final

from counterpoint.flags.lint import Fix, Severity, chip_is
from counterpoint.flags.parsed import IssueKind, Occurrence, SyntaxIssue
from counterpoint.flags.rules.row import (
    Row,
    compiler_options,
    issues,
    last_of,
)
from counterpoint.flags.versions import ChipFamily

ROWS: Final[tuple[Row[Occurrence] | Row[SyntaxIssue], ...]] = (
    Row(
        "FLAG111",
        "statistics-option",
        looks_at=compiler_options,
        when=lambda _, one: "compile_xla_flags" in one.via,
        severity=Severity.WARNING,
        message="MaxText uses it only to print memory statistics, not for the training step",
        advice="set it in XLA_FLAGS",
    ),
    Row(
        "FLAG210",
        "overwritten",
        looks_at=issues(IssueKind.OVERWRITTEN),
        severity=Severity.WARNING,
        message=lambda _, issue: issue.why,
        advice=lambda _, issue: (
            f"write {issue.suggestion}"
            if issue.suggestion
            else "append to it, or remove the earlier one"
        ),
    ),
    Row(
        "FLAG505",
        "max-connections",
        looks_at=last_of("CUDA_DEVICE_MAX_CONNECTIONS"),
        when=lambda case, one: (
            case.variables.get(one.name) == "1" and chip_is(case, ChipFamily.BLACKWELL)
        ),
        severity=Severity.WARNING,
        message=lambda case, _: f"one queue is for Hopper; on {case.chip} it is slower",
        advice="remove it",
        fix=Fix(safe=False),
    ),
)
"""All rows."""
