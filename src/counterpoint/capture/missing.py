"""A program that is not there: said before anything is made or started."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from counterpoint.core.errors import UsageError


def refuse_missing(
    command: Sequence[str], env: Mapping[str, str], before: str = "counterpoint run"
) -> None:
    """An error where the first word can't be started; `before` is what stands before `--`."""
    if not command:
        raise UsageError("no command was given", next=f"{before} -- python train.py")
    if shutil.which(command[0], path=env.get("PATH")) is not None:
        return
    by_path = "/" in command[0]
    here = Path(command[0]).is_file()
    may_run = os.access(command[0], os.X_OK)
    raise UsageError(
        f"{command[0]} {'is not executable' if here and by_path else 'was not found'}",
        why=None if by_path else "it is nowhere on the PATH",
        next=f"{before} -- {'./' if may_run else 'python '}{shlex.join(command)}"
        if here
        else f"command -v {shlex.quote(command[0])}",
    )
