"""The settings that a process on this host would see, and what `flags check` remarks on them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from counterpoint.core import CounterpointError
from counterpoint.core.rules import find_rule, read_page
from counterpoint.doctor.facts import CheckedFlags, FlagRemark
from counterpoint.flags.catalogue.libtpu import is_libtpu_name
from counterpoint.flags.check.examination import CheckRequest, examine
from counterpoint.flags.jaxlib import JaxlibInterpreter
from counterpoint.flags.lint import Remark
from counterpoint.flags.parse.source import read_variables
from counterpoint.flags.rules import RULES
from counterpoint.flags.settings import Channel

_ADDRESS: Final = re.compile(r"https://[^\s)`]+")
_SENTENCE: Final = re.compile(r"(.+?)\.(?:\s|$)", re.DOTALL)

SEEN = ("LD_LIBRARY_PATH", "TF_FORCE_UNIFIED_MEMORY", "SLURM_JOB_NODELIST", "OMP_NUM_THREADS")
"""Variables that checks read in addition to the settings of JAX, XLA and NCCL."""


def seen_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that the doctor reads; never those that may hold a secret."""
    from counterpoint.flags.settings import is_setting

    also = (*SEEN, "NSYS_PROFILING_SESSION_ID", "NVTX_INJECTION64_PATH", "CUDA_INJECTION64_PATH")
    return {
        name: value
        for name, value in sorted(environment.items())
        if (is_setting(name) or name in also) and not _secret(name)
    }


def gather_flags(
    environment: Mapping[str, str], interpreter: JaxlibInterpreter | None, *, probe: bool
) -> CheckedFlags:
    """Return the remarks; with `probe`, also query the parser of the installed compiler."""
    from counterpoint.flags.option_probe import probe_compiler

    try:
        written = read_variables(environment, "environment")
        asker = probe_compiler if probe else None
        examination = examine(written, CheckRequest(interpreter=interpreter, ask=asker))
    except CounterpointError as failure:
        return CheckedFlags(why_not=failure.what)
    heard = examination.confirmation
    unjudged = dict.fromkeys(
        setting.name
        for setting in written.through(Channel.LIBTPU_INIT_ARGS)
        if not is_libtpu_name(setting.name)
    )
    return CheckedFlags(
        names=tuple(dict.fromkeys(one.name for one in written.given if one.name not in unjudged)),
        libtpu=tuple(unjudged),
        release=examination.asked,
        remarks=tuple(map(_remark, examination.standing)),
        probed=heard is not None and heard.asked > 0,
    )


def _remark(remark: Remark) -> FlagRemark:
    """Return the remark, with the reason and an address from its rule's page."""
    rule = find_rule(RULES, remark.code)
    page = read_page(rule) if rule else None
    why = _SENTENCE.match(page.sections["Why it costs time"]) if page else None
    addresses = _ADDRESS.findall(page.sections["References"]) if page else []
    return FlagRemark(
        code=remark.code,
        severity=str(remark.severity),
        name=remark.name,
        message=remark.message,
        advice=remark.advice,
        why=" ".join(why[1].split()) if why else "",
        source=_of_reader(remark.name, addresses),
    )


def _of_reader(name: str, addresses: Sequence[str]) -> str:
    """Return the address about the program that reads the setting: NCCL's for NCCL_PROTO."""
    reader = name.lower().split("_", maxsplit=1)[0]
    return next((address for address in addresses if reader and reader in address.lower()), "")


def _secret(name: str) -> bool:
    return any(word in name for word in ("TOKEN", "SECRET", "PASSWORD", "API_KEY"))
