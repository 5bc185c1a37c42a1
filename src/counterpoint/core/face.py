"""Faces of packages: load exported names at first use, so that commands start quickly."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from types import ModuleType

_HOMES: dict[str, Mapping[str, str]] = {}


class _Face(ModuleType):
    """A package whose exported names are not replaced by its modules of the same name.

    Python binds each imported module to its package: without this, `from face import replay` would
    return the module `face.replay` if that had been loaded before.
    """

    def __setattr__(self, name: str, value: object) -> None:
        if not (isinstance(value, ModuleType) and name in _HOMES[self.__name__]):
            super().__setattr__(name, value)


def lazy(package: str, homes: Mapping[str, str]) -> Callable[[str], object]:
    """Return the `__getattr__` of a package whose names are in the modules given by `homes`."""

    def load(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value: object = getattr(importlib.import_module(homes[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    _HOMES[package] = homes
    sys.modules[package].__class__ = _Face
    return load
