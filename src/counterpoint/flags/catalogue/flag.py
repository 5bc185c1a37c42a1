"""Flag: what one release of jaxlib knows of one name."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag:
    """One of XLA's flags in one release.

    `type`: bool, int32, int64, float, string, enum, message; lists: enums, strings, map.
    `default` is written as XLA_FLAGS takes it. `alias_of`: a flag that sets another field.
    """

    name: str
    type: str
    default: str
    values: tuple[str, ...] = ()
    xla_flags: bool  # XLA_FLAGS takes it
    compile_option: bool  # compiler_options takes it
    no_op: bool = False
    deprecated: bool = False
    alias_of: str | None = None

    def is_default(self, value: str) -> bool:
        """Whether a value in the spelling of XLA_FLAGS says what holds anyhow."""
        raise NotImplementedError
