"""Recipe: settings with a reason for each, which hold for one release and chip or another.

    recipe ── resolve(version, chip) ──► Settings

What a recipe says beside settings (arguments of a program, the kernel's settings, advice) is kept
apart: nobody but a reader can follow it. The form of the files is in recipe_text.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from counterpoint.flags.advice.condition import Condition
from counterpoint.flags.channel import Channel
from counterpoint.flags.layout import Layout
from counterpoint.flags.settings import Settings
from counterpoint.flags.xla_flags import render_xla_flags


@dataclass(frozen=True, slots=True)
class Line:
    """One setting of a recipe. `basis`: documented, measured or rule of thumb."""

    name: str
    value: str
    reason: str | None = None
    basis: str = ""
    source: str = ""  # empty: the recipe's
    known: str = ""  # what came of it where somebody measured it
    condition: Condition = field(default_factory=Condition)
    channel: Channel = Channel.XLA_FLAGS
    kinds: tuple[str, ...] = ()  # the collectives it is about; none: not about collectives
    where: str = ""  # "loop": it changes what is in a loop only


@dataclass(frozen=True, slots=True)
class Recipe:
    """Settings with what they are for and who says so.

    `workloads` are the kinds of parallelism that `flags recommend` takes it for, `any` for all;
    none: it is taken by its name only.
    """

    name: str
    about: str = ""
    source: str = ""
    flags: tuple[Line, ...] = ()
    variables: tuple[Line, ...] = ()
    left_out: tuple[tuple[str, str], ...] = ()
    libtpu: tuple[Line, ...] = ()
    arguments: tuple[Line, ...] = ()
    kernel: tuple[Line, ...] = ()
    advice: tuple[Line, ...] = ()
    layout: Layout | None = None
    workloads: tuple[str, ...] = ()
    goals: tuple[str, ...] = ()

    @property
    def lines(self) -> tuple[Line, ...]:
        """All settings, for whatever release and chip they are."""
        return (*self.flags, *self.variables, *self.libtpu)

    @property
    def settings(self) -> Settings:
        """What holds for the newest release, whatever the chip."""
        return self.resolve()

    def lines_for(
        self, version: str | None, chip: str | None, hosts: int | None = None
    ) -> tuple[Line, ...]:
        """The settings that are meant for this release of jaxlib, chip and number of hosts."""
        return tuple(
            line for line in self.lines if line.condition.why_not(version, chip, hosts) is None
        )

    def resolve(
        self, version: str | None = None, chip: str | None = None, hosts: int | None = None
    ) -> Settings:
        """What it comes to there."""
        return settings_of(self.lines_for(version, chip, hosts), self.layout)


def settings_of(lines: tuple[Line, ...], layout: Layout | None = None) -> Settings:
    """Lines as one value; libtpu's flags travel in their variable."""

    def through(channel: Channel) -> tuple[tuple[str, str], ...]:
        return tuple((line.name, line.value) for line in lines if line.channel is channel)

    tpu = render_xla_flags(through(Channel.LIBTPU_INIT_ARGS))
    env = (*through(Channel.ENVIRONMENT), *((("LIBTPU_INIT_ARGS", tpu),) if tpu else ()))
    return Settings(through(Channel.XLA_FLAGS), env, layout=layout)


@cache
def recipes() -> Mapping[str, Recipe]:
    """All recipes that come with Counterpoint, by name."""
    from counterpoint.flags.advice.recipe_text import read_recipe  # it makes Recipes

    directory = Path(__file__).with_name("recipes")
    files = {entry.name: entry for entry in directory.iterdir()}
    found = (
        read_recipe(files[name].read_text("utf-8"), name)
        for name in sorted(files)
        if name.endswith(".toml")
    )
    return {recipe.name: recipe for recipe in found}
