r"""Lines for a shell: `export NAME="value"`, each of XLA's flags on a line of its own.

They mean the same in a script and typed into an interactive bash, which replaces `!` even between
double quotes: there it stands as `$'\041'` outside of them, and so does what can't be printed.
"""

from __future__ import annotations

from collections.abc import Iterator

from counterpoint.flags.forms.lines import FLAGS, TPU, remarks, variables
from counterpoint.flags.settings import Settings

_NEXT_LINE = " \\\n"  # between double quotes, bash takes a backslash at the end of a line away
_SPECIAL = str.maketrans({character: "\\" + character for character in '\\"$`'})


def render_bash(settings: Settings) -> str:
    """Exports, to be run or sourced."""
    lines = [f"# {remark}" for remark in remarks(settings)]
    return "\n".join([*lines, *exports(settings), ""])


def exports(settings: Settings) -> Iterator[str]:
    """One export for each variable."""
    for name, parts in variables(settings):
        if name in (FLAGS, TPU) and len(parts) > 1:
            yield f'export {name}="{_NEXT_LINE.join(quoted(part) for part in parts)}"'
        else:
            yield f'export {name}="{quoted(" ".join(parts))}"'


def quoted(value: str) -> str:
    """A value as it stands between double quotes."""
    return "".join(map(_quoted, value))


def _quoted(character: str) -> str:
    if character != "!" and character.isprintable():
        return character.translate(_SPECIAL)
    octal = "".join(f"\\{byte:03o}" for byte in character.encode())
    return f"\"$'{octal}'\""
