"""Ray's own module, which leaves its types open, and takes seconds to import."""

from __future__ import annotations

import importlib
from typing import Any


def ray_api() -> Any:  # noqa: ANN401
    """It is imported where it is used: on the cluster."""
    return importlib.import_module("ray")


def in_bundle(group: Any, place: int) -> Any:  # noqa: ANN401
    """To be given to what shall run in one bundle of a placement group."""
    found: Any = importlib.import_module("ray.util.scheduling_strategies")
    return found.PlacementGroupSchedulingStrategy(group, place)


def on_node(name: str) -> Any:  # noqa: ANN401
    """To be given to what shall run on one node."""
    found: Any = importlib.import_module("ray.util.scheduling_strategies")
    return found.NodeAffinitySchedulingStrategy(name, soft=False)
