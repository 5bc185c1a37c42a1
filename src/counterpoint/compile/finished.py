"""`load_scheduled`: a module that XLA is through with, which can be simulated as it is."""

from __future__ import annotations

from pathlib import Path

from counterpoint.hlo import Program


def load_scheduled(path: Path | str, module: str | None = None) -> Program | None:
    """The scheduled module at a path that holds nothing to compile again; None where it does."""
    raise NotImplementedError
