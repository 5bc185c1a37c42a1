"""Release: all flags of one jaxlib."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from counterpoint.flags.catalogue.flag import Flag


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """What jaxlib `version` knows; `asked` is what was asked for, which may be another one."""

    version: str
    asked: str
    flags: Mapping[str, Flag]
    jax: Mapping[str, str]  # JAX's own options by environment variable, each with its default
    jax_options: Mapping[str, Flag] = field(default_factory=dict[str, Flag])  # with their types

    @property
    def exact(self) -> bool:
        return self.version == self.asked
