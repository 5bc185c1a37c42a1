"""Ray: each trial is a gang of actors, one on each node of a placement group that many trials use.

The tuner is a driver of the cluster. When it dies, Ray releases the nodes and ends its actors, and
with them the supervisors of all ranks.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Final

from counterpoint.core import UsageError
from counterpoint.tune.executors.executor import Executor, ExecutorKind, PlaceRequest


@dataclass(frozen=True)
class RayOptions:
    """Which cluster trials run on.

    Args:
        ray_address: Address of the Ray cluster; default: the one that Ray finds.
    """

    ray_address: str | None = None


def _make(request: PlaceRequest[RayOptions]) -> Executor:
    if find_spec("ray") is None:
        raise UsageError(
            "--executor ray: Ray is not installed here",
            why="Ray itself places trials on its clusters",
            next="pip install 'counterpoint[ray]'",
        )
    from counterpoint.tune.executors.ray_gang import Ray

    return Ray(
        name=RAY.name,
        shape=request.shape,
        address=request.options.ray_address,
        say=request.say,
        stopped=request.stopped,
        ending=request.ending,
    )


RAY: Final = ExecutorKind(
    name="ray",
    summary="actors in a Ray cluster",
    make=_make,
    options=RayOptions,
    variables=("RAY_ADDRESS",),
    holds_nodes=True,
    has_own_python=True,
)
