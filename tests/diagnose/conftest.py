"""For the tests of findings: how they read."""

from __future__ import annotations

import pytest
from finding_text import finding_text

from golden_files import Golden
from golden_sections import Said


@pytest.fixture
def said(request: pytest.FixtureRequest, golden: Golden) -> Said:
    """Compare findings, or texts of them, with this module's golden file."""
    return Said(request, golden, finding_text, wraps=True)
