"""Placeholder: a value that stands for another one, which a reader or a template is to put in.

`.XX`, `<share>`, `{{ .Values.x }}`, `${{ inputs.x }}`, `%(share)s`, `...`
"""

from __future__ import annotations

import re
from typing import Final

_TEMPLATE: Final = re.compile(
    r"\$\{?\{|\{\{|\$\(|\$\{?[A-Za-z_]\w*|\{[A-Za-z_][\w.]*\}|%\(\w+\)s|%[A-Za-z_]\w*%|@\w+@"
)
_WORD: Final = re.compile(
    r"<[^<>]*>|\[[^\[\]]*\]|0?\.?[XxNn?_]{2,}|[X?]|\.{3}|\N{HORIZONTAL ELLIPSIS}"
)


def stands_for_another(value: str) -> bool:
    """Whether a value is to be replaced before anybody reads it."""
    return bool(_TEMPLATE.search(value) or _WORD.fullmatch(value.strip()))
