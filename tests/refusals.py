"""What an error says in whole, for golden texts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from counterpoint.core.errors import CounterpointError
from growing_lists import without_lists


def refusal(attempt: Callable[[], object], place: Path | None = None) -> str:
    """The exit status and the text of the error that an attempt ends with."""
    with pytest.raises(CounterpointError) as told:
        attempt()
    text = f"exit {told.value.exit_code}\n{told.value}"
    return without_lists(text.replace(str(place), "DIR") if place else text)
