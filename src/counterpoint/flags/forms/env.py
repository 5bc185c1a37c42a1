"""Lines of an env file: `NAME=value` to the letter, without quotes, as docker reads them."""

from __future__ import annotations

from counterpoint.core.errors import UsageError
from counterpoint.flags.forms.lines import remarks, variables
from counterpoint.flags.settings import Settings


def render_env(settings: Settings) -> str:
    """One line for each variable."""
    lines = [f"# {remark}" for remark in remarks(settings)]
    lines += [f"{name}={_value(name, ' '.join(parts))}" for name, parts in variables(settings)]
    return "\n".join([*lines, ""])


def _value(name: str, value: str) -> str:
    quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
    if quoted or any(end in value for end in "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029\0"):
        raise UsageError(
            f"{name}: this value can't be written into an env file: {value!r}",
            why="a value is a line there, and quotes are characters of it to some readers",
            next="--as bash",
        )
    return value
