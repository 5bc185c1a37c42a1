"""Mentions: settings that a text names although a reader found none in it.

Not being found is no sign of a clean source: the text may be of a kind that the reader does not
know, such as another shell or a template.
"""

from __future__ import annotations

import re
from typing import Final

_COMMENT: Final = re.compile(r"^[ \t]*(?:#|//|;|--\s).*$", re.MULTILINE)
_NAMED: Final = re.compile(
    r"--(xla_\w+)"
    r"|\b(xla_(?:gpu|cpu|tpu)_\w+)[\"']?\s*[:=](?!=)"
    r"|\b([A-Z]+_[A-Z0-9_]+)[\"']?\s*(?:[:=](?!=)|\s[-\w'\"])"
)
_IN_PROSE: Final = re.compile(r"""["'](xla_\w+|[A-Z]+_[A-Z0-9_]+)["']\s*:""")
_SHOWN: Final = 3


def mentions(text: str, *, prose: bool = False) -> tuple[str, ...]:
    """One sentence on the names in a text, outside of comments; none where there is no name.

    In `prose` flags are spoken of: there it takes a key with a value, as JSON has it.
    """
    bare = _COMMENT.sub("", text)
    pattern = _IN_PROSE if prose else _NAMED
    found = (next(filter(None, match.groups())) for match in pattern.finditer(bare))
    names = [name for name in dict.fromkeys(found) if _sets_something(name)]
    if not names:
        return ()
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return (f"{', '.join(names[:_SHOWN])}{more}: named, and set in no way that is known here",)


def _sets_something(name: str) -> bool:
    from counterpoint.flags.catalogue.variable import variables  # seldom needed

    return name.startswith("xla_") or name == "XLA_FLAGS" or name in variables()
