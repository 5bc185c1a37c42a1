"""Numbers on the command line: how whole ones are written, and which ones make sense."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated

from cyclopts import Parameter, Token

from counterpoint.core import UsageError


def check_number(
    option: str, value: float | None, least: float, instead: float | None = None
) -> None:
    """Refuse a number below the least one that makes sense, or one that is not finite."""
    if value is not None and not least <= value < float("inf"):
        raise UsageError(
            f"{option} takes a number of at least {least:g}, not {value:g}",
            next=None if instead is None else f"{option} {instead:g}",
        )


def _whole(type_: object, tokens: Sequence[Token]) -> int:
    del type_
    text = tokens[0].value
    if not re.fullmatch(r"[+-]?[0-9]{1,18}", text.strip()):
        raise ValueError(f"expected a whole number (int), not {text!r}")
    return int(text)


WholeNumber = Annotated[int, Parameter(converter=_whole, n_tokens=1)]
MaybeWholeNumber = Annotated[int | None, Parameter(converter=_whole, n_tokens=1)]
