"""`tune --dry-run`: the plan and its price, printed."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from counterpoint.cli.progress import Progress

if TYPE_CHECKING:
    from counterpoint.tune.asked import Asked


def print_dry_run(asked: Asked, top: int, words: str, *, as_json: bool) -> None:
    """Look at all of it, and say what would be done; `words` do it."""
    from counterpoint.report.terminal import print_document
    from counterpoint.report.tune_dry_run import dry_run_document, dry_run_json
    from counterpoint.tune.sitting import dry_run

    with Progress("looking at what may be changed") as progress:
        plan = dry_run(asked, progress.say)
    if as_json:
        sys.stdout.write(dry_run_json(plan, asked.plan.budget))
    else:
        print_document(dry_run_document(plan, top, words, asked.plan.budget), sys.stdout)
