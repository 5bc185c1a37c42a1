"""RecipeVerdict: the effect of each flag of a published recipe in one release of jaxlib."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from counterpoint.flags.catalogue.flag import Release
from counterpoint.flags.catalogue.lookup import release
from counterpoint.flags.check.examination import check
from counterpoint.flags.check.fix import fix
from counterpoint.flags.forms import SettingsForm, render
from counterpoint.flags.history import FlagState, default_of, is_default, state_of
from counterpoint.flags.lint import LintContext, Remark, Severity
from counterpoint.flags.parse.source import read_text
from counterpoint.flags.parsed import Occurrence, ParsedSource
from counterpoint.flags.settings import Channel
from counterpoint.flags.text import render_xla_flags
from counterpoint.flags.versions import LHS
from published_recipe import Published

_IDLE: Final = ("FLAG302", "FLAG303", "FLAG306")
_OF_ONE: Final = (
    "FLAG1",
    "FLAG301",
    "FLAG302",
    "FLAG303",
    "FLAG306",
    "FLAG501",
    "FLAG502",
    "FLAG503",
    "FLAG504",
)
"""Rules that judge one setting by itself."""
_OF_PAIRS: Final = ("FLAG405",)
"""Rules about two settings that make a compile fail together, even if a page lists them as
alternatives."""


class Effect(StrEnum):
    """The effect of a recipe's flag in one release."""

    WORKS = "works"
    UNKNOWN = "unknown"  # XLA aborts
    NO_OP = "no-op"  # accepted and ignored
    DEFAULT = "default"  # already the default
    IDLE = "no effect"  # on this chip, or without another flag
    UNASKED = "automatic"  # XLA does it by itself on this chip, for most programs
    RENAMED = "old name"  # it works, and has a new one
    NAMED = "-"  # there, and the page gives no value


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipeVerdict:
    """`effects` by flag, in the recipe's order, and the remarks of all rules."""

    version: str
    effects: dict[str, Effect]
    remarks: tuple[Remark, ...]

    def those(self, effect: Effect) -> tuple[str, ...]:
        """The flags of one effect."""
        return tuple(name for name, found in self.effects.items() if found is effect)


def judge_published(recipe: Published, version: str) -> RecipeVerdict:
    """Judge a recipe by one release, on the chip it is meant for."""
    known = release(version)
    remarks = _remarks(recipe, version)
    flags = recipe.written.through(Channel.XLA_FLAGS)
    effects = {one.name: _effect(one, known, remarks) for one in flags}
    effects |= {name: _named(name, known) for name in recipe.named if name not in effects}
    return RecipeVerdict(version=version, effects=effects, remarks=remarks)


def _remarks(recipe: Published, version: str) -> tuple[Remark, ...]:
    if recipe.together:
        return check(recipe.written, version=version, chip=recipe.chip)
    found = (check(one, version=version, chip=recipe.chip) for one in recipe.alone)
    alone = tuple(one for some in found for one in some if one.code.startswith(_OF_ONE))
    together = check(recipe.written, version=version, chip=recipe.chip)
    return (*alone, *(one for one in together if one.code in _OF_PAIRS))


def _named(name: str, known: Release) -> Effect:
    state = state_of(name, known)
    if state in (FlagState.TAKEN, FlagState.ALIAS):
        return Effect.NAMED
    return Effect.NO_OP if state is FlagState.NO_OP else Effect.UNKNOWN


def _effect(one: Occurrence, known: Release, remarks: Iterable[Remark]) -> Effect:
    state = state_of(one.name, known)
    if state is FlagState.NO_OP:
        return Effect.NO_OP
    if state not in (FlagState.TAKEN, FlagState.ALIAS):
        return Effect.UNKNOWN
    idle = [it for it in remarks if it.code in _IDLE and it.name == one.name]
    if any(it.severity is not Severity.NOTE for it in idle):
        return Effect.IDLE
    if one.name == LHS:
        default = one.meant == default_of(LHS, known)
        return Effect.UNASKED if idle and not default else Effect.WORKS
    if is_default(one.name, one.meant, known):
        return Effect.DEFAULT
    return Effect.RENAMED if state is FlagState.ALIAS else Effect.WORKS


def remains_of(recipe: Published, version: str) -> str | None:
    """The flags with their safe fixes, without those that the release rejects or does not read.

    None if the flags are alternatives.
    """
    if not recipe.together:
        return None
    known = release(version)

    def look(written: ParsedSource) -> tuple[Remark, ...]:
        return check(written, version=version, chip=recipe.chip)

    script = render(recipe.written.settings, SettingsForm.BASH, known)
    fixed = fix(script, lambda text: read_text(text, "recipe.sh"), look)
    idle = {
        it.name
        for it in look(fixed.written)
        if it.code in _IDLE and it.severity is Severity.WARNING
    }
    case = LintContext(written=fixed.written, release=known, chip=recipe.chip)
    kept = [one for one in case.xla if case.known(one) and one.name not in idle]
    settings = replace(fixed.written, given=tuple(kept)).settings
    return render_xla_flags(settings.flags.items())
