"""A recipe, ours or a user's, as Written."""

from __future__ import annotations

import re

from counterpoint.flags.advice.recipe import Recipe
from counterpoint.flags.settings import Channel, Settings
from counterpoint.flags.written import Given, Place, Written


def read_toml(text: str, where: str) -> Written:
    """A TOML file, whose faults are errors as they are in `--settings`."""
    from counterpoint.flags.advice.recipe import read_recipe

    return _written(read_recipe(text, where).settings, where, "toml", text)


def write_recipe(recipe: Recipe, version: str | None = None, chip: str | None = None) -> Written:
    """A recipe that comes with Counterpoint, for one jaxlib (None: the newest) and chip (any)."""
    return _written(recipe.resolve(version, chip), f"recipe {recipe.name}", "recipe", "")


def _written(settings: Settings, where: str, form: str, text: str) -> Written:
    lines = {
        match[1]: number
        for number, line in enumerate(text.splitlines(), 1)
        if (match := re.match(r"\s*\"?(\w+)\"?\s*=", line))
    }

    def given(channel: Channel, name: str, value: str) -> Given:
        dashes = "" if channel is Channel.ENVIRONMENT else "--"
        return Given(
            channel=channel,
            name=name,
            value=value,
            place=Place(where, lines.get(name)),
            text=f"{dashes}{name}={value}",
        )

    return Written(
        where=where,
        form=form,
        given=(
            *(given(Channel.XLA_FLAGS, name, value) for name, value in settings.xla),
            *(given(Channel.ENVIRONMENT, name, value) for name, value in settings.env),
        ),
        layout=settings.layout,
    )
