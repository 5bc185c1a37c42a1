"""A stand-in for the CUDA toolkit, which XLA calls after scheduling although nothing will run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from counterpoint.core import UsageError

_ASSEMBLER: Final = """\
#!/bin/sh
[ "$1" = --version ] && echo 'Cuda compilation tools, release 13.0, V13.0.88' && exit
while [ $# -gt 0 ]; do
  case $1 in -o) printf x >"$2"; exit ;; esac
  shift
done
"""
# LLVM bitcode of an empty module: the magic, and a module block (8) with the one record that a
# reader requires, its version (1).
_EMPTY_BITCODE: Final = bytes.fromhex("4243c0de 210c0000 01000000 0b820000")


def write_toolkit(directory: Path) -> Path:
    """Write the stand-in toolkit, for `xla_gpu_cuda_data_dir`."""
    tools = directory / "bin"
    tools.mkdir(parents=True)
    for name in ("ptxas", "nvlink"):
        tool = tools / name
        tool.write_text(_ASSEMBLER)
        tool.chmod(0o755)
        if not os.access(tool, os.X_OK):  # then XLA would look for a real toolkit, and mix the two
            raise UsageError(
                f"programs cannot be executed in {directory}",
                why="its file system is mounted with noexec, and XLA calls an assembler",
                next="TMPDIR=/a/directory/where/programs/run counterpoint ...",
            )
    device = directory / "nvvm" / "libdevice"
    device.mkdir(parents=True)
    (device / "libdevice.10.bc").write_bytes(_EMPTY_BITCODE)
    return directory
