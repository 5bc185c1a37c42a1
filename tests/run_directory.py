"""What one run of the tests makes once: its directory is the same in all of pytest's workers."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class RunDirectory:
    """A directory that lives as long as the run, and what is made in it by whoever comes first."""

    path: Path

    def once(self, name: str, make: Callable[[Path], object]) -> Path:
        """The directory that `make` filled, here or in another worker; nothing there is changed.

        Another worker waits for it. Where `make` fails the next one tries again, and fails itself.
        """
        made, whole = self.path / name, self.path / f"{name}.whole"
        with (self.path / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not whole.exists():
                shutil.rmtree(made, ignore_errors=True)
                made.mkdir()
                make(made)
                whole.touch()
        return made


def run_directory_of(factory: pytest.TempPathFactory) -> RunDirectory:
    """Each of xdist's workers has a base of its own below that of the run."""
    base = factory.getbasetemp()
    path = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "once"
    path.mkdir(exist_ok=True)
    return RunDirectory(path)
