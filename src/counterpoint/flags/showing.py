"""Showing: the description of one setting, of any kind, for one release.

    what was typed ── read ──► name, value ── show ──► Shown

The name may be written as in XLA_FLAGS (`--xla_gpu_...`), with dashes for underscores, as a JAX
option in lower case, or with a value (which is then checked); NCCL's in any case.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import Final

from counterpoint.core import UsageError
from counterpoint.core.rules import DocumentedRule, page_text
from counterpoint.flags.catalogue.about import (
    ReadingProgram,
    SettingDocumentation,
    all_documentation,
    documentation_of,
    pages,
)
from counterpoint.flags.catalogue.flag import Flag, Release
from counterpoint.flags.catalogue.libtpu import (
    libtpu_flag,
    libtpu_of,
    libtpu_setting,
    similar_libtpu_flags,
)
from counterpoint.flags.catalogue.variable import (
    DocumentedSetting,
    arguments,
    nccl_names,
    variables,
)
from counterpoint.flags.history import FlagState, History, default_of, history, is_default, state_of
from counterpoint.flags.lifecycle import FlagRemoval, all_removals, is_default_now, successors
from counterpoint.flags.recipe import recipes
from counterpoint.flags.rules import RULES
from counterpoint.flags.settings import Channel
from counterpoint.flags.text import LIBTPU, Pairs
from counterpoint.flags.values import as_option, refusal
from counterpoint.flags.versions import chip_family

__all__ = ["ChannelVerdict", "SettingDescription", "show"]

_NEAR: Final = 0.75
_LONGEST: Final = 120
_ABSENT: Final = (FlagState.GONE, FlagState.NEWER, FlagState.UNREAD)
_TYPES: Final = {"bool": "bool", "int64": "int", "int32": "int", "float": "float"}
_CHANNELS: Final = {
    "XLA_FLAGS": "XLA reads it once per process, when JAX first needs it: flags as --name=value"
    " separated by spaces; XLA aborts on an unknown name or value",
    "LIBTPU_INIT_ARGS": "libtpu, the compiler and driver of TPUs, reads it as it starts: flags as"
    " --name=value separated by spaces; XLA_FLAGS accepts none of them",
    "TF_XLA_FLAGS": "TensorFlow reads it: flags as --name=value; JAX and its XLA ignore it",
    "COMPILER_OPTIONS": "the dict that jax.jit and compile accept, for one program:"
    " jax.jit(step, compiler_options={name: value})",
}
"""The containers of settings, and who reads them."""
_PREFIXES: Final = ("--xla-", "--xla_")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelVerdict:
    """A channel's verdict on a value.

    If it refuses the value, `takes` says what it would accept, and `meant` is the same value as
    spelled there, if that is clear. `ends`: the process, or the compile, fails. `instead`: the
    settings to write if the name is unknown or removed.
    """

    channel: Channel | None  # None: it is not a flag
    taken: bool
    takes: str = ""
    meant: str | None = None
    is_default: bool = False
    ends: bool = False
    instead: Pairs = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingDescription:
    """One setting. `flag` is None if the release has none of that name.

    `recipes`: name and value, or why the recipe leaves it out; `rules`: code and title; `pages`:
    title and the values that the page gives.
    """

    name: str
    value: str | None
    release: Release
    chip: str | None
    state: FlagState
    default: str | None
    about: SettingDocumentation | None
    flag: Flag | None
    variable: DocumentedSetting | None
    history: History | None
    gone: FlagRemoval | None
    verdicts: tuple[ChannelVerdict, ...]
    recipes: tuple[tuple[str, str], ...]
    rules: tuple[tuple[str, str], ...]
    pages: tuple[tuple[str, tuple[str, ...]], ...]

    @property
    def reader(self) -> ReadingProgram:
        """The program that reads it."""
        if self.about is not None:
            return self.about.kind
        return ReadingProgram.XLA if self.variable is None else self.variable.reader

    @property
    def use(self) -> tuple[str, ...]:
        """The recommended replacement or improvement."""
        if self.about is not None and self.about.use:
            return self.about.use
        return self.gone.use if self.gone else ()


def show(text: str, release: Release, chip: str | None = None) -> SettingDescription:
    """Describe what was typed; if unknown, raise an error that names similar settings."""
    if chip is not None and chip_family(chip) is None:
        raise UsageError(f"unknown chip {chip}", next="use --chip H100")
    typed, equals, value = text.partition("=")
    if typed.strip().upper() in _CHANNELS:
        raise _channel(typed.strip())
    name = _known_name(typed.strip(), release)
    if name is None:
        raise _unknown_name(typed.strip(), release)
    flag = release.flags.get(name)
    variable = (
        variables().get(name)
        or arguments().get(name)
        or (_undescribed(name, release) if flag is None else None)
    )
    return SettingDescription(
        name=name,
        value=value if equals else None,
        release=release,
        chip=chip,
        state=state_of(name, release),
        default=default_of(name, release),
        about=documentation_of(name),
        flag=flag,
        variable=variable,
        history=history(name),
        gone=all_removals().get(name),
        verdicts=_verdicts(name, value, release, flag, variable) if equals else (),
        recipes=related_recipes(name),
        rules=tuple((rule.CODE, _title(rule)) for rule in RULES if _speaks_of(rule, name)),
        pages=tuple(
            (page.title, advice.values)
            for page in pages()
            for advice in page.settings
            if advice.name == name
        ),
    )


def related_recipes(name: str) -> tuple[tuple[str, str], ...]:
    """Return recipes that set it, with their values, and those that leave it out, with reasons."""
    related: list[tuple[str, str]] = []
    for recipe in recipes().values():
        lines = (*recipe.lines, *recipe.arguments, *recipe.kernel)
        values = dict.fromkeys(line.value for line in lines if line.name == name)
        why = dict(recipe.left_out).get(name)
        if values:
            related.append((recipe.name, " or ".join(f"{name}={value}" for value in values)))
        elif why is not None:
            related.append((recipe.name, f"left out: {why}"))
    return tuple(related)


def _known_name(typed: str, release: Release) -> str | None:
    """Return the name in its known spelling, or None."""
    bare = typed.lstrip("-")
    tried = (bare, bare.lower().replace("-", "_"), bare.upper().replace("-", "_"), typed)
    return next((name for name in tried if name and _exists(name, release)), None)


def _exists(name: str, release: Release) -> bool:
    if name in release.flags or name in release.jax or name in all_removals():
        return True
    if name in variables() or name in arguments() or name in nccl_names():
        return True
    if libtpu_flag(name) is not None:
        return True
    return history(name) is not None or documentation_of(name) is not None


def _undescribed(name: str, release: Release) -> DocumentedSetting | None:
    """Return a variable without a description: JAX's from the release; for NCCL only the name."""
    libtpu = libtpu_setting(name)
    if libtpu is not None:
        return libtpu
    option = release.jax_options.get(name)
    if option is not None:
        kind = _TYPES.get(option.type, "string")
        return DocumentedSetting(
            name=name, reader=ReadingProgram.JAX, type=kind, default=option.default or None
        )
    return (
        DocumentedSetting(name=name, reader=ReadingProgram.NCCL, type="")
        if name in nccl_names()
        else None
    )


