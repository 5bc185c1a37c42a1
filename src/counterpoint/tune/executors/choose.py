"""The executors, and choosing one: the one named, or the one that the environment suggests."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from counterpoint.core import UsageError
from counterpoint.tune.executors.executor import (
    Executor,
    ExecutorKind,
    PlaceRequest,
    ProcessShape,
)
from counterpoint.tune.executors.kubernetes import KUBERNETES
from counterpoint.tune.executors.local import LOCAL
from counterpoint.tune.executors.process_supervisor import USUAL_TIMES, EndingTimes
from counterpoint.tune.executors.ray import RAY
from counterpoint.tune.executors.slurm import SLURM
from counterpoint.tune.executors.slurm_batch import SLURM_BATCH

EXECUTORS: Final[tuple[ExecutorKind, ...]] = (LOCAL, SLURM, SLURM_BATCH, RAY, KUBERNETES)
"""All of them; the first one that the environment suggests is chosen, or else the first."""
_NONE: Final[Mapping[str, str]] = MappingProxyType({})


def choose_executor(
    name: str | None,
    shape: ProcessShape,
    options: Mapping[str, str] = _NONE,
    *,
    environ: Mapping[str, str] | None = None,
    say: Callable[[str], None] = lambda _: None,
    stopped: Callable[[], bool] = lambda: False,
    ending: EndingTimes = USUAL_TIMES,
) -> Executor:
    """Return the executor of that name, or for None the one that fits (`executor_kind`).

    Options are in the user's words. While the executor waits for nodes, it reports through `say`,
    and stops when `stopped` is true. Processes that are asked to end have as long as `ending` says.
    """
    variables = os.environ if environ is None else environ
    kind = executor_kind(name, options, variables)
    for option in options:
        if option not in kind.options:
            owner = next(other.name for other in EXECUTORS if option in other.options)
            raise UsageError(
                f"--{option} applies to the executor {owner}, not to {kind.name}",
                next=f"omit --{option}",
            )
    return kind.make(
        PlaceRequest(
            shape=shape,
            options=options,
            environ=variables,
            say=say,
            stopped=stopped,
            ending=ending,
        )
    )


def executor_kind(
    name: str | None,
    options: Mapping[str, str] = _NONE,
    environ: Mapping[str, str] | None = None,
) -> ExecutorKind:
    """Return the kind of that name, or for None the one that the options or variables suggest."""
    variables = os.environ if environ is None else environ
    if name is not None:
        found = next((kind for kind in EXECUTORS if kind.name == name), None)
        if found is None:
            names = ", ".join(kind.name for kind in EXECUTORS)
            raise UsageError(f"unknown executor {name!r}", why=f"executors are {names}")
        return found
    return next((kind for kind in EXECUTORS if _fits(kind, options, variables)), EXECUTORS[0])


def runs_here(name: str | None) -> bool:
    """Return whether trials run on this machine; without a name, they may."""
    return name is None or executor_kind(name).is_here


def _fits(kind: ExecutorKind, options: Mapping[str, str], variables: Mapping[str, str]) -> bool:
    if kind.is_here:  # what is chosen when nothing fits
        return False
    return any(name in options for name in kind.options) or any(
        name in variables for name in kind.variables
    )
