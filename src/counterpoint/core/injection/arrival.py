"""Calls back once a module has been imported.

A finder at the head of all others recognizes the module, lets the others find it, and wraps the
loader they return while it loads. The module keeps its original loader.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


def when_loaded(name: str, then: Callable[[], None]) -> None:
    """Call `then` once, after `name` has been fully loaded; now if it already is."""
    module = sys.modules.get(name)
    if module is None:
        sys.meta_path.insert(0, _Watch(name, then))
        return
    spec = getattr(module, "__spec__", None)
    if not getattr(spec, "_initializing", False):
        _call(then)


def _call(then: Callable[[], None]) -> None:
    with suppress(Exception):  # `then` records its own errors; an import must not fail for it
        then()


class _Watch(MetaPathFinder):
    """Waits at the head of sys.meta_path."""

    def __init__(self, name: str, then: Callable[[], None]) -> None:
        self._name = name
        self._then = then
        self._asking = False

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._name or self._asking:
            return None
        self._asking = True  # a finder that uses importlib itself gets here again
        try:
            spec = self._ask_others(fullname, path, target)
        finally:
            self._asking = False
        if spec is not None and spec.loader is not None:
            spec.loader = _Loading(spec.loader, self._loaded)
        return spec

    def _ask_others(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None
    ) -> ModuleSpec | None:
        for finder in list(sys.meta_path):
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec = find(fullname, path, target) if find else None
            if spec is not None:
                return spec
        return None

    def _loaded(self) -> None:
        if self in sys.meta_path:  # ignore a reload
            sys.meta_path.remove(self)
            _call(self._then)


class _Loading(Loader):
    """The module's own loader, with a call when it has finished."""

    def __init__(self, own: Loader, loaded: Callable[[], None]) -> None:
        self._own = own
        self._loaded = loaded

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._own.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self._own
        module.__loader__ = self._own
        self._own.exec_module(module)  # on failure this loader stays, for another attempt
        self._loaded()

    def __getattr__(self, name: str) -> object:
        return getattr(self._own, name)