def _verdicts(
    name: str, value: str, release: Release, flag: Flag | None, variable: DocumentedSetting | None
) -> tuple[ChannelVerdict, ...]:
    if flag is not None:
        ways = {Channel.XLA_FLAGS: flag.xla_flags, Channel.COMPILER_OPTIONS: flag.compile_option}
        return tuple(_judged(flag, value, way, release) for way, open_ in ways.items() if open_)
    if variable is None:
        return _verdicts_unknown(name, value, release)
    if state_of(name, release) in _ABSENT:
        return (ChannelVerdict(channel=None, taken=False),)
    if not variable.type:
        same = value == variable.default
        return (ChannelVerdict(channel=None, taken=True, is_default=True),) if same else ()
    taken = variable.takes(value)
    takes = "" if taken else ", ".join(variable.values) or variable.type
    default = taken and variable.is_default(value)
    return (ChannelVerdict(channel=None, taken=taken, takes=takes, is_default=default),)


def _verdicts_unknown(name: str, value: str, release: Release) -> tuple[ChannelVerdict, ...]:
    """Check a value of a name that the release lacks; its effect may be the default by now."""
    description = documentation_of(name)
    xla = (
        description.kind is ReadingProgram.XLA
        if description is not None
        else name.startswith("xla_")
    )
    heirs = tuple(heir for heir in successors(name, unquoted(value)) if heir[0] in release.flags)
    return (
        ChannelVerdict(
            channel=Channel.XLA_FLAGS if xla else None,
            taken=False,
            is_default=is_default_now(name, unquoted(value)),
            ends=xla,
            instead=heirs,
        ),
    )


