"""A job that waits in Slurm's queue: why it does, and whether waiting is of any use."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from typing import Final

from counterpoint.core.errors import UsageError
from counterpoint.tune.executors.slurm_control import job_fields, partition_fields

_LOOK_S: Final = 1.0
"""Slurm's controller is everybody's: it is not asked more often."""
_UNSAID: Final = ("", "None")
_PATIENCE: Final = 3
"""Looks after which it is said that a job waits, though Slurm doesn't say why yet."""
_NEVER: Final = re.compile(
    r"BadConstraints|PartitionTimeLimit|InvalidAccount|InvalidQOS|AccountNotAllowed|QOSNotAllowed"
    r"|DependencyNeverSatisfied|(?:Assoc|QOS)\w+PerJob(?:Limit)?|QOSMin\w+"
)
"""What only other options mend, however long one waits. Others pass: down nodes are mended, jobs of
others end."""

_TOO_MANY: Final = ("PartitionNodeLimit", "PartitionConfig")
"""Said of more nodes than a partition has, and also of nodes that are down."""


class Waiting:
    """Tells each reason once; a UsageError for one that lasts for ever."""

    def __init__(self, job: str, what: str, say: Callable[[str], None]) -> None:
        self._job = job
        self._what = what
        self._say = say
        self._asked_at = float("-inf")
        self._looks = 0
        self._said: set[str] = set()

    def look(self) -> None:
        """Ask Slurm, unless it was asked a moment ago."""
        if time.monotonic() - self._asked_at < _LOOK_S:
            return
        self._asked_at = time.monotonic()
        fields = job_fields(self._job)
        if fields:
            self.note(fields)

    def note(self, fields: Mapping[str, str]) -> None:
        """Tell of a job by what `scontrol show job` says of it."""
        if fields.get("JobState") != "PENDING":
            return
        self._looks += 1
        reason = fields.get("Reason", "")
        if reason in _UNSAID and (self._said or self._looks < _PATIENCE):
            return
        why = "" if reason in _UNSAID else f": {reason.replace('_', ' ')}"
        if why not in self._said:
            self._said.add(why)
            self._say(f"job {self._job} waits in Slurm's queue for {self._what}{why}")
        if never := _never(reason, fields):
            raise UsageError(
                f"Slurm will never start job {self._job} of {self._what}: {reason}",
                why=never,
                next="ask for what this site allows; this job was cancelled",
            )


def _never(reason: str, fields: Mapping[str, str]) -> str:
    """Why waiting is of no use; empty where it may be."""
    if _NEVER.fullmatch(reason):
        return "that is for its options to mend, not for time"
    if reason not in _TOO_MANY:
        return ""
    name = fields.get("Partition", "")
    partition, wanted = partition_fields(name), fields.get("NumNodes", "").partition("-")[0]
    for limit in ("TotalNodes", "MaxNodes"):
        has = partition.get(limit, "")
        if has.isdecimal() and wanted.isdecimal() and int(wanted) > int(has):
            most = "has" if limit == "TotalNodes" else "gives a job at most"
            return f"the partition {name} {most} {has} nodes"
    return ""
