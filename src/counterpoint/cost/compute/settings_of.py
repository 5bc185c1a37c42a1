"""What the backend says of an instruction, parsed once: JSON, or the attributes of an FFI call."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Any, Final, cast

from counterpoint.hlo import Instruction

_ATTRIBUTE: Final = re.compile(r'(\w+)\s*=\s*("[^"]*"|-?\d+(?:\.\d+)?(?:e[-+]?\d+)?|true|false)')


def settings_of(instruction: Instruction) -> dict[str, Any]:
    """By name; empty where nothing can be read. Not to be changed: all who ask share it."""
    return _parsed(instruction.backend_config)


@lru_cache(maxsize=4096)
def _parsed(text: str) -> dict[str, Any]:
    if not text:
        return {}
    try:
        found: Any = json.loads(text)
    except (ValueError, RecursionError):
        return _attributes(text)
    if not isinstance(found, dict):
        return {}
    config = cast(dict[str, Any], found)
    inner = config.get("custom_call_backend_config")
    if isinstance(inner, dict):
        said: Any = cast(dict[str, Any], inner)
        return config | _attributes(str(said.get("attributes") or said.get("opaque") or ""))
    return config


def _attributes(text: str) -> dict[str, Any]:
    """`{head_dim = 128 : i64, causal = true}`, as FFI calls have it."""
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
