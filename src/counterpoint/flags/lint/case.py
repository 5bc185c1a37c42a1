"""Case: what the rules look at: settings as written, for one release and one chip."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from counterpoint.flags.catalogue.flag import Flag
from counterpoint.flags.catalogue.release import Release
from counterpoint.flags.channel import Channel
from counterpoint.flags.lint.fate import Fate, fate
from counterpoint.flags.written import Given, Written


@dataclass(frozen=True, kw_only=True)
class Case:
    """One check. `chip` is as hardware names it (`H100`, `A100`, `MI300X`, `TPU v5p`) or None.

    `profiling` where the settings are for a run whose profile becomes a PGLE profile.

    What the compiler itself said, where it disagrees with the other rules: what it `refused`, with
    its reason, and what it has `taken`, with the code of the rule that said it would not.
    """

    written: Written
    release: Release
    chip: str | None = None
    profiling: bool = False
    refused: Mapping[Given, str] = field(default_factory=dict[Given, str])
    taken: Mapping[Given, str] = field(default_factory=dict[Given, str])

    @property
    def xla(self) -> tuple[Given, ...]:
        """What stands in XLA_FLAGS, in order."""
        return self.written.through(Channel.XLA_FLAGS)

    @property
    def compiler(self) -> tuple[Given, ...]:
        """What stands in XLA_FLAGS and compiler_options, in order."""
        both = (Channel.XLA_FLAGS, Channel.COMPILER_OPTIONS)
        return tuple(one for one in self.written.given if one.channel in both)

    def fate(self, one: Given) -> Fate:
        """What became of a flag's name in this release and channel."""
        return fate(one.name, self.release, one.channel)

    def known(self, one: Given) -> Flag | None:
        """The flag, where its channel takes the name."""
        flag = self.release.flags.get(one.name)
        if flag is None:
            return None
        option = one.channel is Channel.COMPILER_OPTIONS
        return flag if (flag.compile_option if option else flag.xla_flags) else None

    @cached_property
    def flags(self) -> Mapping[str, str]:
        """One value per flag, as XLA folds XLA_FLAGS; compiler options have the last word."""
        settings = self.written.settings
        return {**settings.flags, **dict(settings.options)}

    @cached_property
    def variables(self) -> Mapping[str, str]:
        """One value per environment variable; jax.config's names in capitals."""
        return self.written.settings.variables

    def last(self, name: str) -> Given | None:
        """Where a flag, option or variable is given last, or jax.config under a variable's name."""
        config = name.lower() if name.startswith("JAX_") else name
        given = reversed(self.written.given)
        return next((one for one in given if one.name in (name, config)), None)
