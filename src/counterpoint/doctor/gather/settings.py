"""What `flags check` says of this environment, in the doctor's words."""

from __future__ import annotations

from collections.abc import Mapping

from counterpoint.core.errors import CounterpointError
from counterpoint.doctor.facts import FlagRemark, Flags
from counterpoint.flags.lint.examination import Question, examine
from counterpoint.flags.live.interpreter import Interpreter
from counterpoint.flags.reading import read_variables

SEEN = ("LD_LIBRARY_PATH", "TF_FORCE_UNIFIED_MEMORY", "SLURM_JOB_NODELIST", "OMP_NUM_THREADS")
"""Variables that checks look at beside the settings of JAX, XLA and NCCL."""


def seen_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that the doctor looks at: never those that may hold a secret."""
    from counterpoint.flags.sources.variables import is_setting

    also = (*SEEN, "NSYS_PROFILING_SESSION_ID", "NVTX_INJECTION64_PATH", "CUDA_INJECTION64_PATH")
    return {
        name: value
        for name, value in sorted(environment.items())
        if (is_setting(name) or name in also) and not _secret(name)
    }


def gather_flags(
    environment: Mapping[str, str], interpreter: Interpreter | None, *, probe: bool
) -> Flags:
    """The remarks; with `probe`, the installed compiler's parser is asked, too."""
    from counterpoint.flags.live.questions import ask_compiler

    try:
        written = read_variables(environment, "environment")
        asker = ask_compiler if probe else None
        found = examine(written, Question(interpreter=interpreter, ask=asker))
    except CounterpointError as failure:
        return Flags(why_not=failure.what)
    heard = found.confirmation
    return Flags(
        settings=found.settings,
        release=found.asked,
        remarks=tuple(
            FlagRemark(
                code=one.code,
                severity=str(one.severity),
                name=one.name,
                message=one.message,
                advice=one.advice,
            )
            for one in found.remarks
        ),
        probed=heard is not None and heard.asked > 0,
    )


def _secret(name: str) -> bool:
    return any(word in name for word in ("TOKEN", "SECRET", "PASSWORD", "API_KEY"))
