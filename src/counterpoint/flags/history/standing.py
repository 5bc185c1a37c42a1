"""Standing: the state of a name, and of a value, in one release, as a word.

It is for tables over several releases. `lifecycle.fate` gives the long answer, in sentences.
"""

from __future__ import annotations

from enum import StrEnum

from counterpoint.flags.catalogue.about import SettingReader
from counterpoint.flags.catalogue.flag import Flag, Release
from counterpoint.flags.catalogue.variable import DocumentedSetting, arguments, variables
from counterpoint.flags.history.history import history
from counterpoint.flags.versions.version import version_number

_PIPELINED = "xla_gpu_pipeline_"


class FlagState(StrEnum):
    """The state of a name in a release. XLA aborts on `NEWER` and `GONE` in XLA_FLAGS."""

    TAKEN = "yes"
    NO_OP = "ignored"
    ALIAS = "old name"
    OPTION = "compile option only"
    NEWER = "not yet"
    GONE = "no"
    UNREAD = "nobody reads it"


def state_of(name: str, release: Release) -> FlagState:
    """Return the state of a name in a release."""
    flag = release.flags.get(name)
    if flag is not None:
        return _of_flag(flag)
    if name in release.jax:
        return FlagState.TAKEN
    variable = variables().get(name) or arguments().get(name)
    if variable is not None and variable.reader is not SettingReader.JAX:
        return _of_variable(variable, release)
    if name.startswith("NCCL_"):
        return FlagState.TAKEN  # only its name is known
    first = release_added(name)
    return (
        FlagState.NEWER
        if first and version_number(first) > version_number(release.version)
        else FlagState.GONE
    )


def release_added(name: str) -> str | None:
    """Return the release that added a flag or JAX option; None if the oldest known has it."""
    past = history(name)
    if past is None:
        return None
    added = (change.version for change in past.changes if change.what == "added")
    return next(added, None)


def _of_flag(flag: Flag) -> FlagState:
    if not flag.xla_flags:
        return FlagState.OPTION
    if flag.no_op:
        return FlagState.NO_OP
    return FlagState.ALIAS if flag.alias_of else FlagState.TAKEN


def _of_variable(variable: DocumentedSetting, release: Release) -> FlagState:
    if variable.type == "none":
        return FlagState.UNREAD
    if not variable.by_jaxlib:
        return FlagState.TAKEN
    if variable.since and version_number(release.version) < version_number(variable.since):
        return FlagState.NEWER
    if variable.until and version_number(release.version) >= version_number(variable.until):
        return FlagState.GONE
    return FlagState.TAKEN


def default_of(name: str, release: Release) -> str | None:
    """Return the default in one release, as spelled there; None if it has none of its own."""
    flag = release.flags.get(name)
    if flag is not None:
        return None if flag.alias_of or flag.no_op else flag.default
    if name in release.jax:
        return release.jax[name]
    variable = variables().get(name) or arguments().get(name)
    if variable is None or variable.reader is SettingReader.JAX:  # JAX's options are in the release
        return None
    return variable.default


def is_default(name: str, value: str, release: Release) -> bool:
    """Return whether a value, as spelled in XLA_FLAGS or the environment, is the default."""
    flag = release.flags.get(name)
    if flag is not None and flag.alias_of:
        return _alias_is_default(flag, value, release)
    if flag is not None:
        return flag.is_default(value)
    variable = variables().get(name) or arguments().get(name)
    return variable is not None and variable.is_default(value)


def _alias_is_default(flag: Flag, value: str, release: Release) -> bool:
    """Handle the old pipelining names, which map true to `on` and false to `default`."""
    heir = release.flags.get(flag.alias_of or "")
    if heir is None or not heir.name.startswith(_PIPELINED):
        return False
    truth = flag.meaning(value)
    return truth is not None and heir.is_default("on" if truth else "default")
