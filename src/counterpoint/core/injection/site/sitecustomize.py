"""Loads the package that COUNTERPOINT_AGENT names into a Python with this directory on PYTHONPATH.

Then it loads the sitecustomize that it shadows, if there is one. The directory is removed from
sys.path, so that nothing else is ever found in it; PYTHONPATH keeps it, for the processes that the
program starts.
"""

from __future__ import annotations

import contextlib
import importlib.machinery
import importlib.util
import os
import sys
from types import ModuleType
from typing import Any

_SITE = os.path.dirname(os.path.realpath(__file__))  # noqa: PTH120  pathlib is slow to import
_OURS = os.path.dirname(_SITE)  # noqa: PTH120
_NAME = "_counterpoint_agent"


def _enter(package: str) -> None:
    hook = _load("_counterpoint_import_hook", os.path.join(_OURS, "import_hook.py"))  # noqa: PTH118
    agent = _load(_NAME, os.path.join(package, "__init__.py"), package)  # noqa: PTH118
    agent.enter(hook.when_loaded, _keep_variables)


def _keep_variables(**settings: Any) -> Any:  # noqa: ANN401
    path = os.path.join(_OURS, "variables.py")  # noqa: PTH118
    return _load("_counterpoint_variables", path).KeptVariables(**settings)


def _load(name: str, path: str, package: str | None = None) -> ModuleType:
    places = None if package is None else [package]
    spec = importlib.util.spec_from_file_location(name, path, submodule_search_locations=places)
    if spec is None or spec.loader is None:
        raise ImportError(path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _give_way() -> None:
    sys.path[:] = [entry for entry in sys.path if os.path.realpath(entry) != _SITE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", sys.path)
    if spec is None or spec.loader is None:
        return
    shadowed = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = shadowed  # for `import sitecustomize` to find
    spec.loader.exec_module(shadowed)


if _NAME not in sys.modules:
    _package = os.environ.get("COUNTERPOINT_AGENT")
    if _package:
        with contextlib.suppress(Exception):  # the program must run even without an agent
            _enter(_package)
    _give_way()  # its errors must be visible
