"""The workload of `predict` and `upgrade`: a file, a function, or a command after `--`."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from counterpoint.cli.notebooks import with_notebook
from counterpoint.core import UsageError
from counterpoint.core.notebook import is_notebook
from counterpoint.flags.versions import PROFILE

if TYPE_CHECKING:
    from counterpoint.hardware.target import Target

_PROFILES: Final = (".pbtxt", ".pb")


def named_workload(
    workload: str | None, example: str = "counterpoint predict --target 8xH100 -- python train.py"
) -> str:
    """Return the workload; refuse none."""
    if workload is None:
        raise UsageError(
            "no workload was given",
            why="pass a file or directory, file.py:function, or a command after `--`",
            next=example,
        )
    return workload


def command_of(workload: str, rest: Sequence[str]) -> list[str] | None:
    """Return the words after `--`, if any; a script or a notebook may also stand alone."""
    path = Path(workload)
    if is_notebook([workload, *rest]):
        return [*with_notebook([workload])]
    if not rest:
        script = path.is_file() and os.access(path, os.X_OK) and path.read_bytes()[:2] == b"#!"
        return [workload] if script else None
    from counterpoint.workflow import is_function

    is_file = path.is_file() and not os.access(path, os.X_OK)
    if path.is_dir() or is_file or is_function(workload):
        raise UsageError(
            f"two workloads: {workload}, and {shlex.join(rest)}",
            next=f"counterpoint predict {shlex.quote(workload)} --target 8xH100",
        )
    return [workload, *rest]


def refuse_profile_of_pgle(words: Sequence[str], target: Target | None) -> None:
    """Refuse a profile after --pgle, which would be taken for the workload or its command."""
    alone = len(words) == 1
    last = words[1:] if len(words) == 2 else ()
    taken = next(
        (it for it in (words[0], *last) if it.endswith(_PROFILES[:1] if alone else _PROFILES)), None
    )
    if taken is None:
        return
    if target is not None and target.tpu is not None:
        raise UsageError(
            f"--pgle takes no file, but {taken} follows it",
            why="it estimates what a profile of real costs could gain; `counterpoint pgle apply`"
            " gives libtpu one",
            next="omit --pgle",
        )
    raise UsageError(
        f"--pgle takes no file, but {taken} follows it",
        why="it estimates what a profile of real costs could gain. --profile FILE gives the costs"
        f" of one to the prices, and --set {PROFILE}=FILE gives it to the compiler",
        next=f"omit --pgle, use --set {PROFILE}={taken}",
    )
