"""Python: `os.environ` before JAX is imported, which reads its own variables then."""

from __future__ import annotations

from collections.abc import Iterator

from counterpoint.flags.forms.lines import FLAGS, TPU, double_quoted, remarks, variables
from counterpoint.flags.settings import Settings


def render_python(settings: Settings) -> str:
    """Statements for the top of a program."""
    lines = [f"# {remark}" for remark in remarks(settings)]
    lines += ["# Before `import jax`.", "import os", "", *_statements(settings)]
    return "\n".join([*lines, ""])


def _statements(settings: Settings) -> Iterator[str]:
    for name, parts in variables(settings):
        if name in (FLAGS, TPU) and len(parts) > 1:
            yield f'os.environ["{name}"] = ('
            spaced = [*(f"{part} " for part in parts[:-1]), parts[-1]]
            yield from (f"    {double_quoted(part)}" for part in spaced)
            yield ")"
        else:
            yield f'os.environ["{name}"] = {double_quoted(" ".join(parts))}'
