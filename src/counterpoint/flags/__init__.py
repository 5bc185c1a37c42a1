"""Settings: flags and environment of a run, where they come from, and what XLA makes of them."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from counterpoint.flags.advice.recipe import Recipe as Recipe
    from counterpoint.flags.advice.recipe import recipes as recipes
    from counterpoint.flags.gone import Gone as Gone
    from counterpoint.flags.gone import gone as gone
    from counterpoint.flags.line import parse_settings as parse_settings
    from counterpoint.flags.live.probe import Answer as Answer
    from counterpoint.flags.live.probe import Rejected as Rejected
    from counterpoint.flags.live.probe import ask as ask
    from counterpoint.flags.live.probe import probe as probe
    from counterpoint.flags.live.probe import rejection as rejection
    from counterpoint.flags.settings import Settings as Settings
    from counterpoint.flags.settings import environment as environment
    from counterpoint.flags.settings import inherited_settings as inherited_settings
    from counterpoint.flags.source import load_settings as load_settings
    from counterpoint.flags.xla_flags import parse_xla_flags as parse_xla_flags
    from counterpoint.flags.xla_flags import render_xla_flags as render_xla_flags

_HOMES = {
    "Answer": "counterpoint.flags.live.probe",
    "Gone": "counterpoint.flags.gone",
    "Recipe": "counterpoint.flags.advice.recipe",
    "Rejected": "counterpoint.flags.live.probe",
    "Settings": "counterpoint.flags.settings",
    "ask": "counterpoint.flags.live.probe",
    "environment": "counterpoint.flags.settings",
    "gone": "counterpoint.flags.gone",
    "inherited_settings": "counterpoint.flags.settings",
    "load_settings": "counterpoint.flags.source",
    "parse_settings": "counterpoint.flags.line",
    "parse_xla_flags": "counterpoint.flags.xla_flags",
    "probe": "counterpoint.flags.live.probe",
    "recipes": "counterpoint.flags.advice.recipe",
    "rejection": "counterpoint.flags.live.probe",
    "render_xla_flags": "counterpoint.flags.xla_flags",
}
"""Where the names live: loaded when they are first used, for `flags check` can do without most."""


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value