def unquoted(value: str) -> str:
    """Remove the quotes around a value, as XLA's parser does."""
    if value[:1] in ("'", '"') and value[-1:] == value[:1] and len(value) > 1:
        return value[1:-1]
    return value


def _judged(flag: Flag, value: str, channel: Channel, release: Release) -> ChannelVerdict:
    bare = unquoted(value)
    text = bare if channel is Channel.XLA_FLAGS else value
    refused = refusal(flag, text, channel)
    if refused is None:
        default = is_default(flag.name, text, release)
        return ChannelVerdict(channel=channel, taken=True, is_default=default)
    elsewhere = channel is not Channel.XLA_FLAGS and refusal(flag, bare, Channel.XLA_FLAGS) is None
    meant = as_option(flag, bare) if elsewhere else None
    return ChannelVerdict(channel=channel, taken=False, takes=refused.takes, meant=meant, ends=True)


def _title(rule: DocumentedRule) -> str:
    return page_text(rule).partition("\n")[0]


def _speaks_of(rule: DocumentedRule, name: str) -> bool:
    words = page_text(rule).replace("`", " ").replace("=", " ").replace(",", " ").split()
    return any(word.lstrip("-").rstrip(".:;)") == name for word in words)


def _channel(typed: str) -> UsageError:
    return UsageError(
        f"{typed} is not a setting but contains settings",
        why=_CHANNELS[typed.upper()],
        next="counterpoint flags list",
    )


def _unknown_name(typed: str, release: Release) -> UsageError:
    near = _similar(typed.lstrip("-"), release) if len(typed) <= _LONGEST else []
    kind = "flag" if typed.startswith(_PREFIXES) else "setting"
    return UsageError(
        f"{_quoted(typed)}: unknown {kind}",
        why=f"similar names: {', '.join(near)}" if near else "no known name is similar",
        next=f"counterpoint flags show {near[0]}" if near else "counterpoint flags list",
    )


def _quoted(typed: str) -> str:
    """Return what was typed, fit for a terminal."""
    if not typed:
        return "an empty name"
    short = typed if len(typed) <= _LONGEST else f"{typed[:_LONGEST]}..."
    return short if short.isprintable() else repr(short)


def _similar(name: str, release: Release) -> list[str]:
    tried = name.lower().replace("-", "_")
    if tried.startswith(LIBTPU):
        return list(similar_libtpu_flags(tried, libtpu_of(release.asked), 3))
    known = {
        *(name for name, flag in release.flags.items() if flag.xla_flags),
        *release.jax,
        *all_removals(),
        *variables(),
        *arguments(),
        *nccl_names(),
        *all_documentation(),
    }
    by_lower = {name.lower(): name for name in sorted(known)}
    near = difflib.get_close_matches(tried, by_lower, n=3, cutoff=_NEAR)
    return [by_lower[lower] for lower in near]
