"""The dict that jax.jit and compile take as `compiler_options`, for one release of jaxlib.

Values have another syntax there than in XLA_FLAGS: bools are True, enum names are written in full,
lists replace the default and know no `+NAME`. What only the process as a whole can be told is left
out with its reason.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from counterpoint.flags import repeats
from counterpoint.flags.catalogue import Flag, Release
from counterpoint.flags.catalogue.about import about
from counterpoint.flags.channel import Channel
from counterpoint.flags.forms.lines import double_quoted, one_line, said_of
from counterpoint.flags.lint.spelling import as_option, refusal
from counterpoint.flags.lint.succession import successors
from counterpoint.flags.settings import Settings

Option = bool | int | float | str


@dataclass(frozen=True, slots=True)
class Options:
    """Options with values as Python has them, and what is left out, each with its reason."""

    taken: dict[str, Option]
    left_out: tuple[tuple[str, str], ...]


def compiler_options(settings: Settings, release: Release) -> Options:
    """What one compile can be told of these settings."""
    taken: dict[str, Option] = {}
    left_out: list[tuple[str, str]] = []
    for name, value in settings.flags.items():
        reason = _why_not(name, release)
        if reason is None:
            taken[name] = _option(release.flags[name], _whole(release.flags[name], value))
        elif heirs := _heirs(name, value, release):
            taken |= heirs
        else:
            left_out.append((f"{name}={value}", reason))
    for name, value in settings.options:
        flag = release.flags.get(name)
        taken[name] = _option(flag, value) if flag else _bare(value)
    left_out += [
        (f"{name}={value}", "a variable of the process: set it before the program starts")
        for name, value in settings.variables.items()
    ]
    return Options(taken, tuple(left_out))


def render_compiler_options(settings: Settings, release: Release) -> str:
    """The dict as a statement, with what is left out in comments."""
    found = compiler_options(settings, release)
    known = "" if release.exact else f" (by what is known of {release.version})"
    call = "jax.jit(step, compiler_options=compiler_options)"
    lines = [f"# For jaxlib {release.asked}{known}: {call}"]
    if settings.layout and (said := said_of(settings.layout)):
        lines.append(f"# Meant for {said}.")
    lines += _dict(found.taken)
    if found.left_out:
        lines.append("# Left out:")
        lines += [f"#   {one_line(what)}: {why}" for what, why in found.left_out]
    return "\n".join([*lines, ""])


def _dict(taken: dict[str, Option]) -> Iterator[str]:
    if not taken:
        yield "compiler_options = {}"
        return
    yield "compiler_options = {"
    for name, value in taken.items():
        text = double_quoted(value) if isinstance(value, str) else repr(value)
        yield f"    {double_quoted(name)}: {text},"
    yield "}"


def _why_not(name: str, release: Release) -> str | None:
    """Why a compile can't be told, or None."""
    flag = release.flags.get(name)
    if flag is None:
        return f"jaxlib {release.version} does not know it"
    if flag.no_op:
        return f"it does nothing in jaxlib {release.version}"
    if not flag.compile_option:
        return "only XLA_FLAGS takes it"
    known = about(name)
    if known and known.process_only:
        return "XLA reads it once per process: give it in XLA_FLAGS"
    return None


def _heirs(name: str, value: str, release: Release) -> dict[str, Option]:
    """What a compile is told instead of an alias that only XLA_FLAGS has."""
    heirs = successors(name, value)
    if not heirs or any(_why_not(heir, release) for heir, _ in heirs):
        return {}
    return {heir: _option(release.flags[heir], text) for heir, text in heirs}


def _whole(flag: Flag, value: str) -> str:
    """A list of changes as the list that comes of it: options know no `+NAME`."""
    if flag.type != "enums" or value[:1] not in ("+", "-"):
        return value
    return repeats.combine(flag.name, flag.default, value)


def _option(flag: Flag | None, value: str) -> Option:
    if flag is None or refusal(flag, value, Channel.COMPILER_OPTIONS) is not None:
        spelt = as_option(flag, value) if flag else value
    else:
        spelt = value
    return _typed(flag.type if flag else "", spelt)


def _typed(kind: str, value: str) -> Option:
    """A value as Python has it, where JAX passes that on; a float that is not positive as text."""
    if kind == "bool" and value in ("True", "False"):
        return value == "True"
    if kind in ("int32", "int64"):
        try:
            return int(value)
        except ValueError:
            return value
    if kind == "float":
        try:
            number = float(value)
        except ValueError:
            return value
        return number if number > 0 and math.isfinite(number) else value
    return value


def _bare(value: str) -> Option:
    """An option that is no flag: `optimization_level` must be a number."""
    if value in ("True", "False"):
        return value == "True"
    try:
        return int(value)
    except ValueError:
        return value
