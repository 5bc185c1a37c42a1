"""Provides a package that the program imports for its attention and that is missing here.

Transformer Engine needs CUDA and a GPU even to be installed. If Python finds none, its modules for
attention are those of `transformer_engine`, which call the same kernels of cuDNN through JAX. A
package that is installed is never replaced.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

_ROOT = "transformer_engine"
_MODULES = (
    _ROOT,
    f"{_ROOT}.jax",
    f"{_ROOT}.jax.attention",
    f"{_ROOT}.jax.flax",
    f"{_ROOT}.jax.flax.transformer",
    f"{_ROOT}.jax.sharding",
)
_NOTE = (
    "transformer_engine is not installed here: JAX's cuDNN attention takes the place of its"
    " attention, as if it were installed on your cluster"
)


class StandInFinder(MetaPathFinder, Loader):
    """Finds the stand-in modules, after all other finders."""

    def __init__(self, used: Callable[[str], None]) -> None:
        self._used = used

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        del target
        root = sys.modules.get(_ROOT)
        is_ours = path is None or getattr(getattr(root, "__spec__", None), "loader", None) is self
        if fullname not in _MODULES or not is_ours:
            return None
        return ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        del spec
        return None  # Python makes it

    def exec_module(self, module: ModuleType) -> None:
        from . import transformer_engine

        if module.__name__ == f"{_ROOT}.jax":
            self._used(_NOTE)
        vars(module).update(transformer_engine.contents(module.__name__))


def install(used: Callable[[str], None]) -> None:
    """Serve what no other finder has; `used` gets a note once it is imported."""
    sys.meta_path.append(StandInFinder(used))
