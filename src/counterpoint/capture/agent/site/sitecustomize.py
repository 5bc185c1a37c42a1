"""Brings the agent into an interpreter that has this directory on its PYTHONPATH.

Then it makes room for the sitecustomize it stands in front of, if there is one. The directory
leaves sys.path, so that nothing else is ever found in it; PYTHONPATH keeps it, for the processes
that the program starts.
"""

from __future__ import annotations

import contextlib
import importlib.machinery
import importlib.util
import os
import sys

_SITE = os.path.dirname(os.path.realpath(__file__))  # noqa: PTH120  pathlib is slow to import
_AGENT = os.path.dirname(_SITE)  # noqa: PTH120
_NAME = "_counterpoint_agent"


def _enter() -> None:
    spec = importlib.util.spec_from_file_location(
        _NAME,
        os.path.join(_AGENT, "__init__.py"),  # noqa: PTH118
        submodule_search_locations=[_AGENT],
    )
    if spec is None or spec.loader is None:
        return
    agent = importlib.util.module_from_spec(spec)
    sys.modules[_NAME] = agent
    spec.loader.exec_module(agent)
    agent.enter()


def _give_way() -> None:
    sys.path[:] = [entry for entry in sys.path if os.path.realpath(entry) != _SITE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", sys.path)
    if spec is None or spec.loader is None:
        return
    shadowed = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = shadowed  # what `import sitecustomize` is to find
    spec.loader.exec_module(shadowed)


if _NAME not in sys.modules:
    with contextlib.suppress(Exception):  # without an agent the program still has to run
        _enter()
    _give_way()  # what that one raises is not ours to hide
