"""`lower_function`: a function of a file, lowered for any number of devices in a child process.

    def make_step(devices):              # of file.py; any name
        mesh = jax.make_mesh((devices,), ("data",))
        return step, (state, batch)      # a function and its abstract arguments, or a Workload
"""

from __future__ import annotations

from pathlib import Path

from counterpoint.compile.workload import Workload


def names_function(text: str) -> bool:
    """Whether this is `file.py:function` or `package.module:function`."""
    raise NotImplementedError


def lower_function(
    text: str, *, devices: int, directory: Path, timeout_s: float = 900.0
) -> Workload:
    """Call `file.py:function` with a number of devices, and lower what it returns."""
    raise NotImplementedError
