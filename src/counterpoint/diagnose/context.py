"""Context: what is known beside what a profile holds: the Run it is of, and the machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from counterpoint.flags import Settings
from counterpoint.hardware import Target
from counterpoint.runs import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """All of it may be missing: a bare file tells neither its settings nor its network."""

    run: Run | None = None
    target: Target | None = None
    flags: Mapping[str, str] | None = None  # XLA flags that were given, without dashes
    environment: Mapping[str, str] | None = None  # variables that matter, as far as they are known
    jaxlib: str | None = None  # its version, e.g. 0.10.2


def context_of(
    run: Run | None = None, target: Target | None = None, settings: Settings | None = None
) -> Context:
    """What a Run or Settings tell; nothing where there are none."""
    if settings is not None:
        return Context(
            run=run,
            target=target,
            flags={**settings.flags, **dict(settings.options)},
            environment=settings.variables,
        )
    if run is None:
        return Context(target=target)
    return Context(
        run=run,
        target=target,
        flags=dict(run.settings.xla),
        environment=dict(run.settings.env),
        jaxlib=run.versions.get("jaxlib"),
    )
