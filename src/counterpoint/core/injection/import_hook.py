"""Calls back when a module is about to be imported, and once it has been.

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


def _nothing() -> None: ...


def when_loaded(name: str, then: Callable[[], None], before: Callable[[], None] = _nothing) -> None:
    """Call `before` when `name` is loaded, and `then` after that; both now if it already is."""
    module = sys.modules.get(name)
    if module is None:
        sys.meta_path.insert(0, _Watch(name, before, then))
        return
    spec = getattr(module, "__spec__", None)
    if not getattr(spec, "_initializing", False):
        _call(before)
        _call(then)


def _call(then: Callable[[], None]) -> None:
    with suppress(Exception):  # it records its own errors; an import must not fail for it
        then()


class _Watch(MetaPathFinder):
    """Waits at the head of sys.meta_path."""

    def __init__(self, name: str, before: Callable[[], None], then: Callable[[], None]) -> None:
        self._name = name
        self._before = before
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
            spec.loader = _Loading(spec.loader, self._before, self._loaded)
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
    """The module's own loader, with a call before it begins and one when it has finished."""

    def __init__(self, own: Loader, before: Callable[[], None], loaded: Callable[[], None]) -> None:
        self._own = own
        self._before = before
        self._loaded = loaded

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._own.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self._own
        module.__loader__ = self._own
        _call(self._before)
        self._own.exec_module(module)  # on failure this loader stays, for another attempt
        self._loaded()

    def __getattr__(self, name: str) -> object:
        return getattr(self._own, name)
