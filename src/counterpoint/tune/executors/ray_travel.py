"""What travels to a cluster of Ray, which may have no Counterpoint, and not the user's files."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import counterpoint
from counterpoint.tune.executors.ray_wire import NEEDS, PATIENCE

LIMIT_MIB: Final = 500
"""Ray takes no larger working directory; older ones 100 MiB."""
_NEEDED: Final = ("cyclopts", "attr", "attrs", "docstring_parser", "rich")
"""Pure Python, all of them: what `counterpoint run` imports, and to tell of errors."""
_STOP_S: Final = "90"
_SETTINGS: Final = ("XLA_", "JAX_", "NCCL_", "LIBTPU_")
_NOT_THOSE: Final = ("JAX_COORDINATOR", "JAX_PROCESS", "JAX_NUM_PROCESSES", "JAX_LOCAL_DEVICE")
_SKIPPED: Final = ("__pycache__", "*.pyc")


def our_environment(stage: Path) -> dict[str, object]:
    """Our package and what it needs, for the first job of an allocation; `stage` is emptied later.

    It is always this version that runs there, also where another one is installed.
    """
    needs = stage / NEEDS
    needs.mkdir()
    for name in _NEEDED:
        found = importlib.util.find_spec(name)
        if found is not None and found.origin is not None:
            source = Path(found.origin).parent
            shutil.copytree(source, needs / name, ignore=shutil.ignore_patterns(*_SKIPPED))
    ours = stage / "counterpoint"
    package = Path(counterpoint.__file__).parent
    shutil.copytree(package, ours, ignore=shutil.ignore_patterns(*_SKIPPED))
    return {"py_modules": [str(ours), str(needs)], "env_vars": {PATIENCE: _STOP_S}}


def job_environment(modules: object, ship: Path | None, left_out: Path) -> dict[str, object]:
    """For a trial: the same modules, and the working directory where the nodes lack it."""
    found: dict[str, object] = {"py_modules": modules, "env_vars": {PATIENCE: _STOP_S}}
    if ship is not None:
        found["working_dir"] = str(ship)
        inside = left_out.is_relative_to(ship) and left_out != ship
        study = [f"/{left_out.relative_to(ship).as_posix()}/"] if inside else []
        found["excludes"] = [*study, "/counterpoint-runs/", *_SKIPPED]
    return found


def settings_of(environ: Mapping[str, str]) -> dict[str, str]:
    """What of the tuner's own environment counts as settings, and so holds for its trials.

    The rest says where the tuner is, or is secret; there the nodes have their own.
    """
    return {
        name: text
        for name, text in environ.items()
        if name.startswith(_SETTINGS) and not name.startswith(_NOT_THOSE)
    }
