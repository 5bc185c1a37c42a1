"""Case: what the rules look at: settings as written, for one release and one chip."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from counterpoint.flags.catalogue.release import Release
from counterpoint.flags.channel import Channel
from counterpoint.flags.written import Given, Written


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One check. `chip` is as hardware names it (`H100`, `A100`, `MI300X`, `TPU v5p`) or None.

    `profiling` where the settings are for a run whose profile becomes a PGLE profile.
    """

    written: Written
    release: Release
    chip: str | None = None
    profiling: bool = False

    @property
    def xla(self) -> tuple[Given, ...]:
        """What stands in XLA_FLAGS, in order."""
        return self.written.through(Channel.XLA_FLAGS)

    @property
    def flags(self) -> Mapping[str, str]:
        """One value per flag, as XLA folds XLA_FLAGS; compiler options have the last word."""
        settings = self.written.settings
        return {**settings.flags, **dict(settings.options)}

    @property
    def variables(self) -> Mapping[str, str]:
        """One value per environment variable; jax.config's names in capitals."""
        return self.written.settings.variables

    def last(self, name: str) -> Given | None:
        """Where a flag, option or variable is given last."""
        return next((one for one in reversed(self.written.given) if one.name == name), None)
