"""Removes files of XLA's dump that are not read again.

`--xla_dump_hlo_as_proto` also writes LLVM IR, objects, PTX and a directory per module, and no flag
that all versions know prevents it; so they are removed when the process has ended.
"""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path
from typing import Final

KEPT: Final = (
    "after_optimizations.hlo.pb",
    "before_optimizations.hlo.pb",
    ".debug_options",
    "gpu_target_config.pbtxt",
    "autotune_results.pbtxt",
)


def prune_dump(directory: Path) -> None:
    """Remove unneeded files; ignore those that can't be removed."""
    if not directory.is_dir():
        return
    for path in directory.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        elif not path.name.endswith(KEPT):
            with suppress(OSError):
                path.unlink()
