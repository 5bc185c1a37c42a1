"""Lines of a log that say why a profile does not work, and what to do about each."""

from __future__ import annotations

import re
from typing import Final

from counterpoint.pgle.proof import Complaint, Trouble

_EXPECT: Final = (
    "fill the compilation cache in a run with JAX_ENABLE_PGLE=true, then profile a second one "
    "with JAX_COMPILATION_CACHE_EXPECT_PGLE=true"
)

_LINES: Final = (
    (
        Trouble.MISSING_FILE,
        re.compile(r"(PGLE profile file does not exist: .*)"),
        "check --xla_gpu_pgle_profile_file_or_directory_path on every host; use an absolute path",
    ),
    (
        Trouble.UNREADABLE,
        re.compile(r"(Tried but failed to parse PGLE proto from .*|Unable to parse fdo_profile.*)"),
        "counterpoint pgle show FILE",
    ),
    (
        Trouble.DISCARDED,
        re.compile(r"(Found \d+ missing instructions\. Discarding the profile\.)"),
        "--xla_gpu_pgle_accuracy_checker=PGLE_STRICTNESS_LEVEL_WARN, or a profile of this program",
    ),
    (
        Trouble.RENAMED,
        re.compile(r"(Expected instruction name to remain the same\..*)"),
        (
            "--xla_gpu_pgle_accuracy_checker=PGLE_STRICTNESS_LEVEL_WARN: from 0.12 on ERROR fails "
            "all that has a collective which ends up synchronous, also without a profile"
        ),
    ),
    (
        Trouble.SCHEDULER_ANYWAY,
        re.compile(
            r"(Profile data detected but `xla_gpu_enable_latency_hiding_scheduler` unset.*)"
        ),
        "nothing: with a profile XLA runs its latency hiding scheduler whatever that flag says",
    ),
    (Trouble.EMPTY_TRACE, re.compile(r"(PGLE collected an empty trace.*)"), _EXPECT),
    (
        Trouble.CONTENTION,
        re.compile(r"(.*(?:CUPTI_ERROR_MULTIPLE_SUBSCRIBERS|nother profiling session active).*)"),
        "end the other profiler (nsys, DCGM: dcgmi profile --pause), or " + _EXPECT,
    ),
    (
        Trouble.CACHE_MISS,
        re.compile(r"(PERSISTENT CACHE MISS for PGLE-optimized .*)"),
        "run the program with JAX_ENABLE_PGLE=true until it has been compiled anew",
    ),
    (
        Trouble.CACHE_WRITE,
        re.compile(r"(PERSISTENT CACHE WRITE with key .*)"),
        "run both times with the same program, flags and jax: a key differs",
    ),
)


def complaint(message: str) -> Complaint | None:
    """What a line complains of; None for every other line."""
    for trouble, pattern, next_step in _LINES:
        found = pattern.search(message)
        if found:
            return Complaint(trouble, found[1].strip(), next_step)
    return None
