"""Settings and the base: what is in effect already, what is refused, and how values are adapted.

Of each name three values count: what the base (or the environment that it inherits) gives, else the
default of the release, else none.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterpoint.flags.catalogue.flag import Flag
from counterpoint.flags.catalogue.variable import variables
from counterpoint.flags.settings import LIST_TYPES, Channel, Settings, combine
from counterpoint.flags.values import refusal
from counterpoint.flags.versions import version_number
from counterpoint.tune.space.context import SpaceContext

_MODE_OF_SWITCH: Final = {True: "ON", False: "DEFAULT"}
"""The value that an old switch sets in the mode that replaced it."""
OLD_NAMES: Final = {"XLA_CLIENT_MEM_FRACTION": "XLA_PYTHON_CLIENT_MEM_FRACTION"}
"""Two names of one variable, which JAX rejects together."""


def adapted(settings: Settings, here: SpaceContext) -> Settings:
    """Adapt settings: fill in numbers, apply changes to lists, and use the base's own names."""
    xla = tuple((name, _adapted_value(name, value, here)) for name, value in settings.xla)
    names = {new: old for new, old in OLD_NAMES.items() if old in here.variables}
    names |= {old: new for new, old in OLD_NAMES.items() if new in here.variables}
    env = tuple((names.get(name, name), value) for name, value in settings.env)
    return Settings(xla, env, settings.options, settings.layout)


def _adapted_value(name: str, value: str, here: SpaceContext) -> str:
    if "{gpus_per_host}" in value and here.gpus_per_host is not None:
        value = value.replace("{gpus_per_host}", str(here.gpus_per_host))
    flag = here.release.flags.get(name)
    if flag is not None and flag.type == "enums" and value[:1] in ("+", "-"):
        return combine(name, base_value(name, here) or flag.default, value)
    return value


def base_value(name: str, here: SpaceContext) -> str | None:
    """Return the base's value of a flag or variable, under any alias; None if it has none."""
    if not name.startswith("xla"):
        return here.variables.get(name)
    flags = here.before.flags
    found = flags.get(name)
    for flag, value in flags.items():
        alias = here.release.flags.get(flag)
        if alias is not None and alias.alias_of == name:
            meant = alias.meaning(value)
            found = _MODE_OF_SWITCH[meant] if isinstance(meant, bool) else found
    return dict(here.base.options).get(name, found)


def base_sets_any(settings: Settings, here: SpaceContext) -> bool:
    """Return True if the base sets any of these names."""
    return any(base_value(name, here) is not None for name, _ in (*settings.xla, *settings.env))


def why_refused(settings: Settings, here: SpaceContext) -> str | None:
    """Return why the release, or the base, rejects one of these; None if all are accepted."""
    return next(_refusals(settings, here), None)


def _refusals(settings: Settings, here: SpaceContext) -> Iterator[str]:
    for name, value in settings.xla:
        why = _flag_refusal(name, value, here)
        if why is not None:
            yield why
        elif name in dict(here.base.options) and not is_in_effect(name, value, here):
            yield f"the base gives {name} as a compile option, which takes precedence"
    for name, value in settings.env:
        known = variables().get(name)
        if known is None:
            continue
        if (
            known.by_jaxlib
            and known.since
            and version_number(here.version) < version_number(known.since)
        ):
            yield f"{name} requires jaxlib {known.since} or later"
        elif not known.takes(value):
            yield f"{name} does not accept {value}"


def _flag_refusal(name: str, value: str, here: SpaceContext) -> str | None:
    version = here.release.version
    flag = here.release.flags.get(name)
    if flag is None or not flag.xla_flags:
        return f"jaxlib {version} does not know {name}"
    if flag.fatal:
        return f"{name} aborts the process in jaxlib {version}"
    if flag.no_op:
        return f"{name} does nothing in jaxlib {version}"
    why = refusal(flag, value, Channel.XLA_FLAGS)
    return None if why is None else f"jaxlib {version} does not accept {name}={value}"


def are_in_effect(settings: Settings, here: SpaceContext) -> bool:
    """Return True if the base or the defaults have all of these values already."""
    pairs = (*settings.xla, *settings.env)
    return bool(pairs) and all(is_in_effect(name, value, here) for name, value in pairs)


def is_in_effect(name: str, value: str, here: SpaceContext) -> bool:
    """Return True if the value is in effect already.

    That is the value of the base or of the inherited environment, else the release's default. If
    none of them is known, no value is in effect.
    """
    now = base_value(name, here)
    flag = here.release.flags.get(name) if name.startswith("xla") else None
    if flag is not None:
        return _flag_is_in_effect(flag, flag.default if now is None else now, value)
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


def _flag_is_in_effect(flag: Flag, now: str, value: str) -> bool:
    if flag.type in LIST_TYPES:
        merged = combine(flag.name, now, value)
        return _entries(merged) == _entries(now)
    return flag.meaning(value) is not None and flag.meaning(value) == flag.meaning(now)


def _entries(text: str) -> frozenset[str]:
    return frozenset(entry.strip().upper() for entry in text.split(",") if entry.strip())
