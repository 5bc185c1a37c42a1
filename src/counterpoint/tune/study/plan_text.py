"""Plans as texts, for the journal and back: whoever reads a study later needs its rules."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from counterpoint.core.documents import parse_json
from counterpoint.core.errors import InputError
from counterpoint.tune.journal.codec import Misfit, of_plain, to_plain
from counterpoint.tune.plan import Plan
from counterpoint.tune.study.study import Study

PLAN: Final = "plan"


def options_of(plan: Plan, said: Mapping[str, str] | None = None) -> tuple[tuple[str, str], ...]:
    """The plan, and what else a user said, by name."""
    return ((PLAN, json.dumps(to_plain(plan))), *(said or {}).items())


def plan_of(study: Study) -> Plan:
    """The plan that a study goes by, as it was last told."""
    text = dict(study.options).get(PLAN)
    try:
        return Plan() if text is None else of_plain(Plan, parse_json(text))
    except (Misfit, ValueError) as error:
        raise InputError(
            f"the study's plan can't be read: {error}",
            why="another version of Counterpoint wrote it",
            next="pip install --upgrade counterpoint",
        ) from None
