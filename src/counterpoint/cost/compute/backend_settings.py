"""The backend's settings of an instruction, parsed once: JSON, or the attributes of an FFI call."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Any, Final, cast

from counterpoint.hlo.model.instruction import Instruction

_ATTRIBUTE: Final = re.compile(
    r'\b(\w++)\s*+=\s*+("[^"]*"|-?\d{1,18}(?:\.\d+)?(?:e[-+]?\d+)?\b|true|false)'
)


def settings_of(instruction: Instruction) -> dict[str, Any]:
    """Return settings by name; empty if unreadable. Do not modify: the result is shared."""
    return _parsed(instruction.backend_config)


@lru_cache(maxsize=4096)
def _parsed(text: str) -> dict[str, Any]:
    if not text:
        return {}
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError):
        return _attributes(text)
    if not isinstance(value, dict):
        return {}
    config = cast(dict[str, Any], value)
    inner = config.get("custom_call_backend_config")
    if isinstance(inner, dict):
        settings: Any = cast(dict[str, Any], inner)
        return config | _attributes(str(settings.get("attributes") or settings.get("opaque") or ""))
    return config


def _attributes(text: str) -> dict[str, Any]:
    """Parse `{head_dim = 128 : i64, causal = true}`, the form in FFI calls."""
    read: dict[str, Any] = {}
    for name, value in _ATTRIBUTE.findall(text):
        read[name] = _value(value)
    return read


def _value(text: str) -> str | int | float | bool:
    if text in ("true", "false"):
        return text == "true"
    if text.startswith('"'):
        return text[1:-1]
    return float(text) if any(mark in text for mark in ".e") else int(text)
