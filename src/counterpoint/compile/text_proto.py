"""Protocol buffers as text: fields that another XLA does not know are cut out."""

from __future__ import annotations

import re


def without_field(text: str, name: str) -> str:
    """Return the text without any field of that name, simple or a block."""
    field = re.compile(rf"\s*{re.escape(name)}\s*(?P<block>:?\s*\{{)?")
    kept: list[str] = []
    depth = 0  # nesting depth inside a removed block
    for line in text.splitlines(keepends=True):
        if depth:
            depth += line.count("{") - line.count("}")
            continue
        match = field.match(line)
        if match is None or line[match.end() :][:1] not in ("", ":", " ", "\n"):
            kept.append(line)
        elif match["block"]:
            depth = line.count("{") - line.count("}")
    return "".join(kept)
