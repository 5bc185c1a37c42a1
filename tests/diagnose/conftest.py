"""For the tests of rules: how findings read."""

from __future__ import annotations

import pytest
from findings_said import Said

from golden import Golden


@pytest.fixture
def said(request: pytest.FixtureRequest, golden: Golden) -> Said:
    """Compare whole findings with this module's golden file."""
    return Said(request, golden)
