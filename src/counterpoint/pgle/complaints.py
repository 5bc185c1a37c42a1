"""Complaints of XLA and JAX about profiles, as they are written in a log, each with its remedy."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

_EXPECT: Final = (
    "fill the compilation cache in a run with JAX_ENABLE_PGLE=true, then profile a second one "
    "with JAX_COMPILATION_CACHE_EXPECT_PGLE=true"
)


class ComplaintKind(StrEnum):
    """A complaint in the log."""

    MISSING_FILE = "missing file"
    UNREADABLE = "unreadable"
    DISCARDED = "discarded"
    RENAMED = "renamed"
    SCHEDULER_ANYWAY = "scheduler runs anyway"
    EMPTY_TRACE = "empty trace"
    CONTENTION = "contention"
    CACHE_MISS = "cache miss"
    CACHE_WRITE = "cache write"


@dataclass(frozen=True, slots=True)
class LogComplaint:
    """One thing in the log that keeps a profile from being used, and its remedy."""

    kind: ComplaintKind
    text: str
    next: str


_LINES: Final = (
    (
        ComplaintKind.MISSING_FILE,
        re.compile(r"(PGLE profile file does not exist: .*)"),
        "check --xla_gpu_pgle_profile_file_or_directory_path on every host; use an absolute path",
    ),
    (
        ComplaintKind.UNREADABLE,
        re.compile(r"(Tried but failed to parse PGLE proto from .*|Unable to parse fdo_profile.*)"),
        "counterpoint pgle show FILE",
    ),
    (
        ComplaintKind.DISCARDED,
        re.compile(r"(Found \d+ missing instructions\. Discarding the profile\.)"),
        "--xla_gpu_pgle_accuracy_checker=PGLE_STRICTNESS_LEVEL_WARN, or a profile of this program",
    ),
    (
        ComplaintKind.RENAMED,
        re.compile(r"(Expected instruction name to remain the same\..*)"),
        (
            "--xla_gpu_pgle_accuracy_checker=PGLE_STRICTNESS_LEVEL_WARN: ERROR of this XLA fails "
            "all that has a collective which ends up synchronous, also without a profile"
        ),
    ),
    (
        ComplaintKind.SCHEDULER_ANYWAY,
        re.compile(
            r"(Profile data detected but `xla_gpu_enable_latency_hiding_scheduler` unset.*)"
        ),
        "nothing: with a profile XLA runs its latency hiding scheduler regardless of that flag",
    ),
    (ComplaintKind.EMPTY_TRACE, re.compile(r"(PGLE collected an empty trace.*)"), _EXPECT),
    (
        ComplaintKind.CONTENTION,
        re.compile(
            r"^(.*(?:CUPTI_ERROR_MULTIPLE_SUBSCRIBERS|nother profiling session active).*)",
            re.MULTILINE,
        ),
        "end the other profiler (nsys, DCGM: dcgmi profile --pause), or " + _EXPECT,
    ),
    (
        ComplaintKind.CACHE_MISS,
        re.compile(r"(PERSISTENT CACHE MISS for PGLE-optimized .*)"),
        "run the program with JAX_ENABLE_PGLE=true until it has been recompiled",
    ),
    (
        ComplaintKind.CACHE_WRITE,
        re.compile(r"(PERSISTENT CACHE WRITE with key .*)"),
        "run both times with the same program, flags and jax: a key differs",
    ),
)


def complaint(message: str) -> LogComplaint | None:
    """Return the complaint in a line; None for other lines."""
    for kind, pattern, next_step in _LINES:
        match = pattern.search(message)
        if match:
            return LogComplaint(kind, match[1].strip(), next_step)
    return None
