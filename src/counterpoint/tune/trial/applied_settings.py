"""Applied settings: whether the settings of an arm reached its program.

A script may replace XLA_FLAGS, a program may pass its own compiler options, and a container may
start without our environment. A trial without the arm's settings tells nothing about the arm.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from counterpoint.core.printable import some
from counterpoint.flags.catalogue.lookup import release, releases
from counterpoint.flags.effective import FlagOutcome, compare
from counterpoint.flags.settings import LIST_TYPES, Settings
from counterpoint.runs.missing_settings import missing_settings
from counterpoint.runs.reports import jaxlib_of
from counterpoint.runs.run import Rank, Run
from counterpoint.runs.setting_history import compiling

_NOT_ENTERED: Final = (
    "no Python of the command has loaded Counterpoint, so its settings did not reach the program"
    " either (a container, `env -i`, `python -I`, or a script that replaces PYTHONPATH)"
)
_SOME: Final = 3


def why_not_applied(run: Run, changes: Settings, options: Mapping[str, str]) -> str | None:
    """Return which of an arm's changes did not reach the program, and why; None if all may have.

    `changes` are the settings in which the arm differs from the base, `options` what the compiler
    reports of the step.
    """
    if run.ranks and not any(_entered(rank) for rank in run.ranks):
        return f"{_NOT_ENTERED}; see {run.ranks[0].stderr}"
    missing = [*dict.fromkeys(_missing(run, changes, options))]
    if not missing:
        return None
    return f"did not reach the program: {some(missing, _SOME, '; ')}"


def changed_settings(settings: Settings, base: Settings) -> Settings:
    """Return the flags and variables in which settings differ from the base's."""
    flags, variables = base.flags, base.variables
    return Settings(
        tuple(pair for pair in settings.flags.items() if flags.get(pair[0]) != pair[1]),
        tuple(pair for pair in settings.variables.items() if variables.get(pair[0]) != pair[1]),
    )


def _entered(rank: Rank) -> bool:
    return rank.entered or bool(rank.processes)


def _missing(run: Run, changes: Settings, options: Mapping[str, str]) -> Iterator[str]:
    names = {*changes.flags, *changes.variables}
    for process in compiling(run.ranks):
        for setting in missing_settings(run.settings, process):
            if setting.name in names:
                yield f"{setting.name}={setting.value} ({setting.why})"
    for name, used in _overridden(run, changes, options).items():
        yield f"{name}={changes.flags[name]} (XLA used {used}: the program's compiler options)"


def _overridden(run: Run, changes: Settings, options: Mapping[str, str]) -> Mapping[str, str]:
    """Return the flags for which the compiler reports another value than the arm's, and which."""
    version = jaxlib_of(run)
    if not changes.xla or not options or version not in releases():
        return {}
    found = compare(Settings(changes.xla), options, release(version))
    lost = (FlagOutcome.ALTERED, FlagOutcome.IGNORED)  # `used` is None where a release ignores it
    return {
        flag.name: flag.used
        for flag in found
        if flag.outcome in lost and flag.used is not None and is_reported(flag.name)
    }


def is_reported(name: str) -> bool:
    """Return whether the compiler reports a flag in full; it reports no empty list."""
    flag = release().flags.get(name)
    return flag is not None and flag.compile_option and flag.type not in LIST_TYPES
