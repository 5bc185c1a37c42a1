"""A function where --program wants a file: said in words, and how to get the file."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Final

from counterpoint.compile.inputs.lower_function import names_function
from counterpoint.core.errors import UsageError

_DUMPED: Final = "run it with XLA_FLAGS='--xla_dump_to=DIR --xla_dump_hlo_as_proto', and name DIR"
_WRITE: Final = (
    "from {module} import {name} as make; step, arguments = make({devices});"
    " lowered = step.trace(*arguments).lower(lowering_platforms=('cuda',));"
    " open('step.mlir', 'w').write(lowered.as_text(debug_info=True))"
)


def refuse_function(path: Path, *, scheduled: bool, devices: int = 8) -> None:
    """Refuse `file.py:make_step`, which only `predict` calls.

    `scheduled`: wanted is what XLA made of the step, and not the step.
    """
    if not names_function(str(path)):
        return
    raise UsageError(
        f"--program {path}: this is a function, and --program takes files and directories",
        why="only `counterpoint predict` calls functions",
        next=_DUMPED if scheduled else _written(path, devices),
    )


def _written(path: Path, devices: int) -> str:
    """A line that writes StableHLO; it runs where the file or the package lies."""
    home, _, name = path.name.partition(":")
    code = _WRITE.format(module=home.removesuffix(".py"), name=name, devices=devices)
    there = f"cd {shlex.quote(str(path.parent))} && " if path.parent != Path() else ""
    return (
        f"{there}JAX_PLATFORMS=cpu XLA_FLAGS=--xla_force_host_platform_device_count={devices}"
        f" python -c {shlex.quote(code)}; then --program step.mlir"
    )
