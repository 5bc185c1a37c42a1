"""Labels: the name of an arm as the tables show it, parsed back into what it sets.

A label names choices of dimensions, flags and variables:
`all-gather threshold 512 MiB + overlap limit 2 + NCCL_BUFFSIZE 1048576`.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from counterpoint.core import UsageError
from counterpoint.flags.lines.known import OWN_PREFIX, is_flag, is_variable
from counterpoint.flags.lines.source import load_settings
from counterpoint.flags.recipe import recipes
from counterpoint.flags.settings import Settings
from counterpoint.tune.arm import Per
from counterpoint.tune.space.context import SpaceContext
from counterpoint.tune.space.current_settings import adapted
from counterpoint.tune.space.dimensions import Draft, Pick
from counterpoint.tune.space.recipe_arms import RECOMMENDED, recommended
from counterpoint.tune.space.thresholds import threshold_bytes
from counterpoint.tune.space.values import ValuePlace

_SHORTENED: Final = "\N{HORIZONTAL ELLIPSIS}"
_VALUES: Final = {"on": "true", "off": "false", "empty": ""}


@dataclass(frozen=True, slots=True)
class LabelSettings:
    """The settings, profile and process layout that a label stands for."""

    settings: Settings = field(default_factory=Settings)
    profile: bool = False
    per: Per | None = None


def is_label(text: str, drafts: Mapping[str, Draft]) -> bool:
    """Return True if the text names choices of dimensions, and nothing unknown."""
    if _SHORTENED in text:
        return True
    parts = text.split(" + ")
    known = [_dimension(part, drafts) is not None or part == RECOMMENDED for part in parts]
    return any(known) and all(
        is_known or part in recipes() or _is_setting(part)
        for is_known, part in zip(known, parts, strict=True)
    )


def read_label(text: str, drafts: Mapping[str, Draft], here: SpaceContext) -> LabelSettings:
    """Resolve a label here; raise a UsageError for a choice that is not available."""
    if _SHORTENED in text:
        raise UsageError(
            f"--arm {text}: this is a shortened name of an arm",
            why="it does not contain all settings of the arm",
            next=f"counterpoint tune show STUDY --arm {shlex.quote(text)} -o arm.env",
        )
    found = LabelSettings()
    for part in text.split(" + "):
        labeled = _part(part, drafts, here)
        settings = found.settings.merged(labeled.settings)
        found = LabelSettings(settings, found.profile or labeled.profile, labeled.per or found.per)
    return found


def _part(part: str, drafts: Mapping[str, Draft], here: SpaceContext) -> LabelSettings:
    if part == RECOMMENDED:
        return LabelSettings(recommended(here))
    if part in recipes():
        return LabelSettings(load_settings(part, version=here.version, chip=here.chip))
    draft = _dimension(part, drafts)
    if draft is None:
        return LabelSettings(_setting(part))
    choice = part.removeprefix(draft.name).strip() or "on"
    picks = draft.choices.get(choice, ())
    pick = next((candidate for candidate in picks if here.unmet(candidate.condition) is None), None)
    if pick is not None:
        return LabelSettings(adapted(pick.settings, here), pick.profile, pick.per)
    return LabelSettings(_value(draft, choice, here))


def _value(draft: Draft, choice: str, here: SpaceContext) -> Settings:
    """Parse a value that the dimension does not offer, allowed if it sets only one name."""
    picks: list[Pick] = [pick for variants in draft.choices.values() for pick in variants]
    names = {(way, name) for pick in picks for way, name, _ in _pairs(pick.settings)}
    if len(names) != 1 or choice in draft.choices:
        choices = ", ".join(draft.choices)
        raise ValuePlace("--arm", typed=True).wrong(
            f"{draft.name} has no choice {choice} here", why=f"its choices are {choices}"
        )
    ((way, name),) = names
    size = threshold_bytes(choice) if draft.combine else None
    value = str(size) if size is not None else _VALUES.get(choice, choice)
    pair = ((name, value),)
    return adapted(Settings(pair) if way == "xla" else Settings(env=pair), here)


def _pairs(settings: Settings) -> list[tuple[str, str, str]]:
    found = [("xla", *pair) for pair in settings.xla]
    return found + [("env", *pair) for pair in settings.env]


def _dimension(part: str, drafts: Mapping[str, Draft]) -> Draft | None:
    """Return the dimension with the longest name that the part begins with."""
    names = [name for name in drafts if part == name or part.startswith(f"{name} ")]
    return drafts[max(names, key=len)] if names else None


def _is_setting(part: str) -> bool:
    name, _, value = part.partition(" ")
    is_set = bool(value) and (name.startswith(OWN_PREFIX) or is_variable(name))
    return is_set or name.startswith("xla_")  # a change that turns a flag on is its name alone


def _setting(part: str) -> Settings:
    """Parse a flag or variable that belongs to no dimension."""
    name, _, value = part.partition(" ")
    pair = ((name.removeprefix(OWN_PREFIX), _VALUES.get(value or "on", value)),)
    return Settings(pair) if is_flag(name) else Settings(env=pair)
