"""Verdict: what one check says of a host, with a remedy to paste, and a source."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Status(StrEnum):
    """How bad it is. Only errors and warnings make the doctor's exit code 1."""

    ERROR = "error"  # the run fails, or does something else than it seems to
    WARNING = "warning"  # it costs time, or will fail under load
    NOTE = "note"  # true, and worth knowing
    UNKNOWN = "unknown"  # can't be told here; `found` says why
    OK = "ok"
    NOT_APPLICABLE = "not applicable"


BAD: Final = (Status.ERROR, Status.WARNING)
"""What a run should not be started with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One finding. `code` and `name` are the check's; it need not give them itself."""

    status: Status
    found: str
    wanted: str = ""
    why: str = ""
    remedy: str = ""
    source: str = ""
    code: str = ""
    name: str = ""


def ok(found: str) -> Verdict:
    """All is well."""
    return Verdict(status=Status.OK, found=found)


def unknown(found: str) -> Verdict:
    """It can't be told, and why."""
    return Verdict(status=Status.UNKNOWN, found=found)


def not_applicable(found: str) -> Verdict:
    """The question does not arise here, and why."""
    return Verdict(status=Status.NOT_APPLICABLE, found=found)
