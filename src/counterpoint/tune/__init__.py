"""Search for settings that are really faster: predicted first, then measured, never noise.

    Space ──► Arms ──predict──► shortlist ──run in turns──► estimates ──confirm──► Conclusion
                        every event ──► Journal ──fold──► Study

A Study is what its journal says, and nothing else: whoever reads the journal knows what comes next,
so a tune that was killed goes on where it was.

    from counterpoint.tune import Asked, Budget, Plan, tune

    asked = Asked(
        command=("python", "train.py"),
        directory=Path("studies/nvls"),
        arms=("NCCL_NVLS_ENABLE=1",),
        plan=Plan(budget=Budget(trials=20)),
    )
    print(tune(asked, say=print).sentence)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from counterpoint.tune.conclusion.conclusion import Conclusion as Conclusion
    from counterpoint.tune.executors.executor import Limits as Limits
    from counterpoint.tune.executors.executor import Shape as Shape
    from counterpoint.tune.plan import Budget as Budget
    from counterpoint.tune.plan import Plan as Plan
    from counterpoint.tune.request import Asked as Asked
    from counterpoint.tune.session import conclusion_of as conclusion_of
    from counterpoint.tune.session import dry_run as dry_run
    from counterpoint.tune.session import tune as tune
    from counterpoint.tune.statistics.estimate import Rule as Rule
    from counterpoint.tune.study.directory import read_study as read_study
    from counterpoint.tune.study.study import Study as Study

__all__ = [
    "Asked",
    "Budget",
    "Conclusion",
    "Limits",
    "Plan",
    "Rule",
    "Shape",
    "Study",
    "conclusion_of",
    "dry_run",
    "read_study",
    "tune",
]

_HOMES = {
    "Asked": "request",
    "Budget": "plan",
    "Conclusion": "conclusion.conclusion",
    "Limits": "executors.executor",
    "Plan": "plan",
    "Rule": "statistics.estimate",
    "Shape": "executors.executor",
    "Study": "study.study",
    "conclusion_of": "session",
    "dry_run": "session",
    "read_study": "study.directory",
    "tune": "session",
}
"""Where each name lives: loaded when it is first used, so that importing costs nothing."""


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
