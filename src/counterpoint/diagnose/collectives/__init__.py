"""Collectives of a step: exposure, slack, links, and the bound of each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterpoint.core import lazy

if TYPE_CHECKING:
    from counterpoint.diagnose.collectives.collectives import (
        exposed_executions as exposed_executions,
    )

__getattr__ = lazy(__name__)
