"""Faces of packages: load exported names at first use, so that commands start quickly."""

from __future__ import annotations

import importlib
import linecache
import re
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Final

_EXPORT: Final = re.compile(r"^    from (\S+) import \(?\s*(\w+) as \2\b", re.MULTILINE)
_HOMES: dict[str, Mapping[str, str]] = {}


class _Face(ModuleType):
    """A package whose exported names are not replaced by its modules of the same name.

    Python binds each imported module to its package: without this, `from face import replay` would
    return the module `face.replay` if that had been loaded before.
    """

    def __setattr__(self, name: str, value: object) -> None:
        if not (isinstance(value, ModuleType) and name in _HOMES[self.__name__]):
            super().__setattr__(name, value)


def lazy(package: str) -> Callable[[str], object]:
    """Return the `__getattr__` of a package that passes names on from modules.

    They are what the package imports under `if TYPE_CHECKING`, so that each name is stated once:
    for type checkers, and, read from the source, for the interpreter.
    """
    found = _exports(package)

    def load(name: str) -> object:
        if name not in found:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value: object = getattr(importlib.import_module(found[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    _HOMES[package] = found
    sys.modules[package].__class__ = _Face
    return load


def _exports(package: str) -> Mapping[str, str]:
    module = sys.modules[package]
    source = "".join(linecache.getlines(module.__file__ or "", vars(module)))
    return {name: home for home, name in _EXPORT.findall(source)}
