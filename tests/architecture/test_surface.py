"""The names that a user of the package meets."""

from __future__ import annotations

from types import ModuleType

import counterpoint


def test_the_public_names_are_sorted_and_complete() -> None:
    assert counterpoint.__all__ == sorted(counterpoint.__all__)
    missing = [name for name in counterpoint.__all__ if not hasattr(counterpoint, name)]
    assert missing == []
    public = {
        name
        for name, value in vars(counterpoint).items()
        if not name.startswith("_") and not isinstance(value, ModuleType)
    }
    assert public <= {*counterpoint.__all__, "annotations", "import_module", "TYPE_CHECKING"}
