"""The executors, and choosing one: the one named, or the one that the environment suggests."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final

from counterpoint.core import UsageError
from counterpoint.core.arguments import option_of
from counterpoint.tune.executors.executor import (
    Executor,
    ExecutorKind,
    PlaceRequest,
    ProcessShape,
)
from counterpoint.tune.executors.kubernetes import KUBERNETES, KubernetesOptions
from counterpoint.tune.executors.local import LOCAL, LocalOptions
from counterpoint.tune.executors.process_supervisor import USUAL_TIMES, EndingTimes
from counterpoint.tune.executors.ray import RAY, RayOptions
from counterpoint.tune.executors.slurm import SLURM
from counterpoint.tune.executors.slurm_batch import SLURM_BATCH
from counterpoint.tune.executors.slurm_control import SlurmOptions

EXECUTORS: Final[tuple[ExecutorKind[Any], ...]] = (LOCAL, SLURM, SLURM_BATCH, RAY, KUBERNETES)
"""All of them; the first one that the environment suggests is chosen, or else the first."""


@dataclass(frozen=True)
class ExecutorOptions:
    """The options of all executors, each declared beside its executor."""

    local: LocalOptions = field(default_factory=LocalOptions)
    slurm: SlurmOptions = field(default_factory=SlurmOptions)
    ray: RayOptions = field(default_factory=RayOptions)
    kubernetes: KubernetesOptions = field(default_factory=KubernetesOptions)

    @property
    def groups(self) -> tuple[object, ...]:
        return tuple(vars(self).values())

    @property
    def given(self) -> dict[str, str]:
        """The options with a value, by name."""
        everything = {name: value for group in self.groups for name, value in vars(group).items()}
        return {name: value for name, value in everything.items() if value is not None}

    def of(self, kind: ExecutorKind[Any]) -> Any:  # noqa: ANN401 - whatever the executor declares
        """Return the options of one executor."""
        return next(group for group in self.groups if isinstance(group, kind.options))


NO_OPTIONS: Final = ExecutorOptions()


def choose_executor(
    name: str | None,
    shape: ProcessShape,
    options: ExecutorOptions = NO_OPTIONS,
    *,
    environ: Mapping[str, str] | None = None,
    say: Callable[[str], None] = lambda _: None,
    stopped: Callable[[], bool] = lambda: False,
    ending: EndingTimes = USUAL_TIMES,
) -> Executor:
    """Return the executor of that name, or for None the one that fits (`executor_kind`).

    While the executor waits for nodes, it reports through `say`, and stops when `stopped` is true.
    Processes that are asked to end have as long as `ending` says.
    """
    variables = os.environ if environ is None else environ
    kind = executor_kind(name, options, variables)
    _refuse_those_of_others(kind, options)
    return kind.make(
        PlaceRequest(
            shape=shape,
            options=options.of(kind),
            environ=variables,
            say=say,
            stopped=stopped,
            ending=ending,
        )
    )


def _refuse_those_of_others(kind: ExecutorKind[Any], options: ExecutorOptions) -> None:
    own = {each.name for each in fields(kind.options)}
    for name in options.given:
        if name not in own:
            owner = next(other.name for other in EXECUTORS if name in vars(options.of(other)))
            raise UsageError(
                f"{option_of(name)} applies to the executor {owner}, not to {kind.name}",
                next=f"omit {option_of(name)}",
            )


def executor_kind(
    name: str | None,
    options: ExecutorOptions = NO_OPTIONS,
    environ: Mapping[str, str] | None = None,
) -> ExecutorKind[Any]:
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


def _fits(kind: ExecutorKind[Any], options: ExecutorOptions, variables: Mapping[str, str]) -> bool:
    if kind.is_here:  # what is chosen when nothing fits
        return False
    return options.of(kind) != kind.options() or any(name in variables for name in kind.variables)
