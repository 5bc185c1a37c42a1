"""What `flags check` says of this environment, in the doctor's words."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from counterpoint.core.errors import CounterpointError
from counterpoint.core.rulebook import find_rule, read_page
from counterpoint.doctor.facts import FlagRemark, Flags
from counterpoint.flags.channel import Channel
from counterpoint.flags.lint.examination import Question, examine
from counterpoint.flags.lint.remark import Remark
from counterpoint.flags.live.interpreter import Interpreter
from counterpoint.flags.reading import read_variables
from counterpoint.flags.rules import RULES

_ADDRESS: Final = re.compile(r"https://[^\s)`]+")
_SENTENCE: Final = re.compile(r"(.+?)\.(?:\s|$)", re.DOTALL)

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
    given = dict.fromkeys(
        (one.channel is Channel.LIBTPU_INIT_ARGS, one.name) for one in written.given
    )
    return Flags(
        names=tuple(name for libtpu, name in given if not libtpu),
        libtpu=tuple(name for libtpu, name in given if libtpu),
        release=found.asked,
        remarks=tuple(map(_remark, found.remarks)),
        probed=heard is not None and heard.asked > 0,
    )


def _remark(one: Remark) -> FlagRemark:
    """The remark, with the reason and an address of its rule's page."""
    rule = find_rule(RULES, one.code)
    page = read_page(rule) if rule else None
    why = _SENTENCE.match(page.sections["Why it costs time"]) if page else None
    addresses = _ADDRESS.findall(page.sections["References"]) if page else []
    return FlagRemark(
        code=one.code,
        severity=str(one.severity),
        name=one.name,
        message=one.message,
        advice=one.advice,
        why=" ".join(why[1].split()) if why else "",
        source=_of_reader(one.name, addresses),
    )


def _of_reader(name: str, addresses: Sequence[str]) -> str:
    """The address that is about who reads the setting: NCCL's for NCCL_PROTO."""
    reader = name.lower().split("_", maxsplit=1)[0]
    return next((one for one in addresses if reader and reader in one.lower()), "")


def _secret(name: str) -> bool:
    return any(word in name for word in ("TOKEN", "SECRET", "PASSWORD", "API_KEY"))
