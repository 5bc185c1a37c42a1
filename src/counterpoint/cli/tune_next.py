"""The last line of a study's report: what to do with it, as it is to be typed."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from counterpoint.tune.conclusion.conclusion import Conclusion


def next_command(conclusion: Conclusion, study: Path, command: Sequence[str]) -> str:
    """Go on with it, measure it, use it, or look elsewhere."""
    place = shlex.quote(str(study))
    behind = shlex.join(command) or "python train.py"
    if conclusion.state == "running":
        return f"counterpoint tune show {place}"
    if conclusion.state != "done":
        return f"the command that began it, with -o {place}: it goes on from here"
    if conclusion.basis == "predicted" and conclusion.winner is not None:
        return f"counterpoint tune --arm {place}/best.env -- {behind}"
    if conclusion.winner is not None:
        return f"counterpoint tune show {place} --as slurm -o job.sh"
    return f"counterpoint run --profile-start-step 5 -- {behind}"
