"""The `env:` list of a container, as Kubernetes takes it.

Kubernetes puts other variables in for `$(NAME)`, so a dollar before a bracket is doubled.
"""

from __future__ import annotations

from collections.abc import Iterator

from counterpoint.flags.forms.lines import FLAGS, TPU, double_quoted, remarks, variables
from counterpoint.flags.settings import Settings

_WORDS = ("y", "n", "yes", "no", "on", "off", "true", "false", "null")
"""What YAML takes for something else than a text."""


def render_k8s(settings: Settings) -> str:
    """The list, to be put under a container."""
    lines = [f"# {remark}" for remark in remarks(settings)]
    entries = [line for entry in variables(settings) for line in _entry(*entry)]
    return "\n".join([*lines, "env:" if entries else "env: []", *entries, ""])


def _entry(name: str, parts: tuple[str, ...]) -> Iterator[str]:
    parts = tuple(_without_references(part) for part in parts)
    yield f"- name: {double_quoted(name) if name.lower() in _WORDS else name}"
    plain = all(part.isprintable() and not part.endswith(" ") for part in parts)
    if name in (FLAGS, TPU) and len(parts) > 1 and plain:
        yield "  value: >-"
        yield from (f"    {part}" for part in parts)
    else:
        yield f"  value: {double_quoted(' '.join(parts))}"


def _without_references(text: str) -> str:
    """Each dollar doubled that Kubernetes would take for the start of something."""
    pairs = zip(text, text[1:] + " ", strict=False)
    return "".join(a * 2 if a == "$" and b in "$(" else a for a, b in pairs)
