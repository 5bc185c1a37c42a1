"""Fixtures for every test: where the shared real profiles are, if they are here."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parent.parent


@pytest.fixture(scope="session")
def shared() -> Path:
    """The directory of real profiles that are not part of the project."""
    directory = Path(os.environ.get("COUNTERPOINT_SHARED", CHECKOUT.parent / "shared"))
    if not (directory / "data").is_dir():
        pytest.skip(f"real profiles are not here ({directory}/data); set COUNTERPOINT_SHARED")
    return directory
