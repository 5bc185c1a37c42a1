"""Types of options that take whole numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated

from cyclopts import Parameter, Token


def _whole(type_: object, tokens: Sequence[Token]) -> int:
    del type_
    text = tokens[0].value
    if not re.fullmatch(r"[+-]?[0-9]{1,18}", text.strip()):
        raise ValueError(f"expected a whole number, not {text!r}")
    return int(text)


WholeNumber = Annotated[int, Parameter(converter=_whole, n_tokens=1)]
MaybeWholeNumber = Annotated[int | None, Parameter(converter=_whole, n_tokens=1)]
