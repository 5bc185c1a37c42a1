"""Leave a field out of a protobuf in text form, written one field to a line as XLA writes it."""

from __future__ import annotations

import re


def without_field(text: str, name: str) -> str:
    """The text without any field of that name, simple or a block."""
    field = re.compile(rf"\s*{re.escape(name)}\s*(?P<block>:?\s*\{{)?")
    kept: list[str] = []
    depth = 0  # within a block that is left out
    for line in text.splitlines(keepends=True):
        if depth:
            depth += line.count("{") - line.count("}")
            continue
        found = field.match(line)
        if found is None or line[found.end() :][:1] not in ("", ":", " ", "\n"):
            kept.append(line)
        elif found["block"]:
            depth = line.count("{") - line.count("}")
    return "".join(kept)
