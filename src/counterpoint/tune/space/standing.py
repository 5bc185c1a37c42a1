"""Standing: whether the base says already what a setting would say, and whether it may be said.

Of each name three values count: what the base (or the environment that it inherits) gives, else the
release's default, else nothing that we know of.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterpoint.flags import Settings
from counterpoint.flags.catalogue.flag import Flag
from counterpoint.flags.catalogue.variable import variables
from counterpoint.flags.channel import Channel
from counterpoint.flags.lint.spelling import refusal
from counterpoint.flags.repeats import LISTS, combine
from counterpoint.flags.version import number
from counterpoint.tune.space.situation import Situation

_OF_ALIAS: Final = {True: "ON", False: "DEFAULT"}
"""What an old switch sets where a mode has taken its place."""

TWINS: Final = {"XLA_CLIENT_MEM_FRACTION": "XLA_PYTHON_CLIENT_MEM_FRACTION"}
"""Two names for one thing, which JAX refuses together."""


def fitted(settings: Settings, here: Situation) -> Settings:
    """The same for these devices: numbers put in, changes of lists made, the base's own names."""
    xla = tuple((name, _fitted_value(name, value, here)) for name, value in settings.xla)
    names = {new: old for new, old in TWINS.items() if old in here.variables}
    names |= {old: new for new, old in TWINS.items() if new in here.variables}
    env = tuple((names.get(name, name), value) for name, value in settings.env)
    return Settings(xla, env, settings.options, settings.layout)


def _fitted_value(name: str, value: str, here: Situation) -> str:
    if "{gpus_per_host}" in value and here.gpus_per_host is not None:
        value = value.replace("{gpus_per_host}", str(here.gpus_per_host))
    flag = here.release.flags.get(name)
    if flag is not None and flag.type == "enums" and value[:1] in ("+", "-"):
        return combine(name, given(name, here) or flag.default, value)
    return value


def given(name: str, here: Situation) -> str | None:
    """What the base says of a flag or variable, under whatever name; None: nothing."""
    if not name.startswith("xla"):
        return here.variables.get(name)
    flags = here.before.flags
    found = flags.get(name)
    for other, value in flags.items():
        alias = here.release.flags.get(other)
        if alias is not None and alias.alias_of == name:
            meant = alias.meaning(value)
            found = _OF_ALIAS[meant] if isinstance(meant, bool) else found
    return dict(here.base.options).get(name, found)


def is_said(settings: Settings, here: Situation) -> bool:
    """Whether the base says something of any of these names."""
    return any(given(name, here) is not None for name, _ in (*settings.xla, *settings.env))


def refused(settings: Settings, here: Situation) -> str | None:
    """Why the release, or the base, does not take one of these; None where all are taken."""
    return next(_refusals(settings, here), None)


def _refusals(settings: Settings, here: Situation) -> Iterator[str]:
    for name, value in settings.xla:
        why = _flag_refusal(name, value, here)
        if why is not None:
            yield why
        elif name in dict(here.base.options) and not says(name, value, here):
            yield f"the base gives {name} as a compile option, which has the last word"
    for name, value in settings.env:
        known = variables().get(name)
        if known is None:
            continue
        if known.by_jaxlib and known.since and number(here.version) < number(known.since):
            yield f"{name} is read from jaxlib {known.since} on"
        elif not known.takes(value):
            yield f"{name} does not take {value}"


def _flag_refusal(name: str, value: str, here: Situation) -> str | None:
    version = here.release.version
    flag = here.release.flags.get(name)
    if flag is None or not flag.xla_flags:
        return f"jaxlib {version} does not know {name}"
    if flag.fatal:
        return f"{name} ends the process in jaxlib {version}"
    if flag.no_op:
        return f"{name} does nothing in jaxlib {version}"
    why = refusal(flag, value, Channel.XLA_FLAGS)
    return None if why is None else f"jaxlib {version} does not take {name}={value}"


def says_all(settings: Settings, here: Situation) -> bool:
    """Whether the base says all of these already, or the defaults do."""
    pairs = (*settings.xla, *settings.env)
    return bool(pairs) and all(says(name, value, here) for name, value in pairs)


def says(name: str, value: str, here: Situation) -> bool:
    """Whether that is the base's value, or the default where the base says nothing."""
    now = given(name, here)
    flag = here.release.flags.get(name) if name.startswith("xla") else None
    if flag is not None:
        return _flag_says(flag, flag.default if now is None else now, value)
    variable = variables().get(name)
    if now is None:
        now = here.release.jax.get(name)
    if now is None and variable is not None:
        return variable.is_default(value)
    if now is None:
        return False
    if variable is not None and variable.meaning(value) is not None:
        return variable.meaning(value) == variable.meaning(now)
    return now.casefold() == value.casefold()


def _flag_says(flag: Flag, now: str, value: str) -> bool:
    if flag.type in LISTS:
        merged = combine(flag.name, now, value)
        return _entries(merged) == _entries(now)
    return flag.meaning(value) is not None and flag.meaning(value) == flag.meaning(now)


def _entries(text: str) -> frozenset[str]:
    return frozenset(it.strip().upper() for it in text.split(",") if it.strip())
