"""`program`: a function and the shapes of its arguments as a Workload, lowered in this process.

Nothing is computed and no device is needed: arguments are shapes, or arrays whose shape is taken.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from counterpoint.compile.workload import Workload


def program(fn: Any, *args: Any, **kwargs: Any) -> Workload:
    """The function as a Workload, lowered for CUDA with these arguments.

    `fn` is jitted, or will be. Arguments are trees of `jax.ShapeDtypeStruct`, with shardings or
    without, or of arrays.
    """
    raise NotImplementedError
