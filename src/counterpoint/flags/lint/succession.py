"""Succession: what to write today instead of a flag that is gone, value by value (succession.tsv).

`gone` and `about` say it in words; this is for programs that mend a line.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

from counterpoint.flags.xla_flags import Pairs

_FILE: Final = Path(__file__).with_name("succession.tsv")
_TRUTH: Final = {"1": "true", "0": "false"}


def successors(name: str, value: str) -> Pairs:
    """The flags that do it now, in the spelling of XLA_FLAGS; none where nothing is known."""
    rows = _rows().get(name, {})
    spelt = value.lower()
    heirs = next((rows[key] for key in (spelt, _TRUTH.get(spelt, spelt), "*") if key in rows), None)
    if heirs is None:
        return ()
    return tuple((heir, text.replace("{value}", value)) for heir, text in heirs)


def is_default_now(name: str, value: str) -> bool:
    """Whether what a flag asked for is the default now: it can be dropped without a loss."""
    rows = _rows().get(name, {})
    spelt = value.lower()
    return rows.get(_TRUTH.get(spelt, spelt)) == ()


@cache
def _rows() -> Mapping[str, Mapping[str, Pairs]]:
    text = _FILE.read_text("utf-8")
    found: dict[str, dict[str, Pairs]] = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            name, value, heirs = line.split("\t")
            found.setdefault(name, {})[value] = tuple(_pair(heir) for heir in heirs.split())
    return found


def _pair(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    return name, value
