"""The summary of a step of GitHub Actions: what the job's page shows, as Markdown."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from counterpoint.cli.printing import say_line
from counterpoint.cli.wording import in_options

STEP_SUMMARY: Final = "GITHUB_STEP_SUMMARY"
"""The variable that names the file; GitHub shows at most one MiB of it."""
_LARGEST: Final = 200_000


def add_step_summary(markdown: str) -> None:
    """Add to the summary if there is one; a failure is said, and changes nothing else."""
    name = os.environ.get(STEP_SUMMARY)
    if not name or len(markdown) > _LARGEST:
        return
    try:
        with Path(name).open("a", encoding="utf-8", errors="backslashreplace") as file:
            file.write(f"{in_options(markdown)}\n")
    except OSError as failure:
        say_line(f"the step summary was not written: {failure}")
