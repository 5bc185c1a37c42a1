"""Check: what the rules say about settings as they are written, for one release and one chip."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from counterpoint.flags.catalogue import release
from counterpoint.flags.lint.case import Case
from counterpoint.flags.lint.remark import Remark, Severity
from counterpoint.flags.rules import RULES
from counterpoint.flags.written import Written

_ORDER: Final = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.NOTE: 2}


def check(
    written: Written, *, version: str | None, chip: str | None = None, profiling: bool = False
) -> tuple[Remark, ...]:
    """All remarks, by place; at one place the gravest first."""
    return judge(Case(written=written, release=release(version), chip=chip, profiling=profiling))


def judge(case: Case) -> tuple[Remark, ...]:
    """The same of a case."""
    return in_order(remark for rule in RULES for remark in rule.check(case))


def in_order(remarks: Iterable[Remark]) -> tuple[Remark, ...]:
    """By file, line and severity, then by code."""
    return tuple(
        sorted(
            remarks,
            key=lambda one: (
                _natural(one.place.where),
                one.place.line or 0,
                _ORDER[one.severity],
                one.code,
            ),
        )
    )


def _natural(where: str) -> list[str | int]:
    """Cell 2 of a notebook stands before cell 10."""
    return [int(part) if part.isdecimal() else part for part in re.split(r"([0-9]+)", where)]
