"""Settings: what can be changed about a run without touching the program."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from counterpoint.core.errors import UsageError
from counterpoint.flags import repeats
from counterpoint.flags.layout import Layout
from counterpoint.flags.xla_flags import Pairs

NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NEXT: Final = "write flags and variables as NAME=value"


class NotASettingError(UsageError, ValueError):
    """A name or a value that no environment and no compiler can be given."""


def fault(name: str, value: str) -> str | None:
    """Why a pair can't be a setting; None where it can.

    Names are written into scripts as they are. Nothing else may stand in them.
    """
    if not NAME.fullmatch(name):
        return "a name consists of the letters A to Z and a to z, digits and underscores"
    if "\0" in value:
        return "an environment can't hold a zero byte"
    try:
        value.encode()
    except UnicodeEncodeError:
        return "the value is not text"
    return None


def sound(pairs: Iterable[tuple[str, str]]) -> Pairs:
    """The pairs that can be settings, of those that a file or an environment holds."""
    return tuple(pair for pair in pairs if fault(*pair) is None)


@dataclass(frozen=True, slots=True)
class Settings:
    """XLA's flags and the environment of one run, in the order in which they are given.

    Names of flags go without dashes. A flag may stand here twice, as in XLA_FLAGS: `flags` tells
    what XLA makes of it. JAX, NCCL, CUDA and the allocator are set through `env`. `options` are
    compiler options: they hold for one compile, and have the last word there.
    """

    xla: Pairs = ()
    env: Pairs = ()
    options: Pairs = ()
    layout: Layout | None = None

    def __post_init__(self) -> None:
        if "XLA_FLAGS" in self.variables:
            raise ValueError("XLA_FLAGS belongs into Settings.xla, parsed")
        for name, value in (*self.xla, *self.env, *self.options):
            if why := fault(name, value):
                raise NotASettingError(f"{name!r}: not a setting", why=why, next=_NEXT)

    @property
    def flags(self) -> dict[str, str]:
        """One value per flag: the last one, or the union where XLA collects."""
        return repeats.fold(self.xla)

    @property
    def variables(self) -> dict[str, str]:
        """One value per variable: the last one."""
        return dict(self.env)

    def merged(self, other: Settings) -> Settings:
        """Both, where the other has the last word."""
        flags = repeats.fold([*self.xla, *other.xla])
        return Settings(
            tuple(flags.items()),
            tuple({**self.variables, **other.variables}.items()),
            tuple({**dict(self.options), **dict(other.options)}.items()),
            other.layout or self.layout,
        )

    def joined(self, name: str, value: str, *, under: Settings | None = None) -> Settings:
        """With one more entry in a list flag, next to those the user gave.

        `under` is what the child inherits anyhow: a list of enum names would replace what is
        there, so its entries are said again.
        """
        if not repeats.is_list(name):
            raise ValueError(f"{name} is not a list")
        given = (under.merged(self) if under else self).flags.get(name)
        flags = {**self.flags, name: repeats.add(given, value)}
        return replace(self, xla=tuple(flags.items()))
