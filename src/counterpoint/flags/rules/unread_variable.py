"""An environment variable that nothing reads.

## What it does

Finds variables that look like JAX's, NCCL's, XLA's or its log's, and that none of them reads in
this release: misspelled ones, ones of a later or an earlier release, those that old scripts hand on
(`NCCL_TREE_THRESHOLD`, `NCCL_CHECKS_DISABLE`, `JAX_ARRAY`), and some that many guides name and no
release has ever had (`TF_CPP_MAX_LOG_LEVEL`). Invalid names of variables (`NCCL_A;B`) and
values that no environment can hold are errors.

## Why it costs time

The variable has no effect, and nothing reports that: an environment accepts every name.

## How it is detected

JAX's options are known for each release, read out of the package. Of the others, those are reported
whose names are similar to a known one, since plugins and clouds have variables of their own
(`NCCL_GPUDIRECTTCPX_...`). An option in `jax.config.update` that does not exist raises an
AttributeError.

## Example

```sh jaxlib=0.10.2
export TF_CPP_MAX_LOG_LEVEL=100
```

## Fix

Write the intended name, or remove it. `TF_CPP_MAX_VLOG_LEVEL` makes XLA's log more verbose,
`TF_CPP_VMODULE` for single files.

## Fix safety

Removing it is safe. Another name would change the run: reported only.

## References

- https://docs.jax.dev/en/latest/config_options.html
- https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html
- https://github.com/openxla/xla/blob/main/xla/tsl/platform/default/logging.cc
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from counterpoint.flags.catalogue.about import ReadingProgram, documentation_of
from counterpoint.flags.catalogue.variable import (
    JAX_ELSEWHERE,
    DocumentedSetting,
    nccl_names,
    variables,
)
from counterpoint.flags.history import History, history
from counterpoint.flags.lifecycle import LifecycleStatus
from counterpoint.flags.lint import Fix, LintContext, Remark, Severity, remark
from counterpoint.flags.parsed import Occurrence
from counterpoint.flags.settings import Channel
from counterpoint.flags.versions import version_number

CODE: Final = "FLAG501"
NAME: Final = "unread-variable"
SINCE: Final = "0.1"

_OF_FLAGS: Final = (Channel.XLA_FLAGS, Channel.COMPILER_OPTIONS)
"""In these channels, an invalid name is reported as an unknown one; libtpu's answer is unknown."""
_CLOSE: Final = 0.9
_OF_PYTORCH: Final = ("NCCL_ASYNC_ERROR_HANDLING", "NCCL_BLOCKING_WAIT")
"""Its releases since 2.2 call them TORCH_NCCL_..., and still read these."""
_OURS: Final = ("NCCL_", "XLA_PYTHON_CLIENT_", "XLA_CLIENT_", "TF_CPP_", "CUDA_DEVICE_")


def check(case: LintContext) -> Iterator[Remark]:
    """Yield at most one remark for each variable."""
    refused = dict(case.written.refused)
    for setting, why in refused.items():
        if (
            setting.channel not in (*_OF_FLAGS, Channel.LIBTPU_INIT_ARGS)
            or case.lifecycle(setting).kind is not LifecycleStatus.NEVER
        ):
            yield remark(CODE, Severity.ERROR, setting, why, "remove it", Fix(safe=False))
    for setting in case.written.through(Channel.ENVIRONMENT):
        if setting not in refused:
            yield from _variable(case, setting)
    for setting in case.written.through(Channel.JAX_CONFIG):
        yield from _jax(case, setting, setting.name.upper())


def _variable(case: LintContext, setting: Occurrence) -> Iterator[Remark]:
    known = variables().get(setting.name)
    if known is not None and known.type == "none":
        yield from _gone(case, setting, known)
    elif setting.name in _OF_PYTORCH:
        text = "PyTorch reads it, and neither NCCL nor JAX"
        yield _remark(setting, text, "remove it if only JAX runs here", Severity.NOTE)
    elif setting.name.startswith("JAX_"):
        yield from _jax(case, setting, setting.name)
    elif known is None and setting.name.startswith(_OURS) and setting.name not in nccl_names():
        near = _near(setting.name, [*nccl_names(), *variables()])
        if near:
            yield _remark(setting, "nothing reads it", f"did you mean {near}?")


def _gone(case: LintContext, one: Occurrence, known: DocumentedSetting) -> Iterator[Remark]:
    """Yield a remark on a variable that no release reads, or none from one on."""
    reader = "NCCL" if known.reader is ReadingProgram.NCCL else "JAX"
    at = version_number(case.release.version)
    if known.until and known.by_jaxlib and at < version_number(known.until):
        return
    text = f"{reader} {known.until} and later do not read it" if known.until else ""
    others = documentation_of(one.name)
    use = f"; see {', '.join(others.use)}" if others and others.use else ""
    yield _remark(one, text or "no release reads it", f"remove it{use}", safe=True)


def _jax(case: LintContext, one: Occurrence, name: str) -> Iterator[Remark]:
    options = case.release.jax
    if not options or name in options or name in JAX_ELSEWHERE or not case.release.exact:
        return
    ends = one.channel is Channel.JAX_CONFIG
    severity = Severity.ERROR if ends else Severity.WARNING
    reader = "jax.config.update" if ".update(" in one.text or "(" not in one.text else "it"
    what = f"{reader} raises an AttributeError: " if ends else ""
    past = history(name)
    if past is not None:
        text = f"{what}JAX {case.release.version} does not know it{_when(case, past)}"
        yield remark(CODE, severity, one, text, "remove it", Fix(safe=not ends))
        return
    near = _near(name, case.release.jax)
    if near:
        shown = near.lower() if ends else near
        yield _remark(one, f"{what}JAX has no such option", f"did you mean {shown}?", severity)
    elif ends and name.startswith("JAX_"):
        yield _remark(
            one, f"{what}JAX {case.release.version} does not know it", "remove it", severity
        )


def _when(case: LintContext, past: History) -> str:
    """Return the next release that has it, or the one that removed it."""
    at = version_number(case.release.version)
    newer = [
        change
        for change in past.changes
        if change.what == "added" and version_number(change.version) > at
    ]
    gone = [
        change
        for change in past.changes
        if change.what == "removed" and version_number(change.version) <= at
    ]
    if newer:
        return f"; {newer[0].version} introduced it"
    return f"; {gone[-1].version} removed it" if gone else ""


def _near(name: str, names: Iterable[str]) -> str:
    import difflib

    return next(iter(difflib.get_close_matches(name, list(names), n=1, cutoff=_CLOSE)), "")


def _remark(
    one: Occurrence,
    message: str,
    advice: str,
    severity: Severity = Severity.WARNING,
    *,
    safe: bool = False,
) -> Remark:
    return remark(CODE, severity, one, message, advice, Fix(safe=safe))
