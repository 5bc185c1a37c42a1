"""The environment a run gets: what it inherits, and its Settings behind it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from counterpoint.flags.settings import Settings
from counterpoint.flags.xla_flags import (
    SPACE,
    expand_xla_flags,
    parse_xla_flags,
    render_xla_flags,
)


def environment(
    settings: Settings, inherited: Mapping[str, str], *, directory: Path | None = None
) -> dict[str, str]:
    """The child's whole environment.

    Its XLA_FLAGS are the inherited ones, to the letter, and ours behind them. Where they name a
    file (relative to `directory`), the file's content takes its place, since XLA reads one of
    both only.
    """
    child = {**inherited, **settings.variables}
    text = expand_xla_flags(inherited.get("XLA_FLAGS", ""), directory=directory)
    parse_xla_flags(text)  # what XLA stops at would hide ours in silence
    whole = " ".join(part for part in (text.strip(SPACE), render_xla_flags(settings.xla)) if part)
    child.pop("XLA_FLAGS", None)
    if whole:
        child["XLA_FLAGS"] = whole
    return child


def inherited_settings(inherited: Mapping[str, str], *, directory: Path | None = None) -> Settings:
    """The flags that an environment already brings, as Settings; its variables are not ours."""
    text = expand_xla_flags(inherited.get("XLA_FLAGS", ""), directory=directory)
    return Settings(parse_xla_flags(text))
