"""Settings: what can be changed about a run without touching the program."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from counterpoint.core.errors import UsageError
from counterpoint.flags import repeats
from counterpoint.flags.layout import Layout
from counterpoint.flags.xla_flags import Pairs, expand_xla_flags, parse_xla_flags


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


def parse_settings(flags: Iterable[str] = (), variables: Iterable[str] = ()) -> Settings:
    """From `name=value` texts as the command line takes them; dashes before a flag don't matter."""
    xla: list[tuple[str, str]] = []
    for text in flags:
        name, equals, value = text.partition("=")
        name = name.strip().removeprefix("--")
        if not name or not equals or not name.replace("_", "").isalnum():
            raise UsageError(
                f"--set {text}: not a setting",
                why="a setting is a flag's name, `=` and its value",
                next="--set xla_gpu_enable_latency_hiding_scheduler=true",
            )
        xla.append((name, value))
    env: list[tuple[str, str]] = []
    for text in variables:
        name, equals, value = text.partition("=")
        if not name.isidentifier() or not equals:
            raise UsageError(
                f"--env {text}: not a variable",
                why="a variable is a name, `=` and its value",
                next="--env NCCL_DEBUG=INFO",
            )
        if name == "XLA_FLAGS":
            where = "--env XLA_FLAGS"
            xla.extend(parse_xla_flags(expand_xla_flags(value, where=where), where=where))
        else:
            env.append((name, value))
    return Settings(tuple(xla), tuple(env))
