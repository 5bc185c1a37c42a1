"""Whose fault the end of a step or job of Slurm's was, by its state and by what was said."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from counterpoint.tune.executors.executor import Ended, EndedKind

_STATES: Final[Mapping[str, tuple[EndedKind, str]]] = {
    "PREEMPTED": (EndedKind.PREEMPTED, "Slurm gave the nodes to another job"),
    "TIMEOUT": (EndedKind.PREEMPTED, "the allocation's time limit was reached"),
    "DEADLINE": (EndedKind.PREEMPTED, "the allocation's deadline was reached"),
    "CANCELLED": (EndedKind.PREEMPTED, "somebody cancelled Slurm's job"),
    "REVOKED": (EndedKind.PREEMPTED, "Slurm revoked the job"),
    "NODE_FAIL": (EndedKind.NODE_FAULT, "a node of the allocation failed"),
    "BOOT_FAIL": (EndedKind.NODE_FAULT, "a node of the allocation did not boot"),
}
_SAID: Final[tuple[tuple[str, EndedKind], ...]] = (
    (r"^srun: error: Node failure on .*", EndedKind.NODE_FAULT),
    (r"^slurmstepd\S*: error: .* CANCELLED AT .* DUE TO NODE FAILURE.*", EndedKind.NODE_FAULT),
    (r"^slurmstepd\S*: error: .* CANCELLED AT .* DUE TO PREEMPTION.*", EndedKind.PREEMPTED),
    (r"^slurmstepd\S*: error: .* CANCELLED AT .* DUE TO TIME LIMIT.*", EndedKind.PREEMPTED),
)
_NOT_LAUNCHED: Final = re.compile(
    r"^srun: error: .*(?:launch failed|Unable to contact|timed out|onnection (?:failure|refused)"
    r"|Zero Bytes|Prolog|credential|Slurm controller|Invalid node).*",
    re.MULTILINE,
)
_MUCH: Final = 1 << 18


def fault(fields: Mapping[str, str], log: Path, *, ran: bool) -> Ended | None:
    """What befell it from outside; None where it ended by itself.

    `fields` are those of the job (scontrol show job). `ran` is whether a rank has left a word: else
    srun's complaints of nodes are heard, too.
    """
    if not fields:
        return Ended(kind=EndedKind.LOST, detail="Slurm does not know the job any more")
    kind_of_state = _STATES.get(fields.get("JobState", ""))
    if kind_of_state is not None:
        return Ended(kind=kind_of_state[0], detail=_with_reason(kind_of_state[1], fields))
    if fields.get("PreemptTime", "None") != "None":  # it is told so some time before
        return Ended(kind=EndedKind.PREEMPTED, detail=_STATES["PREEMPTED"][1])
    said = _read(log)
    for pattern, kind in _SAID:
        if found := re.search(pattern, said, re.MULTILINE):
            return Ended(kind=kind, detail=found.group())
    if not ran and (found := _NOT_LAUNCHED.search(said)):
        return Ended(kind=EndedKind.NODE_FAULT, detail=found.group())
    return None


def _with_reason(what: str, fields: Mapping[str, str]) -> str:
    reason = fields.get("Reason", "None")
    return what if reason in ("None", "") else f"{what} ({reason})"


def _read(log: Path) -> str:
    try:
        with log.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _MUCH))
            return file.read().decode("utf-8", errors="replace")
    except OSError:
        return ""
