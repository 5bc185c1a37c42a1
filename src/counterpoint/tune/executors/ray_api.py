"""Ray's own module, which leaves its types open, and takes seconds to import."""

from __future__ import annotations

import importlib
import sys
from typing import Any, Final

NO_RAY: Final = "which has no Ray"


def ray_api() -> Any:  # noqa: ANN401
    """It is imported where it is used: on the cluster.

    A job's `python` is whichever PATH has there: where another one's Ray was started by its path,
    Ray's own directories may still be found as an empty module of that name.
    """
    try:
        found: Any = importlib.import_module("ray")
    except ImportError:
        found = None
    if not hasattr(found, "init"):
        raise SystemExit(f"`python` is {sys.executable} on the head node, {NO_RAY}")
    return found


def in_bundle(group: Any, place: int) -> Any:  # noqa: ANN401
    """To be given to what shall run in one bundle of a placement group."""
    found: Any = importlib.import_module("ray.util.scheduling_strategies")
    return found.PlacementGroupSchedulingStrategy(group, place)


def on_node(name: str) -> Any:  # noqa: ANN401
    """To be given to what shall run on one node."""
    found: Any = importlib.import_module("ray.util.scheduling_strategies")
    return found.NodeAffinitySchedulingStrategy(name, soft=False)
